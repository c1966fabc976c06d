"""Normalisation over chosen axes: layer, group, instance and root-mean-square norms.

Gradient rules are in closed form, from the normalised values: nothing of the forward program but
its arguments is needed, and the statistics are taken once.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different, floordiv
from relaxjax.ir.expr import Expr
from relaxjax.ir.types import TensorType
from relaxjax.ops.arrays import widened
from relaxjax.ops.axis_layouts import axis_rule
from relaxjax.ops.cost_rules import per_input
from relaxjax.ops.declare import Axes, OpError, op
from relaxjax.ops.emit import call, dims_of, ndim_of, scalar
from relaxjax.ops.shapes import common_dtype, dims_text, normalize_axes, normalize_axis
from relaxjax.ops.unary import require_float

_RULES: dict[str, Any] = {"precision": "never", "fusion": "reduction"}


def normalized(x: Any, axes: Sequence[int], epsilon: float) -> Any:
    """(x - mean) / sqrt(variance + epsilon) over `axes`, in float32 where `x` is narrower."""
    wide = widened(x)
    centred = wide - jnp.mean(wide, axes, keepdims=True)
    variance = jnp.mean(centred * centred, axes, keepdims=True)
    return centred * lax.rsqrt(variance + jnp.asarray(epsilon, wide.dtype))


def affine(x: Any, gamma: Any, beta: Any, scale: bool, center: bool, dtype: Any) -> Any:
    """`x * gamma + beta`, as far as asked for."""
    if scale:
        x = x * gamma.astype(x.dtype)
    if center:
        x = x + beta.astype(x.dtype)
    return x.astype(dtype)


def over_axes(parameter: Any, axes: Sequence[int], ndim: int) -> Any:
    """An array whose axis i is `axes[i]` of a tensor, so that it broadcasts to the tensor."""
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    places = [axis for axis in range(ndim) if axis not in axes]
    return lax.expand_dims(jnp.transpose(parameter, order), places)


def spread(parameter: Expr, axes: Sequence[int], ndim: int) -> Expr:
    """As `over_axes`, of an expression; trailing axes in their order broadcast as they are."""
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    if order != list(range(len(axes))):
        parameter = call("permute_dims", parameter, order)
    places = [axis for axis in range(ndim) if axis not in axes]
    trailing = places == list(range(len(places)))
    return parameter if trailing else call("expand_dims", parameter, places)


def gathered(adjoint: Expr, axes: Sequence[int], ndim: int) -> Expr:
    """The adjoint of a parameter from that of what `spread` made of it: summed over the rest."""
    others = [axis for axis in range(ndim) if axis not in axes]
    total = call("sum", adjoint, others) if others else adjoint
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    if order == list(range(len(axes))):
        return total
    return call("permute_dims", total, [order.index(i) for i in range(len(axes))])


def standardized(x: Expr, axes: Sequence[int], epsilon: float) -> tuple[Expr, Expr]:
    """The normalised values, and the reciprocal of the standard deviation."""
    centred = x - call("mean", x, axes, keepdims=True)
    variance = call("variance", x, axes, keepdims=True)
    inverse = call("rsqrt", variance + scalar(epsilon, x))
    return centred * inverse, inverse


def standardized_adjoint(h: Expr, values: Expr, inverse: Expr, axes: Sequence[int]) -> Expr:
    """The adjoint of `x` from that of its normalised values: without its mean and its slope."""
    mean = call("mean", h, axes, keepdims=True)
    slope = call("mean", h * values, axes, keepdims=True)
    return inverse * (h - mean - values * slope)


def require_parameter(
    name: str, parameter: TensorType, dims: Sequence[Dim] | None, of: str
) -> None:
    """A parameter of another shape than `dims` is an error."""
    if dims is None:
        return
    wrong_rank = parameter.ndim not in (-1, len(dims))
    if wrong_rank or (parameter.dims and any(map(can_prove_different, parameter.dims, dims))):
        found = dims_text(parameter.dims) if parameter.dims else f"{parameter.ndim} dimensions"
        raise OpError(f"`{name}` must have shape {dims_text(dims)}, as {of}, found {found}")


def _require_parameters(
    data: TensorType, axes: Sequence[int], **parameters: TensorType
) -> TensorType:
    """The type of the result, after the checks that all norms share."""
    common_dtype(data=data, **parameters)
    require_float(data, "data")
    dims = None if data.dims is None else [data.dims[axis] for axis in axes]
    for name, parameter in parameters.items():
        require_parameter(name, parameter, dims, "the axes of `data`")
    return data


def _layer_norm(
    data: Any, gamma: Any, beta: Any, axes: Any, epsilon: float, center: bool, scale: bool
) -> Any:
    places = [axis % data.ndim for axis in axes]
    gamma, beta = (over_axes(parameter, places, data.ndim) for parameter in (gamma, beta))
    return affine(normalized(data, places, epsilon), gamma, beta, scale, center, data.dtype)


def _layer_norm_spelt_out(
    data: Expr, gamma: Expr, beta: Expr, axes: Any, epsilon: float, center: bool, scale: bool
) -> Expr:
    ndim = ndim_of(data)
    places = normalize_axes(axes, ndim, "axes")
    centred = data - call("mean", data, axes, keepdims=True)
    variance = call("variance", data, axes, keepdims=True)
    out: Expr = centred / call("sqrt", variance + scalar(epsilon, data))
    if scale:
        out = out * spread(gamma, places, ndim)
    return out + spread(beta, places, ndim) if center else out


def _layer_norm_gradient(
    g: Expr,
    y: Expr,
    data: Expr,
    gamma: Expr,
    beta: Expr,
    axes: Any,
    epsilon: float,
    center: bool,
    scale: bool,
) -> tuple[Expr | None, ...]:
    ndim = ndim_of(data)
    places = normalize_axes(axes, ndim, "axes")
    values, inverse = standardized(data, places, epsilon)
    h = g * spread(gamma, places, ndim) if scale else g
    return (
        standardized_adjoint(h, values, inverse, places),
        gathered(g * values, places, ndim) if scale else None,
        gathered(g, places, ndim) if center else None,
    )


@op(
    "relax.nn.layer_norm",
    layout=axis_rule("axes"),
    lower=_layer_norm,
    gradient=_layer_norm_gradient,
    training_form=_layer_norm_spelt_out,
    inference=_layer_norm_spelt_out,
    **_RULES,
    cost=per_input(8),
)
def layer_norm(
    data: TensorType,
    gamma: TensorType,
    beta: TensorType,
    axes: Axes,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> TensorType:
    """Layer norm over `axes`: (x - mean) / sqrt(variance + epsilon) * gamma + beta.

    `gamma` and `beta` have the dimensions of `axes`, in the order of `axes`.
    """
    places = normalize_axes(axes, data.ndim, "axes") if data.ndim >= 0 else ()
    return _require_parameters(data, places, gamma=gamma, beta=beta)


def _grouped(dims: Sequence[Any], groups: int, channel: int) -> tuple[Any, ...]:
    """The shape in which the channels are two axes: the group, and the channel in it."""
    return (*dims[:channel], groups, floordiv(dims[channel], groups), *dims[channel + 1 :])


def _group_axes(ndim: int, channel: int, axes: Sequence[int]) -> list[int]:
    """What a group norm reduces, in the grouped shape: the channels of a group, and `axes`."""
    places = normalize_axes(axes, ndim, "axes")
    return sorted([channel + 1, *(axis + (axis > channel) for axis in places)])


def _group_norm(
    data: Any,
    gamma: Any,
    beta: Any,
    num_groups: int,
    channel_axis: int,
    axes: Any,
    epsilon: float,
    center: bool,
    scale: bool,
) -> Any:
    channel = channel_axis % data.ndim
    size = data.shape[channel] // num_groups
    grouped = (*data.shape[:channel], num_groups, size, *data.shape[channel + 1 :])
    reduced = _group_axes(data.ndim, channel, axes)
    values = lax.reshape(normalized(lax.reshape(data, grouped), reduced, epsilon), data.shape)
    gamma, beta = (over_axes(parameter, [channel], data.ndim) for parameter in (gamma, beta))
    return affine(values, gamma, beta, scale, center, data.dtype)


def _group_norm_gradient(
    g: Expr,
    y: Expr,
    data: Expr,
    gamma: Expr,
    beta: Expr,
    num_groups: int,
    channel_axis: int,
    axes: Any,
    epsilon: float,
    center: bool,
    scale: bool,
) -> tuple[Expr | None, ...]:
    dims, ndim = dims_of(data), ndim_of(data)
    channel = normalize_axis(channel_axis, ndim)
    shape, reduced = _grouped(dims, num_groups, channel), _group_axes(ndim, channel, axes)
    values, inverse = standardized(call("reshape", data, shape), reduced, epsilon)
    h = g * spread(gamma, [channel], ndim) if scale else g
    to_data = standardized_adjoint(call("reshape", h, shape), values, inverse, reduced)
    flat = call("reshape", values, dims)
    return (
        call("reshape", to_data, dims),
        gathered(g * flat, [channel], ndim) if scale else None,
        gathered(g, [channel], ndim) if center else None,
    )


def _require_channel_apart(data: TensorType, channel_axis: int, axes: Sequence[int]) -> int:
    """The channel axis, which may not be one of those reduced."""
    channel = normalize_axis(channel_axis, data.ndim, "channel_axis")
    if channel in normalize_axes(axes, data.ndim, "axes"):
        raise OpError(f"`axes` may not hold the channel axis {channel}, found {list(axes)}")
    return channel


@op(
    "relax.nn.group_norm",
    layout=axis_rule("channel_axis", "axes"),
    lower=_group_norm,
    gradient=_group_norm_gradient,
    **_RULES,
    cost=per_input(8),
)
def group_norm(
    data: TensorType,
    gamma: TensorType,
    beta: TensorType,
    num_groups: int,
    channel_axis: int,
    axes: Axes,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> TensorType:
    """Group norm: each group of channels normalised over itself and `axes`, then * gamma + beta."""
    if data.ndim < 0:
        return data
    channel = _require_channel_apart(data, channel_axis, axes)
    count = None if data.dims is None else data.dims[channel]
    if num_groups < 1 or (isinstance(count, int) and count % num_groups):
        raise OpError(f"`num_groups` must divide the {count} channels, found {num_groups}")
    return _require_parameters(data, [channel], gamma=gamma, beta=beta)


def _instance_norm(
    data: Any,
    gamma: Any,
    beta: Any,
    channel_axis: int,
    axes: Any,
    epsilon: float,
    center: bool,
    scale: bool,
) -> Any:
    places = [axis % data.ndim for axis in axes]
    channel = channel_axis % data.ndim
    gamma, beta = (over_axes(parameter, [channel], data.ndim) for parameter in (gamma, beta))
    return affine(normalized(data, places, epsilon), gamma, beta, scale, center, data.dtype)


def _instance_norm_spelt_out(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    channel_axis: int,
    axes: Any,
    epsilon: float,
    center: bool,
    scale: bool,
) -> Expr:
    ndim = ndim_of(data)
    channel = normalize_axis(channel_axis, ndim)
    values, _ = standardized(data, normalize_axes(axes, ndim, "axes"), epsilon)
    out: Expr = values * spread(gamma, [channel], ndim) if scale else values
    return out + spread(beta, [channel], ndim) if center else out


def _instance_norm_gradient(
    g: Expr,
    y: Expr,
    data: Expr,
    gamma: Expr,
    beta: Expr,
    channel_axis: int,
    axes: Any,
    epsilon: float,
    center: bool,
    scale: bool,
) -> tuple[Expr | None, ...]:
    ndim = ndim_of(data)
    channel = normalize_axis(channel_axis, ndim)
    places = normalize_axes(axes, ndim, "axes")
    values, inverse = standardized(data, places, epsilon)
    h = g * spread(gamma, [channel], ndim) if scale else g
    return (
        standardized_adjoint(h, values, inverse, places),
        gathered(g * values, [channel], ndim) if scale else None,
        gathered(g, [channel], ndim) if center else None,
    )


@op(
    "relax.nn.instance_norm",
    layout=axis_rule("channel_axis", "axes"),
    lower=_instance_norm,
    gradient=_instance_norm_gradient,
    inference=_instance_norm_spelt_out,
    **_RULES,
    cost=per_input(8),
)
def instance_norm(
    data: TensorType,
    gamma: TensorType,
    beta: TensorType,
    channel_axis: int,
    axes: Axes,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> TensorType:
    """Instance norm: each channel of each sample normalised over `axes`, then * gamma + beta."""
    if data.ndim < 0:
        return data
    channel = _require_channel_apart(data, channel_axis, axes)
    return _require_parameters(data, [channel], gamma=gamma, beta=beta)


def _rms_norm(data: Any, weight: Any, axes: Any, epsilon: float) -> Any:
    places = [axis % data.ndim for axis in axes]
    wide = widened(data)
    square = jnp.mean(wide * wide, places, keepdims=True)
    values = wide * lax.rsqrt(square + jnp.asarray(epsilon, wide.dtype))
    factor = over_axes(weight, places, data.ndim).astype(wide.dtype)
    return (values * factor).astype(data.dtype)


def _rms_norm_spelt_out(data: Expr, weight: Expr, axes: Any, epsilon: float) -> Expr:
    ndim = ndim_of(data)
    places = normalize_axes(axes, ndim, "axes")
    square = call("mean", data * data, places, keepdims=True)
    return data * call("rsqrt", square + scalar(epsilon, data)) * spread(weight, places, ndim)


def _rms_norm_gradient(
    g: Expr, y: Expr, data: Expr, weight: Expr, axes: Any, epsilon: float
) -> tuple[Expr, Expr]:
    ndim = ndim_of(data)
    places = normalize_axes(axes, ndim, "axes")
    square = call("mean", data * data, places, keepdims=True)
    inverse = call("rsqrt", square + scalar(epsilon, data))
    values = data * inverse
    h = g * spread(weight, places, ndim)
    slope = call("mean", h * values, places, keepdims=True)
    return inverse * (h - values * slope), gathered(g * values, places, ndim)


@op(
    "relax.nn.rms_norm",
    layout=axis_rule("axes"),
    lower=_rms_norm,
    gradient=_rms_norm_gradient,
    inference=_rms_norm_spelt_out,
    **_RULES,
    cost=per_input(4),
)
def rms_norm(
    data: TensorType, weight: TensorType, axes: Axes = (-1,), epsilon: float = 1e-5
) -> TensorType:
    """Root-mean-square norm over `axes`: x / sqrt(mean(x * x) + epsilon) * weight."""
    places = normalize_axes(axes, data.ndim, "axes") if data.ndim >= 0 else ()
    return _require_parameters(data, places, weight=weight)
