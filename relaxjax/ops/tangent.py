"""How the result of an operator changes with its arguments: the rules of forward mode."""

from collections.abc import Sequence
from typing import Any

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.op import ZERO_GRADIENT, Op, get_op
from relaxjax.ir.types import TensorType

from .emit import call, shape_of, tensor_type
from .lax.dialect import lax_op
from .lax.tangent import pushforward
from .shapes import same_dims


def has_tangent_rule(op: Op) -> bool:
    """Whether the operator says what becomes of tangents; that there are none is an answer too."""
    return op.jvp is not None or (op.gradient is not None and op.lower is not None)


def without_tangent(op: Op) -> bool:
    """Whether the result never moves, however the arguments do."""
    return op.jvp is ZERO_GRADIENT or (op.jvp is None and op.gradient is ZERO_GRADIENT)


def tangent_of_call(
    op: Op,
    tangents: Sequence[Expr | None],
    out: Var,
    args: Sequence[Expr | None],
    attrs: dict[str, Any],
) -> Expr:
    """The tangent of a call's result, of the result's type.

    By the operator's own rule where it declares one: it takes the tangents of the arguments, None
    for those that do not move, then what a gradient rule takes. Else an elementwise operator's
    gradient rule serves, because its derivative is a diagonal matrix, and is its own transpose.
    Every other operator's lowering is differentiated by JAX.
    """
    if callable(op.jvp):
        given: Expr = op.jvp(tuple(tangents), out, *args, **attrs)
        return given
    if _is_diagonal(op, tangents, out, args):
        return _diagonal(op, tangents, out, args, attrs)
    return pushforward(op, lax_op, tangents, out, args, Attrs(attrs))


def _is_diagonal(
    op: Op, tangents: Sequence[Expr | None], out: Var, args: Sequence[Expr | None]
) -> bool:
    if not op.facts.get("elementwise") or not callable(op.gradient):
        return False
    moving = [arg for arg, tangent in zip(args, tangents, strict=True) if tangent is not None]
    return all(
        isinstance(arg, Expr)
        and isinstance(arg.ty, TensorType)
        and isinstance(out.ty, TensorType)
        and arg.ty.dtype == out.ty.dtype
        for arg in moving
    )


def _diagonal(
    op: Op,
    tangents: Sequence[Expr | None],
    out: Var,
    args: Sequence[Expr | None],
    attrs: dict[str, Any],
) -> Expr:
    """The sum of what the gradient rule gives each argument for the adjoint, its tangent."""
    assert callable(op.gradient)
    total: Expr | None = None
    for index, tangent in enumerate(tangents):
        if tangent is None:
            continue
        given = op.gradient(tangent, out, *args, **attrs)
        part = given if isinstance(given, Expr) else given[index]
        part = part if part is None or isinstance(part, Expr) else part()
        if part is not None:
            total = part if total is None else total + part
    if total is None:
        return get_op("relax.zeros_like")(out)
    return total if _same_shape(total, out) else call("broadcast_to", total, shape_of(out))


def _same_shape(lhs: Expr, rhs: Expr) -> bool:
    return same_dims(tensor_type(lhs).dims, tensor_type(rhs).dims)
