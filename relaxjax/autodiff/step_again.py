"""A step on a state and a batch like those of one before.

To ask all that a first step asks of a state of 600 arrays, to take it apart and to nest it again
takes longer than to call the program. A compiled program takes arrays in any nesting that has them
in its order, so that JAX itself does all that, as for a function under `jax.jit`.
"""

from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter, itemgetter
from typing import Any
from weakref import ref

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.errors import JaxRuntimeError

from relaxjax.ops.lax import matmul_precision, x64_enabled
from relaxjax.ops.platform import chosen_platform

from .step_trees import Arrays, check_dtypes, is_array

_PLACED = attrgetter("aval", "sharding", "committed")
_REFUSED = "INVALID_ARGUMENT"  # as XLA says it of arrays that are gone, or given twice
_Call = Callable[[Any, Any], tuple[Any, Any]]  # from a state and a batch to a state and a value


def kind_of(batch: Any) -> tuple[Any, ...]:
    """What a step is made for but for its state: the types of the batch, and the user's settings.

    Python's own numbers in a batch are arrays, and any other leaf is an option.
    """
    leaves, nesting = jax.tree.flatten(batch)
    try:
        kinds = tuple(map(_kind, leaves))
    except TypeError:
        check_dtypes(batch=batch)
        raise
    return nesting, kinds, chosen_platform(), x64_enabled(), matmul_precision()


def is_watched() -> bool:
    """Whether JAX is told to look at each number or operator, for which a step is called anew."""
    config: Any = jax.config
    return bool(config.jax_disable_jit or config.jax_debug_nans or config.jax_debug_infs)


class Again:
    """A call of a compiled program for states and batches of one kind, after a first one."""

    most = 16  # of a step: a batch is compared with the kind of each

    def __init__(self, kind: Hashable, state: Any, call: _Call) -> None:
        self.kind = kind
        self._of_state = _kinds(state)
        self._keeps_kinds: bool | None = None  # whether the next state is of the same kinds
        self._latest: ref[Any] | None = None  # the state that it has given last, then
        self._call = call

    def __call__(self, state: Any, batch: Any) -> tuple[Any, Any] | None:
        """The next state and the value; None where the state is of another kind, or is wrong.

        To compare the kinds of all arrays takes as long as to call the program. Where others have
        been put into the state that was given last, JAX finds what is wrong before it runs, and
        nothing is used up.
        """
        is_latest = self._latest is not None and self._latest() is state
        if is_watched() or _is_gone(state) or not (is_latest or _kinds(state) == self._of_state):
            return None
        try:
            result = self._call(state, batch)
        except (TypeError, ValueError, RuntimeError) as error:
            if isinstance(error, JaxRuntimeError) and _REFUSED not in str(error):
                raise  # as it ran
            return None
        if self._keeps_kinds is None:
            self._keeps_kinds = _kinds(result[0]) == self._of_state
        self._latest = ref(result[0]) if self._keeps_kinds else None
        return result


def call_again(
    program: Any,
    given: tuple[Any, Any],
    captured: Arrays,
    arguments_of: Callable[[Any, Any], Any],
    results_of: Callable[[Any], tuple[Any, Any]],
) -> _Call:
    """A call of a compiled program for states and batches nested as the two `given`.

    `arguments_of` takes them apart for the program, which takes what is `captured`, too, and
    `results_of` makes the next state and the value of what it gives.
    """
    taken = arguments_of(*_numbered(given))
    order = [int(place) for place in jax.tree.leaves(taken)]
    count = program.out_tree.num_leaves
    new = results_of(jax.tree.unflatten(program.out_tree, list(map(_Place, range(count)))))
    if order == [*range(len(jax.tree.leaves(given)))] and jax.tree.leaves(new) == [*range(count)]:
        nested: Callable[..., tuple[Any, Any]] = _nested(program, (*given, captured), new)
        return lambda state, batch: nested(state, batch, captured)
    flat = _nested(program, (tuple(order), captured), tuple(range(count)))
    return _by_leaves(flat, given, captured, order, new)


