"""The laws by which expressions are made simpler, one function each, and the table of them.

A law looks at one call and at the definitions of its arguments, and gives what the call is equal
to, or None. Each makes the program smaller, or the same size with less to compute, so applying
them ends. They hold for finite numbers: an infinity times zero is taken to be zero.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Constant, DataflowVar, Expr, ShapeExpr, Var, np_dtype
from relaxjax.ir.function import Function
from relaxjax.ir.op import Op
from relaxjax.ir.registry import get_op
from relaxjax.ir.types import TensorType, is_float
from relaxjax.ir.walk import nested_sequences, used_vars, uses
from relaxjax.ops.lax import x64_for
from relaxjax.ops.shapes import element_count, same_dims


@dataclass(frozen=True)
class Definitions:
    """What the variables of a function are bound to, and how often each is used."""

    values: dict[Var, Expr]
    uses: dict[Var, int]

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
        hidden = any(isinstance(var, DataflowVar) for var in used_vars(value))
        return value if isinstance(expr, DataflowVar) or not hidden else None

    def fill(self, expr: Expr) -> float | None:
        """The number that fills a tensor, None where it is not filled with one known number."""
        if isinstance(expr, Constant):
            return _uniform(expr.data)
        call = self.call(expr)
        if call is None or not isinstance(call.op, Op):
            return None
        if "value" in call.op.facts:
            return float(call.op.facts["value"])
        if call.op.name in ("relax.full", "relax.full_like"):
            return self.fill(call.args[1])
        return None


Law = Callable[[Call, Op, Definitions], Expr | None]


def unit(call: Call, op: Op, known: Definitions) -> Expr | None:
    """x + 0 = x, x * 1 = x, x - 0 = x, x / 1 = x."""
    if len(call.args) != 2 or not {"unit", "right_unit"} & set(op.facts):
        return None
    x, y = call.args
    number = op.facts.get("unit", op.facts.get("right_unit"))
    if known.fill(y) == number and _same_type(x, call):
        return x
    either = op.facts.get("commutative") and "unit" in op.facts
    return y if either and known.fill(x) == number and _same_type(y, call) else None


def zero(call: Call, op: Op, known: Definitions) -> Expr | None:
    """x * 0 = 0."""
    if "zero" not in op.facts or op.facts["zero"] not in map(known.fill, call.args):
        return None
    return _filled(call, op.facts["zero"])


def filled(call: Call, op: Op, known: Definitions) -> Expr | None:
    """An elementwise operator on tensors filled with one number each fills with one number."""
    numbers = [known.fill(arg) for arg in call.args]
    if not op.facts.get("elementwise") or op.lower is None or None in numbers or not numbers:
        return None
    types = [arg.ty for arg in call.args]
    dtypes = [ty.dtype for ty in types if isinstance(ty, TensorType) and ty.dtype is not None]
    if len(dtypes) != len(types) or _is_filling(op):
        return None
    with x64_for(call.ty, call.attrs, *types), jax.ensure_compile_time_eval():
        scalars = [np.asarray(n, np_dtype(d)) for n, d in zip(numbers, dtypes, strict=True)]
        result = np.asarray(op.lower(*map(jax.numpy.asarray, scalars), **call.attrs))
    return _filled(call, result.item()) if result.shape == () else None


def moved(call: Call, op: Op, known: Definitions) -> Expr | None:
    """Rearranging or repeating a tensor filled with one number fills another shape with it."""
    if not op.facts.get("moves") or not call.args:
        return None
    number = known.fill(call.args[0])
    return None if number is None else _filled(call, number)


def difference(call: Call, op: Op, known: Definitions) -> Expr | None:
    """x - x = 0; 0 - x = -x; x - (-y) = x + y."""
    if op.name != "relax.subtract":
        return None
    x, y = call.args
    if x == y:
        return _filled(call, 0.0)
    if known.fill(x) == 0 and _same_type(y, call):
        return -y
    negated = known.call(y, "relax.negative")
    return x + negated.args[0] if negated is not None else None


def sum_with_negative(call: Call, op: Op, known: Definitions) -> Expr | None:
    """x + (-y) = x - y, (-x) + y = y - x."""
    if op.name != "relax.add":
        return None
    x, y = call.args
    if (negated := known.call(y, "relax.negative")) is not None:
        return x - negated.args[0]
    negated = known.call(x, "relax.negative")
    return None if negated is None else y - negated.args[0]


def undone(call: Call, op: Op, known: Definitions) -> Expr | None:
    """-(-x) = x, log(exp(x)) = x, floor(floor(x)) = floor(x)."""
    inner = known.call(call.args[0]) if len(call.args) == 1 and not call.attrs else None
    if inner is None or not isinstance(inner.op, Op) or len(inner.args) != 1 or inner.attrs:
        return None
    if inner.op is op and op.facts.get("involution"):
        return inner.args[0]
    if inner.op.facts.get("inverse") == op.name:
        return inner.args[0]
    return call.args[0] if inner.op is op and op.facts.get("idempotent") else None


def permuted(call: Call, op: Op, known: Definitions) -> Expr | None:
    """Axes put back in place are not moved; two permutations are one."""
    if op.name != "relax.permute_dims" or not isinstance(call.args[0].ty, TensorType):
        return None
    ndim = call.args[0].ty.ndim
    if ndim < 0:
        return None
    axes = _axes(call, ndim)
    if axes == list(range(ndim)):
        return call.args[0]
    inner = known.call(call.args[0], "relax.permute_dims")
    if inner is None:
        return None
    first = _axes(inner, ndim)
    return get_op("relax.permute_dims")(inner.args[0], [first[axis] for axis in axes])


def scalar_beside(call: Call, op: Op, known: Definitions) -> Expr | None:
    """A tensor filled with one number beside another of the result's shape may be a scalar."""
    if len(call.args) != 2 or not op.facts.get("elementwise"):
        return None
    x, y = call.args
    for left, right in ((x, y), (y, x)):
        number = None if isinstance(right, Constant) else known.fill(right)
        if number is None or not _has_shape_of(left, call) or not isinstance(right.ty, TensorType):
            continue
        scalar = Constant(np.asarray(number, np_dtype(right.ty.dtype)))
        return op(left, scalar) if right is y else op(scalar, left)
    return None


