"""What a function returns beside its loss: arrays, and other leaves, which no program holds."""

from collections.abc import Mapping
from typing import Any

import jax


class AuxiliaryOutput:
    """Flattens a tree into its arrays, and puts it together again with its other leaves."""

    def __init__(self) -> None:
        self._tree: Any = None
        self._others: dict[int, Any] = {}

    def flatten(self, tree: Any, own: Mapping[int, Any]) -> list[Any]:
        """The arrays of a tree; its other leaves are kept.

        So are arrays of the caller's `own`, by the ids of what is traced instead of them.
        """
        leaves, self._tree = jax.tree.flatten(tree)
        leaves = [own.get(id(leaf), leaf) for leaf in leaves]
        self._others = {
            index: leaf for index, leaf in enumerate(leaves) if not isinstance(leaf, jax.Array)
        }
        return [leaf for leaf in leaves if isinstance(leaf, jax.Array)]

    def unflatten(self, arrays: list[Any]) -> Any:
        """The tree that was flattened last, with these arrays instead of its own."""
        given = iter(arrays)
        indices = range(self._tree.num_leaves)
        leaves = [self._others[i] if i in self._others else next(given) for i in indices]
        return jax.tree.unflatten(self._tree, leaves)
