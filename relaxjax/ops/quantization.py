"""Quantisation: floats as integers of a scale, and back."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import can_prove_different
from relaxjax.ir.expr import Expr
from relaxjax.ir.types import TensorType, is_float

from .arrays import finite_range, jax_dtype
from .axis_layouts import ONE_AXIS
from .conversions import DType
from .cost_rules import per_element
from .declare import OpError, op
from .emit import call, dims_of, dtype_of, ndim_of, shape_of, tensor_type
from .shapes import normalize_axis, with_dtype
from .traced import traced_gradient

_QUANTIZED = ("int8", "uint8", "int16", "uint16", "float8_e4m3fn", "float8_e5m2")
_OFFSETS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16")


def _along(parameter: Any, axis: int, ndim: int) -> Any:
    """A scale or an offset, one for each place along `axis` or one for all, as it broadcasts."""
    if parameter.size == 1:
        return parameter.reshape((1,) * ndim)
    return parameter.reshape([-1 if a == axis % ndim else 1 for a in range(ndim)])


def _clipped(x: Any, dtype: str) -> Any:
    """`x` in another dtype, what is out of its range at the end of it."""
    low, high = (jnp.asarray(end, x.dtype) for end in finite_range(dtype))
    return lax.clamp(low, x, high).astype(jax_dtype(dtype))


def _quantize(data: Any, scale: Any, zero_point: Any, axis: int, out_dtype: str) -> Any:
    wide = data.astype(jnp.float32)
    scaled = wide / _along(scale, axis, data.ndim).astype(jnp.float32)
    if "int" in out_dtype:
        scaled = lax.round(scaled, lax.RoundingMethod.TO_NEAREST_EVEN)
    return _clipped(scaled + _along(zero_point, axis, data.ndim).astype(jnp.float32), out_dtype)


def _require_parameter(data: TensorType, name: str, parameter: TensorType, axis: int) -> None:
    if parameter.ndim not in (-1, 0, 1):
        raise OpError(f"`{name}` must have 0 or 1 dimensions, found {parameter.ndim}")
    if data.ndim < 0:
        return
    along = normalize_axis(axis, data.ndim) if data.ndim or parameter.ndim == 1 else 0
    if data.dims and parameter.dims and parameter.dims[0] != 1:
        count = data.dims[along]
        if can_prove_different(count, parameter.dims[0]):
            raise OpError(
                f"`{name}` must have {count} elements, one for each along the axis {axis}, "
                f"found {parameter.dims[0]}"
            )


def _require_dtype(name: str, dtype: str | None, known: tuple[str, ...]) -> None:
    if dtype is not None and dtype not in known:
        raise OpError(f"{name} must be one of {', '.join(known)}, found {dtype}")


def _require_parameters(
    data: TensorType, scale: TensorType, zero_point: TensorType, axis: int
) -> None:
    _require_dtype("the dtype of `scale`", scale.dtype, ("float32", "float16"))
    _require_dtype("the dtype of `zero_point`", zero_point.dtype, _OFFSETS)
    _require_parameter(data, "scale", scale, axis)
    _require_parameter(data, "zero_point", zero_point, axis)


@op(
    "relax.quantize",
    layout=ONE_AXIS,
    lower=_quantize,
    gradient=traced_gradient("relax.quantize"),
    fusion="broadcast",
    cost=per_element(4),
)
def quantize(
    data: TensorType,
    scale: TensorType,
    zero_point: TensorType,
    axis: int = -1,
    out_dtype: DType = "int8",
) -> TensorType:
    """Floats as numbers of a narrow dtype: clip(round(x / scale) + zero_point).

    `scale` and `zero_point` are scalars, or have one element for each place along `axis`. Integers
    have no gradient; numbers of float8 are not rounded but cast, and their gradient is the cast's.
    """
    _require_dtype("the dtype of `data`", data.dtype, ("float32", "float16"))
    _require_dtype("`out_dtype`", out_dtype, _QUANTIZED)
    _require_parameters(data, scale, zero_point, axis)
    return with_dtype(data, out_dtype)


def _dequantize(data: Any, scale: Any, zero_point: Any, axis: int, out_dtype: str) -> Any:
    integers = jnp.issubdtype(data.dtype, jnp.integer)
    wide = jnp.int32 if integers and jnp.issubdtype(zero_point.dtype, jnp.integer) else jnp.float32
    offset = data.astype(wide) - _along(zero_point, axis, data.ndim).astype(wide)
    value = offset.astype(jnp.float32) * _along(scale, axis, data.ndim).astype(jnp.float32)
    return value if out_dtype == "float32" else _clipped(value, out_dtype)


def _dequantize_gradient(
    g: Expr, y: Expr, data: Expr, scale: Expr, zero_point: Expr, axis: int, out_dtype: str
) -> tuple[Expr | None, ...]:
    """Of what are floats: the scale, and the data and the offset where they are."""
    to_offset = g * call("astype", _spread(scale, data, axis), out_dtype)
    offset = call("astype", data, out_dtype) - call(
        "astype", _spread(zero_point, data, axis), out_dtype
    )
    return (
        call("astype", to_offset, dtype_of(data)) if is_float(dtype_of(data)) else None,
        _gathered(g * offset, scale, data, axis),
        _gathered(-to_offset, zero_point, data, axis) if is_float(dtype_of(zero_point)) else None,
    )


def _spread(parameter: Expr, data: Expr, axis: int) -> Expr:
    """A scale or an offset in a shape that broadcasts to that of the data."""
    if tensor_type(parameter).ndim == 0:
        return parameter
    return call("reshape", parameter, _shape_along(parameter, data, axis))


def _shape_along(parameter: Expr, data: Expr, axis: int) -> list[Any]:
    ndim, (count,) = ndim_of(data), dims_of(parameter)
    return [count if a == axis % ndim else 1 for a in range(ndim)]


def _gathered(adjoint: Expr, parameter: Expr, data: Expr, axis: int) -> Expr:
    """The adjoint of a scale or an offset from that of what `_spread` made of it."""
    vector = tensor_type(parameter).ndim == 1
    shape = _shape_along(parameter, data, axis) if vector else []
    total = call("collapse_sum_to", adjoint, shape)
    shaped = call("reshape", total, shape_of(parameter)) if vector else total
    return call("astype", shaped, dtype_of(parameter))


@op(
    "relax.dequantize",
    layout=ONE_AXIS,
    lower=_dequantize,
    gradient=_dequantize_gradient,
    fusion="broadcast",
    cost=per_element(2),
)
def dequantize(
    data: TensorType,
    scale: TensorType,
    zero_point: TensorType,
    axis: int = -1,
    out_dtype: DType = "float32",
) -> TensorType:
    """The floats that quantised numbers stand for: scale * (x - zero_point).

    `scale` and `zero_point` are scalars, or have one element for each place along `axis`.
    """
    known = (*_QUANTIZED, "int32", "float16", "float32")
    _require_dtype("the dtype of `data`", data.dtype, known)
    _require_dtype("`out_dtype`", out_dtype, ("float16", "float32"))
    _require_parameters(data, scale, zero_point, axis)
    return with_dtype(data, out_dtype)
