"""A step on a state like one before: where each of its arrays goes is known from then.

To ask all that a first call asks of a state of 600 arrays, to take it apart and to nest it again
takes longer than to call the program.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter, is_, itemgetter, methodcaller
from typing import Any
from weakref import ref

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from relaxjax.ops.lax import matmul_precision, x64_enabled
from relaxjax.ops.platform import chosen_platform

from .step_trees import Arrays, is_array

_PLACED = attrgetter("aval", "sharding", "committed")
_IS_DELETED = methodcaller("is_deleted")


@dataclass(frozen=True)
class Call:
    """A state and a batch as leaves, and all that a step is made for, which no number is."""

    of_state: Arrays
    of_batch: Arrays
    trees: tuple[Any, Any]
    kind: tuple[Any, ...]  # but for the kinds of the state's arrays
    after: "Again | None"  # which has given the very arrays of the state

    @staticmethod
    def of(state: Any, batch: Any, latest: "Latest | None") -> "Call | None":
        """None where JAX traces a part of it."""
        of_state, tree = jax.tree.flatten(state)
        of_batch, nesting = jax.tree.flatten(batch)
        if any(issubclass(one, Tracer) for one in {*map(type, of_state), *map(type, of_batch)}):
            return None
        settings = chosen_platform(), x64_enabled(), matmul_precision()
        kind = nesting, tuple(map(_kind, of_batch)), tree, settings
        after = None if latest is None else latest.given_by(state, of_state)
        return Call(tuple(of_state), tuple(of_batch), (tree, nesting), kind, after)

    @cached_property
    def of_kinds(self) -> tuple[Any, ...]:
        """The kinds of the state's leaves."""
        return _kinds(self.of_state)

    @property
    def leaves(self) -> Arrays:
        return *self.of_state, *self.of_batch

    def numbered(self) -> tuple[Any, Any]:
        """The state and the batch, with the place of each array in its stead."""
        count = len(self.of_state)
        taken = [*map(_is_moved, self.of_state), *map(is_array, self.of_batch)]
        marked = [
            _Place(place) if is_taken else leaf
            for place, (leaf, is_taken) in enumerate(zip(self.leaves, taken, strict=True))
        ]
        state, batch = map(jax.tree.unflatten, self.trees, (marked[:count], marked[count:]))
        return state, batch


class Again:
    """A call of a program for states and batches of one kind, made after the first of them."""

    most = 16  # of a step: a new call is compared with each

    def __init__(
        self, call: Call, arguments: Any, found: Any, state_after: Callable[[Any], Any]
    ) -> None:
        """Of the arguments for a call with places, what the program found, and what becomes of it.

        The arguments are four groups, which are the state, and inputs. The new state is made of
        what was found, with places for its arrays, too.
        """
        results, tree = jax.tree.flatten(found)
        places = jax.tree.unflatten(tree, list(map(_Place, range(len(results)))))
        self._kind, self._of_kinds = call.kind, call.of_kinds
        self._keeps_kinds: bool | None = None  # whether the new state is of the old one's kinds
        self._taken = _Moved(arguments, len(call.leaves))
        self._used_up = len(jax.tree.leaves(arguments[:4]))
        self._given = _Moved(state_after(places), len(results))
        kinds = [isinstance(leaf, jax.Array) for leaf in self._taken.leaves(call.leaves)]
        self._arrays = _chosen([place for place, is_one in enumerate(kinds) if is_one])

    def arguments(self, call: Call | None) -> Any | None:
        """What the program takes; None for another kind, and where an array is gone or twice."""
        if call is None or call.kind != self._kind:
            return None
        if call.after is not self and call.of_kinds != self._of_kinds:
            return None
        leaves = self._taken.leaves(call.leaves)
        used_up = {*map(id, leaves[: self._used_up])}
        is_twice = len(used_up) < self._used_up or not used_up.isdisjoint(
            map(id, leaves[self._used_up :])
        )
        if is_twice or any(map(_IS_DELETED, self._arrays(leaves))):
            return None
        return jax.tree.unflatten(self._taken.tree, leaves)

    def latest(self, found: Any) -> "tuple[Any, Latest | None]":
        """The state that the program leaves, and what is known of it if it is of the same kind."""
        leaves = self._given.leaves(jax.tree.leaves(found))
        state = jax.tree.unflatten(self._given.tree, leaves)
        if self._keeps_kinds is None:
            self._keeps_kinds = _kinds(leaves) == self._of_kinds
        return state, Latest(state, leaves, self) if self._keeps_kinds else None


class Latest:
    """The state that a step has given last, and what it is made of as long as anyone has it."""

    def __init__(self, state: Any, leaves: Arrays, again: Again) -> None:
        self._again = again
        self._held = held = [leaves]
        self._state = ref(state, lambda _: held.clear())

    def given_by(self, state: Any, leaves: Sequence[Any]) -> Again | None:
        """What has given this state, if nobody has put other arrays into its dicts since.

        To compare the kinds of all its arrays again would take as long as to take it apart.
        """
        if self._state() is not state or len(leaves) != len(self._held[0]):
            return None
        return self._again if all(map(is_, leaves, self._held[0])) else None


class _Place(np.int64):
    """The place of an array among leaves, which stands for it while these are taken apart."""


class _Moved:
    """Leaves of one nesting in another one, with constants among them."""

    def __init__(self, numbered: Any, count: int) -> None:
        """Of a nesting with places among so many leaves; what else is in it are constants."""
        leaves, self.tree = jax.tree.flatten(numbered)
        self._constants = [leaf for leaf in leaves if not isinstance(leaf, _Place)]
        behind = iter(range(count, count + len(self._constants)))
        self._choose = _chosen(
            [int(leaf) if isinstance(leaf, _Place) else next(behind) for leaf in leaves]
        )

    def leaves(self, given: Sequence[Any]) -> Arrays:
        return self._choose((*given, *self._constants))


def _chosen(places: Sequence[int]) -> Callable[[Sequence[Any]], Arrays]:
    """What picks these places; one alone is given as it is by `itemgetter`."""
    if len(places) < 2:
        return lambda leaves: tuple(leaves[place] for place in places)
    return itemgetter(*places)


def has_keys(state: Any) -> bool:
    """Whether an optimizer's state has keys of random numbers, which a step takes as their data."""
    dtypes = (getattr(leaf, "dtype", None) for leaf in jax.tree.leaves(state))
    return any(dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) for dtype in dtypes)


def _kinds(of_state: Sequence[Any]) -> tuple[Any, ...]:
    """The kinds of a state's leaves, which mostly are arrays of JAX."""
    try:
        return tuple(map(_PLACED, of_state))
    except AttributeError:
        return tuple(_kind(leaf) if _is_moved(leaf) else (type(leaf), leaf) for leaf in of_state)


def _is_moved(leaf: Any) -> bool:
    """Whether a leaf of a state is an array; a number of Python may be an option of a model."""
    return is_array(leaf) and not isinstance(leaf, int | float | complex)


def _kind(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array):
        return _PLACED(leaf)
    return type(leaf), jax.typeof(leaf) if is_array(leaf) else leaf