def doubled(call: Call, op: Op, known: Definitions) -> Expr | None:
    """x + x = 2 x, for tensors of a float dtype."""
    if op.name != "relax.add" or call.args[0] != call.args[1]:
        return None
    ty = call.args[0].ty
    return call.args[0] * 2.0 if isinstance(ty, TensorType) and is_float(ty.dtype) else None


def numbers_together(call: Call, op: Op, known: Definitions) -> Expr | None:
    """(x * 2) * 3 = x * (2 * 3), for an operator that is associative and commutative."""
    if not (op.facts.get("associative") and op.facts.get("commutative")):
        return None
    x, number = _with_number(call)
    inner = known.call(x) if x is not None else None
    if number is None or inner is None or inner.op is not op:
        return None
    y, other = _with_number(inner)
    return None if y is None or other is None else op(y, op(number, other))


def reshaped(call: Call, op: Op, known: Definitions) -> Expr | None:
    """A shape that a tensor has is not given to it; the last of several shapes counts."""
    if op.name not in ("relax.reshape", "relax.expand_dims", "relax.squeeze", "relax.flatten"):
        return None
    if _same_type(call.args[0], call):
        return call.args[0]
    for name in ("relax.reshape", "relax.expand_dims", "relax.squeeze", "relax.flatten"):
        inner = known.call(call.args[0], name)
        if inner is not None and isinstance(call.ty, TensorType) and call.ty.dims is not None:
            x = inner.args[0]
            if _same_type(x, call):
                return x
            return get_op("relax.reshape")(x, ShapeExpr(call.ty.dims))
    return None


def broadcast_away(call: Call, op: Op, known: Definitions) -> Expr | None:
    """Nothing is broadcast or summed to the shape that it has; one broadcast serves for two."""
    if op.name not in ("relax.broadcast_to", "relax.collapse_sum_to", "relax.collapse_sum_like"):
        return None
    if _same_type(call.args[0], call):
        return call.args[0]
    inner = known.call(call.args[0], "relax.broadcast_to")
    if op.name == "relax.broadcast_to" and inner is not None:
        return get_op("relax.broadcast_to")(inner.args[0], call.args[1])
    return None


def sum_of_repeats(call: Call, op: Op, known: Definitions) -> Expr | None:
    """The sum of a broadcast tensor back to its own shape is a multiple of it."""
    inner = known.call(call.args[0], "relax.broadcast_to") if call.args else None
    if op.name != "relax.collapse_sum_to" or inner is None or not _same_type(inner.args[0], call):
        return None
    count = _count_ratio(call.args[0], call)
    if count is None or not isinstance(call.ty, TensorType) or call.ty.dtype is None:
        return None
    return inner.args[0] * float(count) if count != 1 else inner.args[0]


def sum_of_filled(call: Call, op: Op, known: Definitions) -> Expr | None:
    """The sum of a tensor filled with one number is filled with a multiple of it."""
    if op.name not in ("relax.sum", "relax.collapse_sum_to") or not call.args:
        return None
    number, count = known.fill(call.args[0]), _count_ratio(call.args[0], call)
    return None if number is None or count is None else _filled(call, number * count)


