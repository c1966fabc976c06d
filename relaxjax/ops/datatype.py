"""Operators that change a tensor's dtype."""

from relaxjax.ir.expr import Expr
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType, is_float

from .arrays import cast
from .conversions import DType
from .cost_rules import ELEMENTWISE
from .declare import op
from .emit import call, dtype_of
from .shapes import with_dtype


def _astype_gradient(g: Expr, y: Expr, x: Expr, dtype: str) -> tuple[Expr | None]:
    """The adjoint converted back; none through integers, which have no slope.

    What complex numbers were made of real ones has the real part of the adjoint.
    """
    given = dtype_of(x)
    if not (_has_slope(dtype) and _has_slope(given)):
        return (None,)
    if not is_float(given) or is_float(dtype):
        return (call("astype", g, given),)
    return (call("astype", get_op("lax.real")(g), given),)


def _has_slope(dtype: str) -> bool:
    return is_float(dtype) or dtype.startswith("complex")


@op(
    "relax.astype",
    lower=cast,
    gradient=_astype_gradient,
    precision="follow",
    fusion="elementwise",
    facts={"elementwise": True},
    cost=ELEMENTWISE,
)
def astype(x: TensorType, dtype: DType) -> TensorType:
    """The elements converted to another dtype; floats to integers towards zero."""
    return with_dtype(x, dtype)


@op(
    "relax.wrap_param",
    lower=cast,
    gradient=_astype_gradient,
    fusion="elementwise",
    cost=ELEMENTWISE,
)
def wrap_param(data: TensorType, dtype: DType = "float32") -> TensorType:
    """A parameter of a model converted to the dtype in which the model computes."""
    return with_dtype(data, dtype)
