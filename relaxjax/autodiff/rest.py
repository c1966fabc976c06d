"""What a function returns beside its loss: arrays, and anything else, which no program holds."""

from collections.abc import Mapping
from typing import Any

import jax


class Rest:
    """Takes a nesting apart into arrays and what else there is, and puts it together again."""

    def __init__(self) -> None:
        self._tree: Any = None
        self._others: dict[int, Any] = {}

    def apart(self, nesting: Any, own: Mapping[int, Any]) -> list[Any]:
        """The arrays of a nesting; the rest of it is kept.

        So are arrays of the caller's `own`, by the ids of what is traced in their place.
        """
        leaves, self._tree = jax.tree.flatten(nesting)
        leaves = [own.get(id(leaf), leaf) for leaf in leaves]
        self._others = {
            place: leaf for place, leaf in enumerate(leaves) if not isinstance(leaf, jax.Array)
        }
        return [leaf for leaf in leaves if isinstance(leaf, jax.Array)]

    def together(self, arrays: list[Any]) -> Any:
        """The nesting that was taken apart last, with these arrays in the place of its own."""
        given = iter(arrays)
        places = range(self._tree.num_leaves)
        leaves = [self._others[p] if p in self._others else next(given) for p in places]
        return jax.tree.unflatten(self._tree, leaves)