def same_dtype(call: Call, op: Op, known: Definitions) -> Expr | None:
    """A dtype that a tensor has is not given to it."""
    return call.args[0] if op.name == "relax.astype" and _same_type(call.args[0], call) else None


def no_choice(call: Call, op: Op, known: Definitions) -> Expr | None:
    """where(c, x, x) = x, and where both sides are filled with one number so is the result."""
    if op.name != "relax.where":
        return None
    _, x, y = call.args
    if x == y and _same_type(x, call):
        return x
    number = known.fill(x)
    return _filled(call, number) if number is not None and number == known.fill(y) else None


def product_with_zero(call: Call, op: Op, known: Definitions) -> Expr | None:
    """A matrix product with zeros is zeros."""
    if op.name != "relax.matmul" or 0.0 not in map(known.fill, call.args):
        return None
    return _filled(call, 0.0)


def transposed_product(call: Call, op: Op, known: Definitions) -> Expr | None:
    """(a b)^T = b^T a^T, where a transpose is undone by it and the product has no other use."""
    if op.name != "relax.permute_dims" or not isinstance(call.args[0], Var):
        return None
    product = known.call(call.args[0], "relax.matmul")
    if product is None or known.uses.get(call.args[0]) != 1:
        return None
    factors = [factor.ty for factor in product.args]
    if not all(isinstance(ty, TensorType) and ty.ndim == 2 for ty in factors):
        return None
    a, b = product.args
    if all(known.call(x, "relax.permute_dims") is None for x in (a, b)):
        return None
    transpose = get_op("relax.permute_dims")
    return get_op("relax.matmul")(transpose(b), transpose(a), product.attrs["out_dtype"])


LAWS: Sequence[Law] = (
    unit,
    zero,
    filled,
    moved,
    difference,
    sum_with_negative,
    doubled,
    undone,
    scalar_beside,
    numbers_together,
    permuted,
    reshaped,
    broadcast_away,
    sum_of_repeats,
    sum_of_filled,
    same_dtype,
    no_choice,
    product_with_zero,
    transposed_product,
)


def simpler(call: Call, known: Definitions) -> Expr | None:
    """What the first law that applies makes of a call, None where none does."""
    if not isinstance(call.op, Op) or _is_filling(call.op):
        return None
    return next((e for law in LAWS if (e := law(call, call.op, known)) is not None), None)


def _is_filling(op: Op) -> bool:
    return "value" in op.facts or op.name in ("relax.full", "relax.full_like")


def _filled(call: Call, number: float) -> Expr | None:
    """A tensor of a call's type filled with a number, where its shape and dtype are known."""
    ty = call.ty
    if not isinstance(ty, TensorType) or ty.dims is None or ty.dtype is None:
        return None
    if not math.isfinite(number):
        return None
    shape = ShapeExpr(ty.dims)
    if number in (0, 1):
        return get_op("relax.zeros" if number == 0 else "relax.ones")(shape, ty.dtype)
    return get_op("relax.full")(shape, Constant(np.asarray(number, np_dtype(ty.dtype))), ty.dtype)


def _uniform(data: np.ndarray[Any, Any]) -> float | None:
    if data.size != 1 or data.dtype.kind == "c":
        return None
    number = float(data.reshape(()))
    exact = data.dtype.kind not in "iu" or number == int(data.reshape(()))
    return number if exact else None


def _same_type(x: Expr, call: Call) -> bool:
    """Whether `x` has the very shape and dtype of the call's result."""
    if not isinstance(x.ty, TensorType) or not isinstance(call.ty, TensorType):
        return False
    same = x.ty.dtype == call.ty.dtype and x.ty.vdevice == call.ty.vdevice
    return same and _has_shape_of(x, call)


def _has_shape_of(x: Expr, call: Call) -> bool:
    if not isinstance(x.ty, TensorType) or not isinstance(call.ty, TensorType):
        return False
    return same_dims(x.ty.dims, call.ty.dims)


def _with_number(call: Call) -> tuple[Expr | None, Constant | None]:
    """The other argument and the scalar constant of a call of two arguments that has one."""
    x, y = call.args
    if isinstance(y, Constant) and y.data.ndim == 0 and not isinstance(x, Constant):
        return x, y
    if isinstance(x, Constant) and x.data.ndim == 0 and not isinstance(y, Constant):
        return y, x
    return None, None


def _axes(call: Call, ndim: int) -> list[int]:
    axes = call.attrs["axes"]
    return list(reversed(range(ndim))) if axes is None else [axis % ndim for axis in axes]


def _count_ratio(before: Expr, after: Call) -> int | None:
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
