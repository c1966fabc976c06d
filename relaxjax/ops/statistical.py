"""Statistical operators: reductions over axes."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType, TupleType, Type, is_smooth

from .arrays import added_up, jax_dtype, widened
from .axis_layouts import REDUCED
from .conversions import Axes
from .cost_rules import REDUCES, SORTS, CostRule, per_input
from .declare import OpError, op
from .emit import call, dims_of, dtype_of, narrow, ndim_of, number, scalar, shape_of, wide
from .extremes import extreme
from .shapes import (
    dims_text,
    element_count,
    normalize_axes,
    normalize_axis,
    require_numbers,
    require_real,
    with_dtype,
)


def reduced_type(
    x: TensorType, axes: Sequence[int] | None, keepdims: bool, dtype: str | None
) -> TensorType:
    """The type that is left when `axes` are reduced, all of them for None."""
    if axes is None and not keepdims:
        return TensorType((), dtype, vdevice=x.vdevice)
    if x.ndim < 0:
        return TensorType(None, dtype, vdevice=x.vdevice)
    gone = normalize_axes(axes, x.ndim)
    dims: Sequence[Dim | None] = x.dims or (None,) * x.ndim
    kept = [
        1 if axis in gone else dim for axis, dim in enumerate(dims) if keepdims or axis not in gone
    ]
    known = tuple(dim for dim in kept if dim is not None)
    if len(known) < len(kept):
        return TensorType(None, dtype, len(kept), x.vdevice)
    return TensorType(known, dtype, vdevice=x.vdevice)


def require_elements(x: TensorType, axes: Sequence[int] | None) -> None:
    """Raise where there is known to be no element of which one is to be found."""
    if x.dims is not None and any(x.dims[axis] == 0 for axis in normalize_axes(axes, x.ndim)):
        along = "" if axes is None else f" along {', '.join(f'axis {axis}' for axis in axes)}"
        raise OpError(f"`x` must have an element{along}, but its shape is {dims_text(x.dims)}")


def reduction(
    name: str,
    lower: Callable[..., Any],
    doc: str,
    gradient: Callable[..., Expr],
    cost: CostRule = REDUCES,
    of_numbers: bool = False,
    of_complex: bool = False,
    of_some: bool = False,
    of_parts: bool = False,
    jvp: Callable[..., Expr] | None = None,
) -> Op:
    """An operator that makes one element out of all those along `axis`, of the same dtype.

    It may be `of_some`, one of them, or `of_parts`, which integers and bools have none of for none.
    """

    def infer(x: TensorType, axis: Axes | None = None, keepdims: bool = False) -> TensorType:
        if of_numbers:
            require_numbers("x", x)
        if not of_complex:
            require_real(x=x)
        if of_some or (of_parts and x.dtype is not None and not is_smooth(x.dtype)):
            require_elements(x, axis)
        return reduced_type(x, axis, keepdims, x.dtype)

    infer.__doc__ = doc
    return op(
        f"relax.{name}",
        layout=REDUCED,
        lower=lower,
        gradient=gradient,
        jvp=jvp,
        fusion="reduction",
        facts={"chooses": True} if of_some else {},
        cost=cost,
    )(infer)


def reduced_count(x: Expr, axis: Sequence[int] | None) -> Dim:
    """The number of elements that a reduction over `axis` makes one of."""
    dims = dims_of(x)
    return element_count([dims[a] for a in normalize_axes(axis, len(dims))])


def with_reduced_axes(y: Expr, axis: Sequence[int] | None, keepdims: bool) -> Expr:
    """A reduced tensor with its reduced axes back, so that it broadcasts to the argument."""
    return y if keepdims or not axis else call("expand_dims", y, axis)


def _sum(x: Any, axis: Any, keepdims: bool) -> Any:
    """The sum in the dtype of `x`; of bools, whether one of them is true."""
    if x.dtype == bool:
        return jnp.any(x, axis, keepdims=keepdims)
    return added_up(x, axis, keepdims)


def _prod(x: Any, axis: Any, keepdims: bool) -> Any:
    if x.dtype == bool:
        return jnp.all(x, axis, keepdims=keepdims)
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return jnp.prod(x, axis, x.dtype, keepdims=keepdims)
    return jnp.prod(widened(x), axis, keepdims=keepdims).astype(x.dtype)


def _mean(x: Any, axis: Any, keepdims: bool) -> Any:
    """The mean; of integers, cut off towards zero, and 0 where a size turns out to be none."""
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return jnp.mean(x, axis, keepdims=keepdims)
    total = jnp.sum(x, axis, x.dtype if x.dtype.itemsize >= 4 else jnp.int32, keepdims=keepdims)
    # XLA divides numbers that it knows while it compiles, and 0 / 0 would end the process.
    count = _count(x, axis)
    count = count if isinstance(count, int) else jnp.maximum(count, 1)
    count = jnp.asarray(count).astype(total.dtype)
    return lax.div(total, jnp.broadcast_to(count, total.shape)).astype(x.dtype)


def _count(x: Any, axis: Any) -> Any:
    count = 1
    for a in range(x.ndim) if axis is None else axis:
        count = count * x.shape[a]
    return count


def _variance(x: Any, axis: Any, keepdims: bool) -> Any:
    if jnp.issubdtype(x.dtype, jnp.floating):
        return jnp.var(x, axis, keepdims=keepdims)
    difference = x - _mean(x, axis, True)
    return _mean(difference * difference, axis, keepdims)


def _std(x: Any, axis: Any, keepdims: bool) -> Any:
    variance = _variance(x, axis, keepdims)
    if jnp.issubdtype(x.dtype, jnp.floating):
        return jnp.sqrt(variance)
    return jnp.sqrt(variance.astype(jnp.float32)).astype(x.dtype)


def _sum_gradient(g: Expr, y: Expr, x: Expr, axis: Any, keepdims: bool) -> Expr:
    return call("broadcast_to", with_reduced_axes(g, axis, keepdims), shape_of(x))


def _mean_gradient(g: Expr, y: Expr, x: Expr, axis: Any, keepdims: bool) -> Expr:
    whole = wide(g)
    share = narrow(whole / number(reduced_count(x, axis), whole), g)
    return _sum_gradient(share, y, x, axis, keepdims)


def _variance_gradient(g: Expr, y: Expr, x: Expr, axis: Any, keepdims: bool) -> Expr:
    """2/N * (x - mean(x)), with the mean spelt out: 2/N * x - 2/N**2 * sum(x)."""
    like, g, x = x, wide(g), wide(x)
    count = reduced_count(x, axis)
    total = call("sum", x, axis, keepdims=True)
    if isinstance(count, int) and count:
        direction = scalar(2 / count, x) * x - scalar(2 / count / count, x) * total
    else:
        factor = scalar(2, x) / number(count, x)
        direction = factor * x - factor / number(count, x) * total
    return narrow(with_reduced_axes(g, axis, keepdims) * direction, like)


def _std_gradient(g: Expr, y: Expr, x: Expr, axis: Any, keepdims: bool) -> Expr:
    like, g, y, x = x, wide(g), wide(y), wide(x)
    scale = g / (y * number(reduced_count(x, axis), x))
    centred = x - call("mean", x, axis, keepdims=True)
    return narrow(with_reduced_axes(scale, axis, keepdims) * centred, like)


def _extremum_gradient(name: str) -> Callable[..., Expr]:
    """The gradient rule of `max` or `min`: elements that tie for the extremum share its adjoint.

    It is found anew, among elements that are computed once: of others none might equal it. NaN
    equals nothing, so that shares would be 0 / 0, for which XLA gives 0: there they are NaN.
    """

    def gradient(g: Expr, y: Expr, x: Expr, axis: Any, keepdims: bool) -> Expr:
        elements, whole = call("grad.once", wide(x)), wide(g)
        found = call(name, elements, axis, keepdims=True)
        hit = call("astype", call("equal", elements, found), dtype_of(whole))
        share = hit / call("sum", hit, axis, keepdims=True)
        share = call("where", call("isnan", found), call("astype", found, dtype_of(whole)), share)
        return narrow(with_reduced_axes(whole, axis, keepdims) * share, g)

    return gradient


def _by_rows(x: Expr, axis: Any, change: Callable[[Expr], Expr]) -> Expr:
    """What `change` makes of a tensor with its reduced axes made one, the last; in its shape."""
    dims = dims_of(x)
    gone = normalize_axes(axis, len(dims))
    order = [a for a in range(len(dims)) if a not in gone] + list(gone)
    rows = [dims[a] for a in order[: len(dims) - len(gone)]]
    flat = call("reshape", call("permute_dims", x, order), (*rows, reduced_count(x, axis)))
    changed = call("reshape", change(flat), [dims[a] for a in order])
    return call("permute_dims", changed, [order.index(a) for a in range(len(dims))])


def _others(x: Expr, axis: Any) -> Expr:
    """For each element the product of all others, which holds where elements are zero too."""

    def of_rows(rows: Expr) -> Expr:
        before = call("cumprod", rows, axis=-1, exclusive=True)
        after = call("flip", call("cumprod", call("flip", rows, -1), axis=-1, exclusive=True), -1)
        return before * after

    return _by_rows(x, axis, of_rows)


def _prod_gradient(g: Expr, y: Expr, x: Expr, axis: Any, keepdims: bool) -> Expr:
    return with_reduced_axes(g, axis, keepdims) * _others(x, axis)


def _prod_jvp(tangents: Sequence[Expr], y: Expr, x: Expr, axis: Any, keepdims: bool) -> Expr:
    """By a rule of our own, because JAX's is for known sizes."""
    moves = wide(tangents[0]) * _others(wide(x), axis)
    return narrow(call("sum", moves, axis, keepdims), x)


