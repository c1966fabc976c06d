"""What rules write with: calls by name, scalars of a tensor's dtype, shapes."""

from collections.abc import Sequence
from typing import Any

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Constant, Expr, PrimExpr, ShapeExpr, Var, const, np_dtype
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import known_dims
from relaxjax.ir.types import TensorType, is_float

from .declare import OpError


def call(name: str, *args: Any, **attrs: Any) -> Call:
    """The call of `relax.<name>`, for rules that use operators of other files."""
    return get_op(f"relax.{name}")(*args, **attrs)


def where(condition: Expr, x1: Expr, x2: Expr) -> Call:
    return call("where", condition, x1, x2)


def tensor_type(x: Expr) -> TensorType:
    """The type of a tensor expression."""
    assert isinstance(x.ty, TensorType), f"`{x}` is no tensor: its type is {x.ty}"
    return x.ty


def dtype_of(x: Expr) -> str:
    """The dtype of a tensor; an unknown one is an error, because constants need it."""
    dtype = tensor_type(x).dtype
    if dtype is None:
        raise OpError(f"the dtype of `{x}` must be known here, but its type is {x.ty}")
    return dtype


def scalar(value: float, like: Expr) -> Constant:
    """A constant scalar of a tensor's dtype."""
    return const(value, dtype_of(like))


def dims_of(x: Expr) -> tuple[Dim, ...]:
    """The dimensions of a tensor; an unknown shape is an error."""
    dims = tensor_type(x).dims
    if dims is None:
        raise OpError(f"the shape of `{x}` must be known here, but its type is {x.ty}")
    return dims


def ndim_of(x: Expr) -> int:
    """The rank of a tensor; an unknown rank is an error."""
    ndim = tensor_type(x).ndim
    if ndim < 0:
        raise OpError(f"the rank of `{x}` must be known here, but its type is {x.ty}")
    return ndim


def shape_of(x: Expr) -> Expr:
    """The shape of a tensor as an argument: written out, a variable, or read when it runs."""
    shape = tensor_type(x).shape
    if isinstance(shape, tuple):
        return ShapeExpr(shape)
    return shape if isinstance(shape, Var) else call("shape_of", x)


def reshaped(x: Expr, dims: Sequence[Dim]) -> Expr:
    """A tensor of these dimensions by JAX's own primitive: `x` where it has them."""
    if known_dims(x) == tuple(dims):
        return x
    return get_op("lax.reshape")(x, new_sizes=list(dims))


def number(value: Dim, like: Expr) -> Expr:
    """A dimension as a scalar tensor of the dtype of `like`: a constant, unless it is symbolic."""
    if isinstance(value, int):
        return scalar(value, like)
    tensor = call("shape_to_tensor", ShapeExpr((value,)))
    return call("astype", call("reshape", tensor, ShapeExpr(())), dtype_of(like))


def wide(x: Expr) -> Expr:
    """A tensor in float32 where its floats are narrower: there squares and counts are finite."""
    dtype = dtype_of(x)
    is_narrow = is_float(dtype) and np_dtype(dtype).itemsize < 4
    return call("astype", x, "float32") if is_narrow else x


def narrow(x: Expr, like: Expr) -> Expr:
    """What was computed of `wide` tensors, in the dtype of one of them as it was."""
    dtype = dtype_of(like)
    return x if dtype_of(x) == dtype else call("astype", x, dtype)


def as_places(indices: Expr) -> Expr:
    """Indices in a dtype that can count the places of any axis, and say a place before it."""
    dtype = dtype_of(indices)
    if dtype in ("int32", "int64"):
        return indices
    return call("astype", indices, "int32" if np_dtype(dtype).itemsize < 4 else "int64")


def host_scalar(value: Expr, like: Expr) -> Expr:
    """A scalar of the host as a scalar tensor of the dtype of `like`."""
    if not isinstance(value, PrimExpr):
        raise OpError(f"`{value}` must be written out, so that its gradient can use it")
    if isinstance(value.value, float):
        return scalar(value.value, like)
    return number(value.value, like)
