"""Operators on three tensors of one shape."""

from relaxjax.ir.dims import can_prove_different
from relaxjax.ir.types import TensorType

from .declare import OpError, op
from .shapes import common_dtype, common_vdevice, dims_text, same_dims


@op(
    "relax.ewise_fma",
    lower=lambda x1, x2, x3: x1 * x2 + x3,
    gradient=lambda g, y, x1, x2, x3: (g * x2, g * x1, g),
    precision="follow",
    fusion="elementwise",
    facts={"elementwise": True},
)
def ewise_fma(x1: TensorType, x2: TensorType, x3: TensorType) -> TensorType:
    """Product and sum of three tensors of one shape: y = x1 * x2 + x3."""
    dtype, vdevice = common_dtype(x1=x1, x2=x2, x3=x3), common_vdevice(x1, x2, x3)
    ranks = {ty.ndim for ty in (x1, x2, x3)} - {-1}
    if len(ranks) > 1:
        raise OpError(f"the tensors must have the same rank, found {sorted(ranks)}")
    shapes = [ty.dims for ty in (x1, x2, x3) if ty.dims is not None]
    for shape in shapes[1:]:
        if any(map(can_prove_different, shapes[0], shape)):
            raise OpError(
                f"the tensors must have one shape, found {dims_text(shapes[0])} and "
                f"{dims_text(shape)}"
            )
    known = len(shapes) == 3 and all(same_dims(shapes[0], shape) for shape in shapes)
    ndim = next(iter(ranks), -1)
    return TensorType(shapes[0] if known else None, dtype, ndim, vdevice)