sum = reduction("sum", _sum, "Sum of the elements along `axis`.", _sum_gradient, of_complex=True)
mean = reduction(
    "mean",
    _mean,
    "Mean of the elements along `axis`.",
    _mean_gradient,
    of_complex=True,
    of_parts=True,
)
variance = reduction(
    "variance",
    _variance,
    "Variance along `axis`: mean((x - mean(x)) ** 2), divided by N.",
    _variance_gradient,
    per_input(4),
    of_numbers=True,
    of_parts=True,
)
std = reduction(
    "std",
    _std,
    "Standard deviation along `axis`: the square root of the variance.",
    _std_gradient,
    per_input(4),
    of_numbers=True,
    of_parts=True,
)
max = reduction(
    "max",
    extreme(jnp.max),
    "Largest element along `axis`, NaN where there is one.",
    _extremum_gradient("max"),
    of_some=True,
)
min = reduction(
    "min",
    extreme(jnp.min),
    "Smallest element along `axis`, NaN where there is one.",
    _extremum_gradient("min"),
    of_some=True,
)
prod = reduction(
    "prod",
    _prod,
    "Product of the elements along `axis`.",
    _prod_gradient,
    of_complex=True,
    jvp=_prod_jvp,
)


def _median(x: Any, axis: Any, keepdims: bool) -> Any:
    """Sort once, stably, values and places together, and read the middle."""
    gone = [a % x.ndim for a in axis] if axis is not None else list(range(x.ndim))
    kept = [a for a in range(x.ndim) if a not in gone]
    rows = x.transpose([*kept, *gone]).reshape(*(x.shape[a] for a in kept), _count(x, gone))
    places = lax.broadcasted_iota(jax_dtype("int64"), rows.shape, rows.ndim - 1)
    values, places = lax.sort((rows, places), num_keys=1)
    middle = jnp.asarray((rows.shape[-1] - 1) // 2)
    shape = [1 if a in gone else x.shape[a] for a in range(x.ndim) if keepdims or a in kept]
    value, place = (
        lax.dynamic_index_in_dim(t, middle, -1, keepdims=False).reshape(shape)
        for t in (values, places)
    )
    return (value, place) if len(gone) == 1 and axis is not None else value


def _median_gradient(g: Expr, y: Expr, x: Expr, axis: Any, keepdims: bool) -> Expr:
    """The element that was taken has the whole adjoint."""
    if axis is None or len(axis) != 1:
        return _median_of_rows_gradient(g, x, axis, keepdims)
    along = normalize_axis(axis[0], ndim_of(x))
    place = with_reduced_axes(y[1], axis, keepdims)
    zeros = call("zeros_like", x)
    update = with_reduced_axes(g[0], axis, keepdims)
    return call("scatter_elements", zeros, place, update, axis=along)


def _median_of_rows_gradient(g: Expr, x: Expr, axis: Any, keepdims: bool) -> Expr:
    """As above, of the tensor whose reduced axes are made one."""

    def spread(rows: Expr) -> Expr:
        place = call("median", rows, -1, keepdims=True)[1]
        *lengths, _ = dims_of(rows)
        update, zeros = call("reshape", g, (*lengths, 1)), call("zeros_like", rows)
        return call("scatter_elements", zeros, place, update, axis=len(lengths))

    return _by_rows(x, axis, spread)


@op(
    "relax.median",
    layout=REDUCED,
    lower=_median,
    gradient=_median_gradient,
    facts={"chooses": True},
    cost=SORTS,
)
def median(x: TensorType, axis: Axes | None = None, keepdims: bool = False) -> Type:
    """Median along `axis`: the lower middle one of the sorted elements.

    Along one axis, a pair: the medians, and where they stand along it.
    """
    require_real(x=x)
    require_elements(x, axis)
    value = reduced_type(x, axis, keepdims, x.dtype)
    if axis is None or len(axis) != 1:
        return value
    return TupleType((value, with_dtype(value, "int64")))
