"""Reductions of several tensors by a function of scalars, in operators that have gradients."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

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
from relaxjax.ops.lax.folds import Combine, folded_by_tree

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
            return tuple(folded_by_tree(both, operands, starts, axes))
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