def _nested(program: Any, arguments: tuple[Any, ...], results: Any) -> Any:
    """A compiled program that takes and gives its arrays as they are nested here."""
    nesting = jax.tree.structure((arguments, {}))
    return jax.stages.Compiled(
        program._executable,
        program._params.const_args,
        jax.tree.unflatten(nesting, jax.tree.leaves(program.args_info)),
        jax.tree.structure(results),
        no_kwargs=True,
    )


def _by_leaves(
    flat: Any, given: tuple[Any, Any], captured: Arrays, order: list[int], new: tuple[Any, Any]
) -> _Call:
    """A call that takes states and batches apart itself, where options are among their arrays."""
    leaves, tree = jax.tree.flatten(given)
    nesting: Any = tree
    options = [(place, leaf) for place, leaf in enumerate(leaves) if place not in {*order}]
    results, new_nesting = jax.tree.flatten(new)
    taken = _chosen(order)

    def call(state: Any, batch: Any) -> tuple[Any, Any]:
        leaves, found = jax.tree.flatten((state, batch))
        if found != nesting or not all(_is_same(leaves[n], option) for n, option in options):
            raise TypeError("a state with other options is not taken")
        given = flat(taken(leaves), captured)
        whole = [given[leaf] if isinstance(leaf, _Place) else leaf for leaf in results]
        new: tuple[Any, Any] = jax.tree.unflatten(new_nesting, whole)
        return new

    return call


class _Place(np.int64):
    """The place of an array among leaves, which stands for it while these are taken apart."""


def _numbered(given: tuple[Any, Any]) -> Any:
    """A state and a batch, with the place of each array in its stead."""
    state, _ = given
    of_state = len(jax.tree.leaves(state))
    leaves, nesting = jax.tree.flatten(given)
    are_taken = [*map(_is_moved, leaves[:of_state]), *map(is_array, leaves[of_state:])]
    marked = [
        _Place(place) if is_taken else leaf
        for place, (leaf, is_taken) in enumerate(zip(leaves, are_taken, strict=True))
    ]
    return jax.tree.unflatten(nesting, marked)


def _chosen(places: Sequence[int]) -> Callable[[Sequence[Any]], Arrays]:
    """What picks these places; one alone is given as it is by `itemgetter`."""
    if len(places) < 2:
        return lambda leaves: tuple(leaves[place] for place in places)
    return itemgetter(*places)


def has_keys(state: Any) -> bool:
    """Whether an optimizer's state has keys of random numbers, which a step takes as their data."""
    dtypes = (getattr(leaf, "dtype", None) for leaf in jax.tree.leaves(state))
    return any(dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) for dtype in dtypes)


def _is_moved(leaf: Any) -> bool:
    """Whether a leaf of a state is an array; a number of Python may be an option of a model."""
    return is_array(leaf) and not isinstance(leaf, int | float | complex)


def _is_same(leaf: Any, option: Any) -> bool:
    return leaf is option or (type(leaf) is type(option) and bool(leaf == option))


def _is_gone(state: Any) -> bool:
    """Whether a state was given to a step before, as its count tells."""
    count = getattr(state, "step", None)
    return isinstance(count, jax.Array) and count.is_deleted()


def _kinds(state: Any) -> tuple[Any, ...]:
    """The kinds of a state's leaves, which mostly are arrays of JAX."""
    leaves, nesting = jax.tree.flatten(state)
    try:
        return nesting, *map(_PLACED, leaves)
    except AttributeError:
        each = (_kind(leaf) if _is_moved(leaf) else (type(leaf), leaf) for leaf in leaves)
        return nesting, *each


def _kind(leaf: Any) -> Any:
    if isinstance(leaf, Tracer):
        return Tracer
    if isinstance(leaf, jax.Array):
        return _PLACED(leaf)
    return type(leaf), jax.typeof(leaf) if is_array(leaf) else leaf
