"""Running sums and products."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.expr import Expr
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType

from .arrays import cast
from .axis_layouts import ONE_AXIS
from .conversions import DType
from .cost_rules import REDUCES
from .declare import op
from .emit import call, dtype_of, shape_of
from .recurrence import shifted
from .shapes import element_count, normalize_axis, with_dtype


def scan_type(data: TensorType, axis: int | None, dtype: str | None) -> TensorType:
    """The type of a running sum or product: of the flattened tensor where `axis` is None."""
    if axis is not None:
        if data.ndim >= 0:
            normalize_axis(axis, data.ndim)
        return with_dtype(data, dtype or data.dtype)
    dims = None if data.dims is None else (element_count(data.dims),)
    return TensorType(dims, dtype or data.dtype, 1, data.vdevice)


def _running(
    name: str, function: Callable[..., Any], start: int, gradient: Callable[..., Expr]
) -> Callable[[Callable[..., TensorType]], Op]:
    """A running sum or product; an exclusive one starts with `start`.

    `gradient` takes the adjoint, `data` in the dtype of the result, and one axis.
    """

    def lower(data: Any, axis: int | None, dtype: str | None, exclusive: bool) -> Any:
        given = data.dtype if dtype is None else dtype
        x = data.reshape(-1) if axis is None else data
        axis = (axis or 0) % x.ndim
        x = x.astype(jnp.int32) if x.dtype == bool else cast(x, given)
        if exclusive:
            shift = [(1, -1, 0) if a == axis else (0, 0, 0) for a in range(x.ndim)]
            x = lax.pad(x, jnp.asarray(start, x.dtype), shift)
        return cast(function(x, axis), given)

    def whole_gradient(
        g: Expr, y: Expr, x: Expr, axis: int | None, dtype: str | None, exclusive: bool
    ) -> Expr:
        value = x if dtype is None else call("astype", x, dtype)
        value = call("reshape", value, (-1,)) if axis is None else value
        grad = gradient(g, value, axis or 0, exclusive)
        if axis is None:
            grad = call("reshape", grad, shape_of(x))
        return grad if dtype is None else call("astype", grad, dtype_of(x))

    return op(
        f"relax.{name}",
        layout=ONE_AXIS,
        lower=lower,
        gradient=whole_gradient,
        facts={"chooses": True},
        cost=REDUCES,
    )


def _cumsum_gradient(g: Expr, x: Expr, along: int, exclusive: bool) -> Expr:
    """At each place the sum of `g` there and after it; only after it where `exclusive`.

    Not the whole sum less a running one, in which small adjoints behind large ones are lost.
    """
    return call("flip", call("cumsum", call("flip", g, along), along, exclusive=exclusive), along)


def _cumprod_gradient(g: Expr, x: Expr, along: int, exclusive: bool) -> Expr:
    """For each j the sum over i of g[i] * (product of all but x[j] up to i), zeros or none.

    The product of what stands before j is a running product; the sum of g[i] * (product of what
    stands after j up to i) is a recurrence that runs back.
    """
    before = call("cumprod", x, along, exclusive=True)
    if exclusive:
        return before * shifted(call("linear_recurrence", x, g, along, reverse=True), along, -1)
    return before * call("linear_recurrence", shifted(x, along, -1), g, along, reverse=True)


@_running("cumsum", lax.cumsum, 0, _cumsum_gradient)
def cumsum(
    data: TensorType, axis: int | None = None, dtype: DType | None = None, exclusive: bool = False
) -> TensorType:
    """Running sum along `axis`, or of the flattened tensor: y[i] = x[0] + ... + x[i].

    An exclusive one leaves x[i] out.
    """
    return scan_type(data, axis, dtype)


@_running("cumprod", lax.cumprod, 1, _cumprod_gradient)
def cumprod(
    data: TensorType, axis: int | None = None, dtype: DType | None = None, exclusive: bool = False
) -> TensorType:
    """Running product along `axis`, or of the flattened tensor: y[i] = x[0] * ... * x[i].

    An exclusive one leaves x[i] out.
    """
    return scan_type(data, axis, dtype)
