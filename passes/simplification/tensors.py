"""What laws of algebra ask of tensors: what number fills them, and whether types agree."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Constant, Expr, ShapeExpr, Var, np_dtype
from relaxjax.ir.function import Function
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.tensor_types import known_dtype, known_ndim
from relaxjax.ir.types import TensorType, is_smooth
from relaxjax.ir.uses import Uses
from relaxjax.ops.shapes import element_count, same_dims


def fill(expr: Expr, known: Uses) -> float | None:
    """The number that fills a tensor, None where it is not filled with one known number."""
    if isinstance(expr, Constant):
        return _uniform(expr.data)
    call = known.call(expr)
    return None if call is None else filling(call, known)


def number_of(expr: Expr, known: Uses) -> Expr | None:
    """What fills a tensor, as a scalar, which need not be known; None where several numbers do."""
    if not isinstance(expr.ty, TensorType) or expr.ty.ndim == 0:
        return expr if isinstance(expr.ty, TensorType) else None
    found, call = fill(expr, known), known.call(expr)
    if found is not None and expr.ty.dtype is not None:
        return Constant(np.asarray(found, np_dtype(expr.ty.dtype)))
    if call is None or not isinstance(call.op, Op) or call.op.name not in _REPEATING:
        return None
    source = call.args[_REPEATING[call.op.name]]
    return source if known_ndim(source) == 0 else None


# The operators that repeat one of their arguments, which stands there.
_REPEATING = {"lax.broadcast_in_dim": 0, "relax.broadcast_to": 0, "relax.full": 1}


def is_elementwise(value: Expr | None) -> bool:
    """Whether it is a call that computes each number of its result of one of each argument."""
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return False
    is_moved = "moves" in value.op.facts or "value" in value.op.facts
    return value.op.fusion in ("elementwise", "broadcast") and not is_moved


def is_elementwise_of_jax(value: Expr) -> bool:
    """Whether it is a call of `lax.*` that computes each number of those at the same place.

    It does so in any shape, and draws nothing.
    """
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return False
    op = value.op
    return op.name.startswith("lax.") and op.fusion == "elementwise" and not op.draws


def fills(exprs: Iterable[Expr], known: Uses) -> list[float | None]:
    return [fill(expr, known) for expr in exprs]


def filling(call: Call, known: Uses) -> float | None:
    """The number that a call of a filling operator fills its result with, if it is known."""
    if not isinstance(call.op, Op):
        return None
    if "value" in call.op.facts:
        return float(call.op.facts["value"])
    if call.op.name in ("relax.full", "relax.full_like"):
        return _held(fill(call.args[1], known), call)
    return fill(call.args[0], known) if call.op.name == "lax.broadcast_in_dim" else None


def weights_of(function: Function) -> frozenset[Var]:
    """The parameters behind the first `num_input` ones; none where the attribute is not there."""
    count = function.attrs.get("num_input")
    return frozenset() if count is None else frozenset(function.params[int(count) :])


# Up to here every whole number is a float too.
_EXACT = 2**53


def is_filling(op: Op) -> bool:
    return "value" in op.facts or op.name in ("relax.full", "relax.full_like")


def tensor_filled(call: Call, number: float) -> Expr | None:
    """A tensor of a call's type filled with a number, where its shape and dtype are known."""
    ty = call.ty
    if not isinstance(ty, TensorType) or ty.dims is None or ty.dtype is None:
        return None
    kept = _held(number, call)
    if kept is None or not math.isfinite(kept):
        return None
    shape = ShapeExpr(ty.dims)
    if number in (0, 1):
        return get_op("relax.zeros" if number == 0 else "relax.ones")(shape, ty.dtype)
    return get_op("relax.full")(shape, Constant(np.asarray(number, np_dtype(ty.dtype))), ty.dtype)


def times(x: Expr, count: int) -> Expr | None:
    """So many times `x`, None where its dtype has no such number."""
    number = _held(count, x)
    if number is None or not math.isfinite(number) or not isinstance(x.ty, TensorType):
        return None
    return x * Constant(np.asarray(number, np_dtype(x.ty.dtype)))


def same_type(x: Expr, call: Call) -> bool:
    """Whether `x` has the very shape and dtype of the call's result."""
    if not isinstance(x.ty, TensorType) or not isinstance(call.ty, TensorType):
        return False
    same = x.ty.dtype == call.ty.dtype and x.ty.vdevice == call.ty.vdevice
    return same and has_shape_of(x, call)


def has_shape_of(x: Expr, other: Expr) -> bool:
    if not isinstance(x.ty, TensorType) or not isinstance(other.ty, TensorType):
        return False
    return same_dims(x.ty.dims, other.ty.dims)


def count_ratio(before: Expr, after: Call) -> int | None:
    """How many elements are summed into each element of the result."""
    if not isinstance(before.ty, TensorType) or not isinstance(after.ty, TensorType):
        return None
    if before.ty.dims is None or after.ty.dims is None:
        return None
    many: Dim = element_count(before.ty.dims)
    few: Dim = element_count(after.ty.dims)
    if few == 0:
        return None
    ratio = many // few
    return ratio if isinstance(ratio, int) and many == few * ratio else None


def _held(number: float | None, x: Expr) -> float | None:
    """A number as the dtype of a tensor has it, None where that is another number or unknown."""
    dtype = known_dtype(x)
    if number is None or dtype is None:
        return None
    with np.errstate(all="ignore"):
        kept = float(np.real(np.asarray(number).astype(np_dtype(dtype))))
    if is_smooth(dtype):
        return kept
    return kept if kept == number and abs(kept) <= _EXACT else None


def _uniform(data: np.ndarray[Any, Any]) -> float | None:
    if data.size != 1 or data.dtype.kind == "c":
        return None
    number = float(data.reshape(()))
    exact = data.dtype.kind not in "iu" or number == int(data.reshape(()))
    return number if exact else None
