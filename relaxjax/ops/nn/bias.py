"""Adding a bias along one axis."""

from typing import Any

from relaxjax.ir.dims import can_prove_different
from relaxjax.ir.expr import Expr
from relaxjax.ir.types import TensorType
from relaxjax.ops.axis_layouts import ONE_AXIS
from relaxjax.ops.cost_rules import ELEMENTWISE
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.emit import call, ndim_of
from relaxjax.ops.shapes import common_dtype, normalize_axis, require_ndim


def _bias_add(data: Any, bias: Any, axis: int) -> Any:
    shape = [bias.size if place == axis % data.ndim else 1 for place in range(data.ndim)]
    return data + bias.reshape(shape)


def _bias_add_gradient(g: Expr, y: Expr, data: Expr, bias: Expr, axis: int) -> tuple[Expr, Expr]:
    ndim = ndim_of(data)
    along = normalize_axis(axis, ndim)
    return g, call("sum", g, [a for a in range(ndim) if a != along])


def _with_axes(data: Expr, bias: Expr, axis: int) -> Expr:
    """What is behind the axis of the bias becomes axes of size 1 of it."""
    ndim = ndim_of(data)
    behind = list(range(1, ndim - normalize_axis(axis, ndim)))
    return data + (call("expand_dims", bias, behind) if behind else bias)


@op(
    "relax.nn.bias_add",
    layout=ONE_AXIS,
    lower=_bias_add,
    gradient=_bias_add_gradient,
    canonical=_with_axes,
    precision="follow",
    fusion="broadcast",
    cost=ELEMENTWISE,
)
def bias_add(data: TensorType, bias: TensorType, axis: int = 1) -> TensorType:
    """`data` with a vector `bias` added along one axis, as Relay has it."""
    common_dtype(data=data, bias=bias)
    require_ndim("bias", bias, 1)
    along = normalize_axis(axis, data.ndim) if data.ndim >= 0 else axis
    if data.dims is not None and bias.dims is not None:
        size, found = data.dims[along], bias.dims[0]
        if can_prove_different(size, found):
            raise OpError(f"`bias` must have the {size} elements of axis {along}, found {found}")
    return data
