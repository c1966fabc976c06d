"""Folds by any function as a tree of its calls: what it is called with has a derivative then."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.extend import core

# Takes the scalars of two sides, and gives as many as one side has.
Combine: TypeAlias = Callable[..., Sequence[Any]]


def fold_written_out(eqn: Any) -> core.ClosedJaxpr:
    """What a `lax.reduce` over axes of known lengths computes, as a tree."""
    count, axes = len(eqn.invars) // 2, eqn.params["dimensions"]
    combine = core.jaxpr_as_fun(eqn.params["jaxpr"])

    def folded(*values: Any) -> Sequence[Any]:
        return folded_by_tree(combine, values[:count], values[count:], axes)

    return jax.make_jaxpr(folded)(*(var.aval for var in eqn.invars))


def folded_by_tree(
    combine: Combine, operands: Sequence[Any], starts: Sequence[Any], axes: Sequence[int]
) -> Sequence[Any]:
    """Neighbours combined until one element is left, in their order: it tells equals apart."""
    values = [_reduced_axes_first(operand, axes) for operand in operands]
    while (count := len(values[0])) > 1:
        half = count // 2
        pairs = [value[: 2 * half].reshape(half, 2, *value.shape[1:]) for value in values]
        sides = [pair[:, side] for side in (0, 1) for pair in pairs]
        rest = [value[2 * half :] for value in values]
        together = _on_all(combine, sides)
        values = [jnp.concatenate(parts) for parts in zip(together, rest, strict=True)]
    shape = values[0].shape[1:]
    first = [jnp.broadcast_to(start, shape) for start in starts]
    return _on_all(combine, [*first, *(value[0] for value in values)]) if count else first


def _reduced_axes_first(operand: Any, axes: Sequence[int]) -> Any:
    """The axes to reduce as one, before the others."""
    moved = jnp.moveaxis(operand, axes, range(len(axes)))
    folded, kept = moved.shape[: len(axes)], moved.shape[len(axes) :]
    return moved.reshape(prod(folded), *kept)


def _on_all(combine: Combine, tensors: Sequence[Any]) -> list[Any]:
    """A function of scalars on each element of tensors of one shape."""
    for _ in range(tensors[0].ndim):
        combine = jax.vmap(combine)
    return list(combine(*tensors))
