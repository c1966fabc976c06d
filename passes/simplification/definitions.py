"""What laws of algebra ask: what variables are bound to, what fills a tensor, which types agree."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Constant, DataflowVar, Expr, ShapeExpr, Var, np_dtype
from relaxjax.ir.function import Function
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.types import TensorType, is_smooth
from relaxjax.ir.walk import free_vars, nested_sequences, used_vars, uses
from relaxjax.ops.shapes import element_count, same_dims


@dataclass(frozen=True)
class Definitions:
    """What the variables of a function are bound to, and how often each is used."""

    values: dict[Var, Expr]
    uses: dict[Var, int]
    # Of sets of weights, which variables are known to depend on nothing else, or on more.
    following: dict[frozenset[Var], dict[Var, bool]] = field(default_factory=dict)

    @staticmethod
    def of(function: Function) -> "Definitions":
        sequences = nested_sequences(function.body)
        values = {b.var: b.value for seq in sequences for b in seq.bindings()}
        return Definitions(values, uses(function))

    def call(self, expr: Expr, name: str = "") -> Call | None:
        """The operator's call that `expr` is bound to, where what it mentions is still visible."""
        value = self.values.get(expr) if isinstance(expr, Var) else None
        if not isinstance(value, Call) or not isinstance(value.op, Op):
            return None
        if name and value.op.name != name:
            return None
        if isinstance(expr, DataflowVar):
            return value
        return None if any(isinstance(var, DataflowVar) for var in used_vars(value)) else value

    def follows_from(self, value: Expr, weights: frozenset[Var]) -> bool:
        """Whether a value depends on nothing but weights."""
        if not weights:
            return False
        if weights not in self.following:
            self.following[weights] = dict.fromkeys(weights, True)
        known = self.following[weights]
        waiting = [var for var in free_vars(value) if var not in known]
        while waiting:
            var = waiting[-1]
            known.setdefault(var, False)  # a closure may call itself
            used = free_vars(self.values[var]) if var in self.values else None
            missing = [other for other in used or () if other not in known]
            if missing:
                waiting += missing
            else:
                known[waiting.pop()] = used is not None and all(known[other] for other in used)
        return all(known[var] for var in free_vars(value))

    def fill(self, expr: Expr) -> float | None:
        """The number that fills a tensor, None where it is not filled with one known number."""
        if isinstance(expr, Constant):
            return _uniform(expr.data)
        call = self.call(expr)
        return None if call is None else self.filling(call)

    def filling(self, call: Call) -> float | None:
        """The number that a call of a filling operator fills its result with, if it is known."""
        if not isinstance(call.op, Op):
            return None
        if "value" in call.op.facts:
            return float(call.op.facts["value"])
        if call.op.name in ("relax.full", "relax.full_like"):
            return _held(self.fill(call.args[1]), call)
        return self.fill(call.args[0]) if call.op.name == "lax.broadcast_in_dim" else None


def weights_of(function: Function) -> frozenset[Var]:
    """The parameters behind the first `num_input` ones; none where the attribute is not there."""
    count = function.attrs.get("num_input")
    return frozenset() if count is None else frozenset(function.params[int(count) :])


# Up to here every whole number is a float too.
_EXACT = 2**53

# What a call of an operator is equal to by one law of algebra, None where it does not apply.
Law = Callable[[Call, Op, Definitions], Expr | None]


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
    dtype = x.ty.dtype if isinstance(x.ty, TensorType) else None
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
