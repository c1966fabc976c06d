"""Operators that choose elements and find places."""

from typing import Any

import jax
import jax.numpy as jnp

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import ZERO_GRADIENT
from relaxjax.ir.types import TensorType

from .arrays import broadcasting, cast
from .axis_layouts import LOCATED
from .cost_rules import ELEMENTWISE, REDUCES, counting, dims_at, elements, logarithm
from .declare import OpError, op, sugar
from .emit import call, scalar
from .emit import where as choose
from .rearranging import LIKE_DATA
from .shapes import broadcast, common_dtype, require_ndim
from .statistical import reduced_type, require_elements

_FOUND: dict[str, Any] = {
    "layout": LOCATED,
    "gradient": ZERO_GRADIENT,
    "precision": "follow",
    "fusion": "reduction",
    "cost": REDUCES,
}


def _where_gradient(g: Expr, z: Expr, c: Expr, x: Expr, y: Expr) -> tuple[None, Expr, Expr]:
    return None, choose(c, g, scalar(0, x)), choose(c, scalar(0, y), g)


@op(
    "relax.where",
    lower=broadcasting(jnp.where),
    gradient=_where_gradient,
    precision="follow",
    fusion="broadcast",
    facts={"elementwise": True, "turns": True},
    cost=ELEMENTWISE,
)
def where(condition: TensorType, x1: TensorType, x2: TensorType) -> TensorType:
    """The element of `x1` where the condition is true, else that of `x2`; all three broadcast."""
    if condition.dtype not in (None, "bool"):
        raise OpError(f"`condition` must have dtype bool, found {condition.dtype}")
    dtype = common_dtype(x1=x1, x2=x2)
    both = broadcast(x1, x2, dtype)
    return broadcast(condition, both, dtype, ("`condition`", "`x1` with `x2`"))


def _place_type(x: TensorType, axis: int | None, keepdims: bool) -> TensorType:
    axes = None if axis is None else (axis,)
    require_elements(x, axes)
    return reduced_type(x, axes, keepdims, "int64")


@op(
    "relax.argmax",
    lower=lambda x, axis, keepdims: cast(jnp.argmax(x, axis, keepdims=keepdims), "int64"),
    **_FOUND,
)
def argmax(x: TensorType, axis: int | None = None, keepdims: bool = False) -> TensorType:
    """The place of the first largest element along `axis`, or in the flattened tensor."""
    return _place_type(x, axis, keepdims)


@op(
    "relax.argmin",
    lower=lambda x, axis, keepdims: cast(jnp.argmin(x, axis, keepdims=keepdims), "int64"),
    **_FOUND,
)
def argmin(x: TensorType, axis: int | None = None, keepdims: bool = False) -> TensorType:
    """The place of the first smallest element along `axis`, or in the flattened tensor."""
    return _place_type(x, axis, keepdims)


def _bucketize(input_tensor: Any, boundaries: Any, out_int32: bool, right: bool) -> Any:
    with jax.numpy_dtype_promotion("standard"):  # they may be of different dtypes
        found = jnp.searchsorted(boundaries, input_tensor, side="right" if right else "left")
    return cast(found, "int32" if out_int32 else "int64")


def _searched(call: Call) -> Dim:
    """A comparison for each halving of the boundaries."""
    return elements(call.args[0].ty) * logarithm(dims_at(call, 1)[0])


@op(
    "relax.bucketize",
    layout=LIKE_DATA,
    lower=_bucketize,
    gradient=ZERO_GRADIENT,
    precision="follow",
    cost=counting(_searched),
)
def bucketize(
    input_tensor: TensorType, boundaries: TensorType, out_int32: bool = False, right: bool = False
) -> TensorType:
    """The bucket of each element: how many of the sorted `boundaries` are below it.

    With `right`, those that equal the element count as below it.
    """
    require_ndim("boundaries", boundaries, 1)
    shape, ndim = input_tensor.shape, input_tensor.ndim
    dtype = "int32" if out_int32 else "int64"
    return TensorType(shape, dtype, ndim if shape is None else -1, input_tensor.vdevice)


@sugar("relax.masked_fill")
def masked_fill(x: Expr, mask: Expr, value: Expr) -> Expr:
    """`x` with `value` where the mask is true."""
    return choose(mask, call("full_like", x, value), x)
