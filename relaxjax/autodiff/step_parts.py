"""A loss of a batch as the mean over its parts, of which one at a time is held."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from relaxjax.frontends.moving import MovingOperands, can_vary
from relaxjax.ops.lax import open_program

from .auxiliary_output import AuxiliaryOutput
from .loss_result import check_result
from .step_trees import Nesting, apart, check_alike

# The arrays of a part of the batch, and its random key if the loss takes one.
_Own: TypeAlias = tuple[Sequence[Any], Sequence[Any]]


def in_parts(
    loss: Callable[..., Any], parts: int, has_states: bool, has_key: bool, has_aux: bool
) -> Callable[..., Any]:
    """A loss of the same arguments, which it takes in a loop over so many parts of the batch.

    It is the mean over the parts. What is kept for the gradients is that of one part at a time:
    each part goes back as soon as it has gone forward, as JoinLoops has it. The model state goes
    from one part to the next; where losses depend on it, and gradients go back through it, what is
    kept for a part is computed again. Of what the loss gives beside itself, single numbers are
    means, too, and arrays of the parts are joined along their first axis.
    """

    def run(params: Any, *rest: Any) -> Any:
        given = list(rest)
        state = given.pop(0) if has_states else None
        arrays, nesting = apart(given.pop(0))
        old, of_states = apart(state)
        aux = AuxiliaryOutput()

        def of_part(states: Any, own: _Own) -> Any:
            pieces, keys = iter(own[0]), own[1]
            batch = nesting.nested([next(pieces) if jnp.ndim(a) else a for a in arrays])
            before = [of_states.nested(states)] if has_states else []
            result = loss(params, *before, batch, *keys)
            check_result(result, has_aux or has_states)
            return result if has_aux or has_states else (result, None)

        split = [_split(array, parts) for array in arrays if jnp.ndim(array)]
        keys = [jax.random.split(key, parts) for key in given]
        goes_through_states = _depends_on_states(of_part, tuple(old), (split, keys))

        def part(states: Any, own: _Own) -> Any:
            value, beside = of_part(states, own)
            if has_states:
                new, beside = new_states(beside, of_states, states)
                states = tuple(new) if goes_through_states else jax.lax.stop_gradient(tuple(new))
            others = aux.flatten(beside, {}) if has_aux else []
            return states, (value, jax.lax.stop_gradient(others))

        again = jax.checkpoint(part, prevent_cse=False)
        states, (values, others) = jax.lax.scan(again, tuple(old), (split, keys))
        value = jnp.mean(values)
        beside = aux.unflatten([_joined(array) for array in others]) if has_aux else None
        if has_states:
            return value, (of_states.nested(states), beside)
        return (value, beside) if has_aux else value

    return run


def _depends_on_states(of_part: Callable[..., Any], states: Any, own: "_Own") -> bool:
    """Whether the loss of a part depends smoothly on the model states, those that it was given."""
    if not any(can_vary(jax.typeof(state)) for state in states):
        return False
    first = jax.tree.map(lambda array: array[0], own)
    program = jax.make_jaxpr(lambda given: of_part(given, first)[0])(states)
    return any(MovingOperands().read(open_program(program), [True] * len(states)))


def new_states(beside: Any, nesting: Nesting, old: Sequence[Any]) -> tuple[Sequence[Any], Any]:
    """The new model states, of what a loss gives beside its value, and what else that is."""
    if not isinstance(beside, tuple | list) or len(beside) != 2:
        raise TypeError(
            "a loss with a model state must return `(value, (model_state, aux))`, with None for "
            f"no aux, but beside the value it returned {type(beside).__name__}"
        )
    new, aux = beside
    return check_alike(new, nesting, old), aux


def check_divides(batch: Any, key: Any, parts: Any) -> None:
    """Raise where the arrays of a batch cannot be taken apart into so many equal parts.

    Where there are none, each part may have a random key of its own.
    """
    if isinstance(parts, bool) or not isinstance(parts, int | np.integer) or parts < 1:
        raise ValueError(f"`accumulate` must be an integer of at least 1, but it is {parts!r}")
    first: tuple[str, int] | None = None
    for path, leaf in jax.tree_util.tree_leaves_with_path(batch):
        if parts == 1 or not jnp.ndim(leaf):
            continue
        name, size = f"batch{jax.tree_util.keystr(path)}", jnp.shape(leaf)[0]
        if size % parts:
            raise ValueError(
                f"accumulate={parts} takes a batch in {parts} equal parts, but the first "
                f"dimension of {name} is {size}: give a batch size that {parts} divides"
            )
        first = first or (name, size)
        if size != first[1]:
            raise ValueError(
                f"accumulate={parts} splits all arrays of a batch along their first dimension, "
                f"but that of {first[0]} is {first[1]} and that of {name} is {size}: what is no "
                "sample of the batch belongs in the model state"
            )
    if parts > 1 and first is None and key is None:
        raise ValueError(
            f"accumulate={parts} takes a batch in {parts} equal parts, but it has no array with a "
            "dimension of samples: leave `accumulate` out, or give such arrays"
        )


def _split(array: Any, parts: int) -> Any:
    shape = jnp.shape(array)
    return jnp.reshape(array, (parts, shape[0] // parts, *shape[1:]))


def _joined(parts: Any) -> Any:
    """One array of those of the parts, the mean where they are single numbers.

    Random keys have no mean: a single one of each part is one of an array.
    """
    if parts.ndim == 1 and not jnp.issubdtype(parts.dtype, jax.dtypes.prng_key):
        return jnp.mean(parts)
    return jnp.reshape(parts, (-1, *parts.shape[2:]))
