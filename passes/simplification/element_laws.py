"""Laws of arithmetic, element by element."""

import ml_dtypes

from relaxjax.ir.expr import Call, Constant, Expr, np_dtype
from relaxjax.ir.laws import law
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType, is_float
from relaxjax.ir.uses import Uses

from .fill_laws import filled
from .tensors import fill, filling, fills, same_type, tensor_filled


def _takes_one(op: Op) -> bool:
    return sum(param.is_arg for param in op.params) == 1


def _is_in_any_order(op: Op) -> bool:
    return bool(op.facts.get("associative") and op.facts.get("commutative"))


@law("relax.subtract")
def difference(call: Call, op: Op, known: Uses) -> Expr | None:
    """x - x = 0; 0 - x = -x; x - (-y) = x + y."""
    x, y = call.args
    if x == y:
        return tensor_filled(call, 0.0)
    if fill(x, known) == 0 and same_type(y, call):
        return -y
    negated = known.call(y, "relax.negative")
    return x + negated.args[0] if negated is not None else None


@law("relax.add")
def sum_with_negative(call: Call, op: Op, known: Uses) -> Expr | None:
    """x + (-y) = x - y, (-x) + y = y - x."""
    x, y = call.args
    if (negated := known.call(y, "relax.negative")) is not None:
        return x - negated.args[0]
    negated = known.call(x, "relax.negative")
    return None if negated is None else y - negated.args[0]


@law(where=_takes_one)
def undone(call: Call, op: Op, known: Uses) -> Expr | None:
    """-(-x) = x, log(exp(x)) = x, floor(floor(x)) = floor(x)."""
    inner = known.call(call.args[0]) if len(call.args) == 1 and not call.attrs else None
    if inner is None or not isinstance(inner.op, Op) or len(inner.args) != 1 or inner.attrs:
        return None
    if inner.op is op and op.facts.get("involution"):
        return inner.args[0]
    if inner.op.facts.get("inverse") == op.name:
        return inner.args[0]
    return call.args[0] if inner.op is op and op.facts.get("idempotent") else None


@law("relax.add")
def doubled(call: Call, op: Op, known: Uses) -> Expr | None:
    """x + x = 2 x, for tensors of a float dtype."""
    if call.args[0] != call.args[1]:
        return None
    ty = call.args[0].ty
    return call.args[0] * 2.0 if isinstance(ty, TensorType) and is_float(ty.dtype) else None


@law(where=_is_in_any_order)
def numbers_together(call: Call, op: Op, known: Uses) -> Expr | None:
    """(x * 2) * 3 = x * (2 * 3), for an operator that is associative and commutative."""
    x, number = _with_number(call)
    inner = known.call(x) if x is not None else None
    if number is None or inner is None or inner.op is not op:
        return None
    y, other = _with_number(inner)
    if y is None or other is None or not _is_exact_enough(op(number, other), op, known):
        return None
    return op(y, op(number, other))


@law("relax.astype")
def same_dtype(call: Call, op: Op, known: Uses) -> Expr | None:
    """A dtype that a tensor has is not given to it."""
    return call.args[0] if same_type(call.args[0], call) else None


def _is_exact_enough(together: Expr, op: Op, known: Uses) -> bool:
    """Whether a float dtype has the result for two numbers: none too large or too small for it.

    What is multiplied by one after the other need not come by such a number.
    """
    ty = together.ty
    if not isinstance(together, Call) or not isinstance(ty, TensorType) or not is_float(ty.dtype):
        return True
    result = filled.write(together, op, known)
    number = filling(result, known) if isinstance(result, Call) else None
    if number is None:
        return False
    if number == 0:
        return op.name != "relax.multiply" or 0 in fills(together.args, known)
    normal = ml_dtypes.finfo(np_dtype(ty.dtype))  # type: ignore[no-untyped-call]  # it has no types
    return abs(number) >= float(normal.tiny)


def _with_number(call: Call) -> tuple[Expr | None, Constant | None]:
    """The other argument and the scalar constant of a call of two arguments that has one."""
    x, y = call.args
    if isinstance(y, Constant) and y.data.ndim == 0 and not isinstance(x, Constant):
        return x, y
    if isinstance(x, Constant) and x.data.ndim == 0 and not isinstance(y, Constant):
        return y, x
    return None, None
