"""Reductions of several tensors by a function of scalars, in operators that have gradients."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.extend import core

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.tensor_types import known_dims
from relaxjax.ir.walk import global_vars
from relaxjax.lowering import to_jax
from relaxjax.ops.jax_functions import call_jax

Combine: TypeAlias = Callable[..., Sequence[Any]]

# The reduction by one primitive.
_MONOIDS: Mapping[str, Callable[..., Any]] = {
    "add": jnp.sum,
    "mul": jnp.prod,
    "max": jnp.max,
    "min": jnp.min,
}


def differentiable_reduction(call: Call, combine: Function) -> Expr | None:
    """`lax.reduce` by `combine` as sums, products and extremes, or as a tree of its calls.

    None where it is not known how many elements are reduced, and where functions of the module are
    called for it, which may have derivatives of their own.
    """
    count, axes = len(call.args) // 2, tuple(call.attrs["dimensions"])
    known = all(_is_known(operand, axes) for operand in call.args[1 : 1 + count])
    if not known or list(global_vars(combine)):
        return None
    both = to_jax(IRModule({"combine": combine}), "combine")

    def reduced(*tensors: Any) -> tuple[Any, ...]:
        operands, starts = tensors[:count], tensors[count:]
        monoids = _monoids(both, starts)
        if monoids is None:
            return tuple(_by_tree(both, operands, starts, axes))
        each = zip(monoids, operands, starts, strict=True)
        return tuple(
            monoid(operand, axes, initial=start, **_dtype(monoid, start))
            for monoid, operand, start in each
        )

    return call_jax(reduced, *call.args[1:])


def _is_known(operand: Expr, axes: Sequence[int]) -> bool:
    dims = known_dims(operand)
    return dims is not None and all(isinstance(dims[axis], int) for axis in axes)


def _dtype(monoid: Callable[..., Any], start: Any) -> dict[str, Any]:
    """Sums and products of small integers are otherwise of a wider dtype."""
    return {"dtype": start.dtype} if monoid in (jnp.sum, jnp.prod) else {}


def _monoids(combine: Combine, starts: Sequence[Any]) -> list[Callable[..., Any]] | None:
    """The reduction of each result, if each is reduced by itself and by one primitive."""
    program = jax.make_jaxpr(combine)(*starts, *starts).jaxpr
    makers = {out: eqn for eqn in program.eqns for out in eqn.outvars}
    found = []
    for index, out in enumerate(program.outvars):
        eqn = None if isinstance(out, core.Literal) else makers.get(out)
        pair = {program.invars[index], program.invars[len(starts) + index]}
        if eqn is None or eqn.primitive.name not in _MONOIDS or set(eqn.invars) != pair:
            return None
        found.append(_MONOIDS[eqn.primitive.name])
    return found


def _by_tree(
    combine: Combine, operands: Sequence[Any], starts: Sequence[Any], axes: Sequence[int]
) -> Sequence[Any]:
    """Neighbours combined until one element is left, in their order: it tells equals apart."""
    values = [_reduced_axes_first(operand, axes) for operand in operands]
    while (count := len(values[0])) > 1:
        pairs = [value[: count - count % 2].reshape(-1, 2, *value.shape[1:]) for value in values]
        sides = [pair[:, side] for side in (0, 1) for pair in pairs]
        rest = [value[count - count % 2 :] for value in values]
        together = _on_all(combine, sides)
        values = [jnp.concatenate(parts) for parts in zip(together, rest, strict=True)]
    shape = values[0].shape[1:]
    first = [jnp.broadcast_to(start, shape) for start in starts]
    return _on_all(combine, [*first, *(value[0] for value in values)]) if count else first


def _reduced_axes_first(operand: Any, axes: Sequence[int]) -> Any:
    """The axes to reduce as one, before the others."""
    moved = jnp.moveaxis(operand, axes, range(len(axes)))
    return moved.reshape(-1, *moved.shape[len(axes) :])


def _on_all(combine: Combine, tensors: Sequence[Any]) -> list[Any]:
    """A function of scalars on each element of tensors of one shape."""
    for _ in range(tensors[0].ndim):
        combine = jax.vmap(combine)
    return list(combine(*tensors))
