"""What a tensor says of itself, as scalars of the host: rank, dimensions, dtype, place in memory.

Arrays of JAX are compact and in row-major order, and begin at the start of their memory: strides
follow from the dimensions, and offsets are 0. An axis is counted from the front.
"""

from typing import Any

from relaxjax.ir.dims import Dim
from relaxjax.ir.dtypes import DLPACK_CODES
from relaxjax.ir.expr import Expr, PrimExpr
from relaxjax.ir.op import ZERO_GRADIENT
from relaxjax.ir.types import PrimType, TensorType

from .cost_rules import VIEWS
from .declare import OpError, op
from .shapes import element_count

_RULES: dict[str, Any] = {"gradient": ZERO_GRADIENT, "cost": VIEWS, "precision": "follow"}


def _require_axis(axis: Any, ndim: int) -> None:
    """An axis that is known, and that a tensor has not, is an error."""
    if isinstance(axis, int) and not 0 <= axis < ndim:
        raise OpError(f"`axis` must be in [0, {ndim}) for {ndim} dimensions, found {axis}")


def _axis_type(tensor: TensorType, axis: Expr) -> PrimType:
    """The type of what is said of an axis, which may be known when the program runs only."""
    if not isinstance(axis.ty, PrimType) or axis.ty.dtype != "int64":
        raise OpError(f"`axis` must be a scalar of the host of dtype int64, found {axis.ty}")
    if isinstance(axis, PrimExpr) and isinstance(axis.value, int):
        if axis.value < 0:
            raise OpError(f"`axis` must not be negative, found {axis.value}")
        if tensor.ndim >= 0:
            _require_axis(axis.value, tensor.ndim)
    return PrimType("int64")


def _dimension(tensor: Any, axis: int) -> Dim:
    _require_axis(axis, tensor.ndim)
    dim: Dim = tensor.shape[axis]
    return dim


def _stride(tensor: Any, axis: int) -> Dim:
    _require_axis(axis, tensor.ndim)
    return element_count(tensor.shape[axis + 1 :])


def _code(tensor: Any) -> tuple[int, int]:
    name = str(tensor.dtype)
    if name not in DLPACK_CODES:
        raise OpError(f"`tensor` must be of a dtype that DLPack has a code for, found {name}")
    return DLPACK_CODES[name]


@op("relax.inspect.tensor_ndim", lower=lambda tensor: tensor.ndim, **_RULES)
def tensor_ndim(tensor: TensorType) -> PrimType:
    """The rank of a tensor."""
    return PrimType("int32")


@op("relax.inspect.tensor_shape_i", lower=_dimension, **_RULES)
def tensor_shape_i(tensor: TensorType, axis: Expr) -> PrimType:
    """The dimension of a tensor along `axis`."""
    return _axis_type(tensor, axis)


@op("relax.inspect.tensor_stride_i", lower=_stride, **_RULES)
def tensor_stride_i(tensor: TensorType, axis: Expr) -> PrimType:
    """How many elements apart neighbours along `axis` are: the product of the dimensions behind."""
    return _axis_type(tensor, axis)


@op("relax.inspect.tensor_byte_offset", lower=lambda tensor: 0, **_RULES)
def tensor_byte_offset(tensor: TensorType) -> PrimType:
    """How many bytes into its memory a tensor begins: 0."""
    return PrimType("uint64")


@op("relax.inspect.tensor_elem_offset", lower=lambda tensor: 0, **_RULES)
def tensor_elem_offset(tensor: TensorType) -> PrimType:
    """How many elements into its memory a tensor begins: 0."""
    return PrimType("uint64")


@op("relax.inspect.tensor_dtype_code", lower=lambda tensor: _code(tensor)[0], **_RULES)
def tensor_dtype_code(tensor: TensorType) -> PrimType:
    """The kind of the dtype as DLPack numbers it: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, ..."""
    return PrimType("uint8")


@op("relax.inspect.tensor_dtype_bits", lower=lambda tensor: _code(tensor)[1], **_RULES)
def tensor_dtype_bits(tensor: TensorType) -> PrimType:
    """The bits of an element."""
    return PrimType("uint8")


@op("relax.inspect.tensor_dtype_lanes", lower=lambda tensor: 1, **_RULES)
def tensor_dtype_lanes(tensor: TensorType) -> PrimType:
    """How many numbers an element holds: 1, for there are no dtypes of vectors."""
    return PrimType("uint16")
