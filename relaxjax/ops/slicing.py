"""Slices of a tensor, and writing into them."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different, floordiv
from relaxjax.ir.expr import Constant, Expr, PrimExpr, Tuple
from relaxjax.ir.types import TensorType, TupleType

from .axis_layouts import SLICED, axis_rule
from .cost_rules import MOVES, PICKS
from .creation import host_dim
from .declare import OpError, op
from .emit import call, dims_of, dtype_of, ndim_of
from .shapes import (
    bounded,
    common_dtype,
    normalize_axes,
    normalize_axis,
    positive_part,
    require_ndim,
)


def _field_count(value: Expr, name: str) -> int:
    """How many fields a tuple argument has; anything but a tuple is an error."""
    if isinstance(value.ty, TupleType):
        return len(value.ty.fields)
    raise OpError(f"`{name}` must be a tuple of integers, but `{value}` is of type {value.ty}")


def host_dims(value: Expr) -> tuple[Dim, ...] | None:
    """The integers of a tuple argument; None where one of them is in a variable."""
    if not isinstance(value, Tuple):
        return None
    found = [host_dim(item) for item in value.fields]
    return tuple(dim for dim in found if dim is not None) if None not in found else None


def _ceil_divide(distance: Any, stride: Any) -> Any:
    return (distance + stride - 1) // stride


def _inside(place: Any, length: Any, stride: int) -> Any:
    """A place counted from the front and held inside the axis, where integers let it be told."""
    if isinstance(place, int) and place < 0:
        place = length + place
    if isinstance(place, int) and isinstance(length, int):
        return max(-1, min(place, length - 1)) if stride < 0 else max(0, min(place, length))
    return place


def _resolved_slice(length: Any, begin: Any, end: Any, stride: int) -> tuple[Any, Any, Any]:
    """Of a slice: the lowest place, the place after the highest, and how many elements it has."""
    begin, end = _inside(begin, length, stride), _inside(end, length, stride)
    if stride > 0:
        count = _ceil_divide(end - begin, stride)
        return (begin, end, count) if _is_positive(count) else (0, 0, 0)
    count = _ceil_divide(begin - end, -stride)
    return (begin + (count - 1) * stride, begin + 1, count) if _is_positive(count) else (0, 0, 0)


def _is_positive(count: Any) -> bool:
    """Symbolic counts are taken to be positive."""
    return not isinstance(count, int) or count > 0


def _strided_slice(
    x: Any, axes: Any, begin: Any, end: Any, strides: Any, assume_inbound: bool
) -> Any:
    steps = (1,) * len(axes) if strides is None else strides
    for axis, first, last, step in zip(axes, begin, end, steps, strict=True):
        low, high, _ = _resolved_slice(x.shape[axis], first, last, step)
        x = lax.slice_in_dim(x, low, high, abs(step), axis)
        x = lax.rev(x, [axis % x.ndim]) if step < 0 else x
    return x


def _strided_slice_gradient(
    g: Expr, y: Expr, x: Expr, axes: Expr, begin: Expr, end: Expr, strides: Expr | None, **_: Any
) -> tuple[Expr | None, ...]:
    """Written into zeros, along one axis after another."""
    places, first, last = host_dims(axes), host_dims(begin), host_dims(end)
    steps = (1,) * len(places or ()) if strides is None else host_dims(strides)
    if places is None or first is None or last is None or steps is None:
        raise OpError("the gradient needs places that are written out")
    dims, shape = dims_of(x), list(dims_of(y))
    for axis, start, stop, step in zip(places, first, last, steps, strict=True):
        assert isinstance(axis, int)
        assert isinstance(step, int)
        low, high, _ = _resolved_slice(dims[axis], start, stop, step)
        shape[axis] = dims[axis]
        part = call("flip", g, axis) if step < 0 else g
        zeros = call("zeros", tuple(shape), dtype_of(g))
        g = call("slice_scatter", zeros, part, low, high, abs(step), axis=axis)
    return g, None, None, None, None


@op(
    "relax.strided_slice",
    layout=SLICED,
    lower=_strided_slice,
    gradient=_strided_slice_gradient,
    precision="follow",
    fusion="injective",
    facts={"moves": True},
    cost=PICKS,
)
def strided_slice(
    x: TensorType,
    axes: Tuple,
    begin: Tuple,
    end: Tuple,
    strides: Tuple | None = None,
    assume_inbound: bool = False,
) -> TensorType:
    """Along each of `axes`, every `strides`-th element from `begin` on until before `end`.

    Negative places count from the back, and places outside are moved inside; `assume_inbound` says
    that symbolic ones are neither.
    """
    count = _field_count(axes, "axes")
    for name, part in (("begin", begin), ("end", end), ("strides", strides)):
        if part is not None and _field_count(part, name) != count:
            raise OpError(
                f"`{name}` must have {count} elements, as `axes`, found {_field_count(part, name)}"
            )
    places, first, last = host_dims(axes), host_dims(begin), host_dims(end)
    steps = (1,) * count if strides is None else host_dims(strides)
    if x.ndim < 0 or places is None:
        return TensorType(None, x.dtype, x.ndim, x.vdevice)
    along = normalize_axes([a for a in places if isinstance(a, int)], x.ndim, "axes")
    if steps is not None and 0 in steps:
        raise OpError("`strides` must not be 0")
    if x.dims is None or first is None or last is None or steps is None:
        return TensorType(None, x.dtype, x.ndim, x.vdevice)
    lengths = list[Dim | None](x.dims)
    for axis, start, stop, step in zip(along, first, last, steps, strict=True):
        lengths[axis] = _slice_length(x.dims[axis], start, stop, step, assume_inbound)
    known = [length for length in lengths if length is not None]
    return TensorType(known if len(known) == x.ndim else None, x.dtype, x.ndim, x.vdevice)


def _slice_length(length: Dim, begin: Dim, end: Dim, stride: Dim, inbound: bool) -> Dim | None:
    """How many elements a slice has; None where symbols leave open what is inside."""
    if not isinstance(stride, int):
        return None
    if all(isinstance(dim, int) for dim in (length, begin, end)):
        count = _resolved_slice(length, begin, end, stride)[2]
        return int(count)
    if stride < 0:
        return None
    if not inbound:
        begin, end = _clipped(begin, length), _clipped(end, length)
    distance = end - begin if inbound else positive_part(end - begin)
    return floordiv(distance + stride - 1, stride)


def _clipped(place: Dim, length: Dim) -> Dim:
    """A place inside an axis. Symbolic places are taken to be counted from the front."""
    if isinstance(place, int) and place < 0:
        return positive_part(length + place)
    return bounded(place, length)


def _dynamic_slice(x: Any, begin: Any, end: Any, strides: Any) -> Any:
    try:
        places = [np.asarray(part).tolist() for part in (begin, end, strides)]
    except jax.errors.TracerArrayConversionError:
        raise OpError(
            "the places must be known when the program is compiled, "
            "because the shape of the result depends on them: write R.strided_slice"
        ) from None
    begin, end, strides = places
    return _strided_slice(x, range(x.ndim), begin, end, strides, assume_inbound=False)


def _dynamic_slice_gradient(
    g: Expr, y: Expr, x: Expr, begin: Expr, end: Expr, strides: Expr
) -> tuple[Expr | None, ...]:
    """That of strided_slice, at places that are constants."""
    parts = [part.data.tolist() for part in (begin, end, strides) if isinstance(part, Constant)]
    if len(parts) < 3:
        raise OpError("the gradient needs places that are constants: write R.strided_slice")
    fixed = call("strided_slice", x, list(range(ndim_of(x))), *parts)
    axes, first, last, steps = fixed.args[1:]
    to_x = _strided_slice_gradient(g, fixed, x, axes, first, last, steps)[0]
    return to_x, None, None, None


@op(
    "relax.dynamic_strided_slice",
    lower=_dynamic_slice,
    gradient=_dynamic_slice_gradient,
    jvp=lambda tangents, y, x, *places: call("dynamic_strided_slice", tangents[0], *places),
    precision="follow",
    facts={"data_dependent": True},
    cost=PICKS,
)
def dynamic_strided_slice(
    x: TensorType, begin: TensorType, end: TensorType, strides: TensorType
) -> TensorType:
    """As strided_slice along all axes, with the places in tensors of dtype int64."""
    for name, part in {"begin": begin, "end": end, "strides": strides}.items():
        if part.dtype not in (None, "int64"):
            raise OpError(f"`{name}` must have dtype int64, found {part.dtype}")
        count = part.dims[0] if part.dims else x.ndim
        if part.ndim not in (-1, 1) or (x.ndim >= 0 and can_prove_different(count, x.ndim)):
            raise OpError(f"`{name}` must have {x.ndim} elements along 1 dimension")
    return TensorType(None, x.dtype, x.ndim, x.vdevice)


def _slice_scatter(input_tensor: Any, src: Any, start: Any, end: Any, step: Any, axis: int) -> Any:
    """An update in one piece; with gaps, a choice between the tensor and `src` spread out."""
    along = axis % input_tensor.ndim
    length, count = input_tensor.shape[along], src.shape[along]
    if isinstance(step, int) and step == 1:
        return lax.dynamic_update_slice_in_dim(input_tensor, src, start, along)
    after = length - start - (count - 1) * step - 1 if count else length - start
    config = [
        (start, after, step - 1) if a == along else (0, 0, 0) for a in range(input_tensor.ndim)
    ]
    spread = lax.pad(src, jnp.zeros((), src.dtype), config)
    hit = lax.pad(jnp.ones(src.shape, bool), jnp.zeros((), bool), config)
    return lax.select(hit, spread, input_tensor)


def _slice_scatter_gradient(
    g: Expr, y: Expr, x: Expr, src: Expr, start: Expr, end: Expr, step: Expr, axis: int
) -> tuple[Expr | None, ...]:
    zeros = call("zeros_like", src)
    to_x = call("slice_scatter", g, zeros, start, end, step, axis=axis)
    to_src = call("strided_slice", g, [axis], [start], [end], [step], assume_inbound=True)
    return to_x, to_src, None, None, None


@op(
    "relax.slice_scatter",
    layout=axis_rule("axis", arranged=(0, 1)),
    lower=_slice_scatter,
    gradient=_slice_scatter_gradient,
    precision="follow",
    fusion="injective",
    cost=MOVES,
)
def slice_scatter(
    input_tensor: TensorType,
    src: TensorType,
    start: PrimExpr,
    end: PrimExpr,
    step: PrimExpr,
    axis: int = 0,
) -> TensorType:
    """`input_tensor` with `src` instead of every `step`-th slice from `start` until `end`."""
    common_dtype(input_tensor=input_tensor, src=src)
    if input_tensor.ndim < 0:
        return input_tensor
    along = normalize_axis(axis, input_tensor.ndim)
    require_ndim("src", src, input_tensor.ndim)
    first, last, stride = (host_dim(value) for value in (start, end, step))
    if isinstance(stride, int) and stride < 1:
        raise OpError(f"`step` must be positive, found {stride}")
    if isinstance(first, int) and isinstance(last, int) and not 0 <= first <= last:
        raise OpError(f"`start` must be in [0, `end`], found {first} and {last}")
    if input_tensor.dims is not None and src.dims is not None:
        known = first is not None and last is not None and stride is not None
        count = _ceil_divide(last - first, stride) if known else None  # type: ignore[operator]  # as known says
        _require_source(input_tensor.dims, src.dims, along, count)
    return input_tensor


def _require_source(dims: Sequence[Dim], src: Sequence[Dim], along: int, count: Dim | None) -> None:
    """The slices must be as long as what they replace; their number may be unknown."""
    for axis, (dim, found) in enumerate(zip(dims, src, strict=True)):
        wanted = count if axis == along else dim
        if wanted is not None and can_prove_different(wanted, found):
            raise OpError(f"`src` must be of length {wanted} along axis {axis}, found {found}")
