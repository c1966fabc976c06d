"""Laws on tensors that one number fills: what is made of them is filled too, or not computed."""

import math

import jax
import numpy as np
from jax import core

from relaxjax.ir.expr import Call, Constant, Expr, np_dtype
from relaxjax.ir.laws import law, says
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType, dtype_name
from relaxjax.ir.uses import Uses
from relaxjax.ops.lax import x64_for

from .exact_numbers import exact_result
from .tensors import count_ratio, fill, fills, has_shape_of, same_type, tensor_filled


@law(where=says("unit", "right_unit"))
def unit(call: Call, op: Op, known: Uses) -> Expr | None:
    """x + 0 = x, x * 1 = x, x - 0 = x, x / 1 = x."""
    if len(call.args) != 2:
        return None
    x, y = call.args
    number = op.facts.get("unit", op.facts.get("right_unit"))
    if fill(y, known) == number and same_type(x, call):
        return x
    either = op.facts.get("commutative") and "unit" in op.facts
    return y if either and fill(x, known) == number and same_type(y, call) else None


@law(where=says("zero"))
def zero(call: Call, op: Op, known: Uses) -> Expr | None:
    """x * 0 = 0."""
    if op.facts["zero"] not in fills(call.args, known):
        return None
    return tensor_filled(call, op.facts["zero"])


@law(where=says("elementwise"))
def filled(call: Call, op: Op, known: Uses) -> Expr | None:
    """An elementwise operator on tensors filled with one number each fills with one number."""
    numbers = fills(call.args, known)
    if op.lower is None or None in numbers or not numbers:
        return None
    types = [arg.ty for arg in call.args]
    dtypes = [ty.dtype for ty in types if isinstance(ty, TensorType) and ty.dtype is not None]
    if len(dtypes) != len(types):
        return None
    scalars = [np.asarray(n, np_dtype(d)) for n, d in zip(numbers, dtypes, strict=True)]
    result = exact_result(call, scalars)
    if result is None or dtype_name(result.dtype) != getattr(call.ty, "dtype", None):
        with x64_for(call.ty, call.attrs, *types), core.eval_context():
            result = np.asarray(op.lower(*map(jax.numpy.asarray, scalars), **call.attrs))
    if result.shape != () or np.imag(result) != 0:
        return None
    return tensor_filled(call, np.real(result).item())


@law(where=says("moves"))
def moved(call: Call, op: Op, known: Uses) -> Expr | None:
    """Rearranging or repeating a tensor filled with one number fills another shape with it."""
    if not call.args:
        return None
    number = fill(call.args[0], known)
    return None if number is None else tensor_filled(call, number)


@law(where=says("elementwise"))
def scalar_beside(call: Call, op: Op, known: Uses) -> Expr | None:
    """A tensor filled with one number beside another of the result's shape may be a scalar."""
    if len(call.args) != 2:
        return None
    x, y = call.args
    for left, right in ((x, y), (y, x)):
        number = None if isinstance(right, Constant) else fill(right, known)
        if number is None or not has_shape_of(left, call) or not isinstance(right.ty, TensorType):
            continue
        scalar = Constant(np.asarray(number, np_dtype(right.ty.dtype)))
        return op(left, scalar) if right is y else op(scalar, left)
    return None


@law("relax.sum", "relax.collapse_sum_to")
def sum_of_filled(call: Call, op: Op, known: Uses) -> Expr | None:
    """The sum of a tensor filled with one number is filled with a multiple of it."""
    number, count = fill(call.args[0], known), count_ratio(call.args[0], call)
    return None if number is None or count is None else tensor_filled(call, number * count)


@law("relax.where")
def no_choice(call: Call, op: Op, known: Uses) -> Expr | None:
    """where(c, x, x) = x, and where both sides are filled with one number so is the result."""
    _, x, y = call.args
    if x == y and same_type(x, call):
        return x
    number, other = fill(x, known), fill(y, known)
    if number is None or other is None or number != other:
        return None
    is_same = math.copysign(1, number) == math.copysign(1, other)  # 1 / -0.0 is not 1 / 0.0
    return tensor_filled(call, number) if is_same else None


@law("relax.matmul")
def product_with_zero(call: Call, op: Op, known: Uses) -> Expr | None:
    """A matrix product with zeros is zeros."""
    if 0.0 not in fills(call.args, known):
        return None
    return tensor_filled(call, 0.0)
