"""Normalisation over chosen axes: layer, group, instance and root-mean-square norms."""

from collections.abc import Callable, Sequence
from typing import Any

from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Expr
from relaxjax.ir.types import TensorType
from relaxjax.ir.wording import counted
from relaxjax.ops.axis_layouts import axis_rule
from relaxjax.ops.conversions import Axes
from relaxjax.ops.cost_rules import per_input
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.emit import call, dims_of, ndim_of
from relaxjax.ops.shapes import common_dtype, dims_text, normalize_axes, normalize_axis
from relaxjax.ops.unary import require_float

from .normalizing import Norm

NEVER_HALF: dict[str, Any] = {"precision": "never", "fusion": "reduction"}


def require_parameters(
    data: TensorType, axes: Sequence[int], of: str, **parameters: TensorType
) -> str | None:
    """The dtype that all have: floats; parameters of another shape than `axes` are an error."""
    dtype = common_dtype(data=data, **parameters)
    require_float(data, "data")
    if data.dims is not None:
        dims = [data.dims[axis] for axis in axes]
        for name, parameter in parameters.items():
            _require_shape(name, parameter, dims, of)
    return dtype


def _require_shape(name: str, parameter: TensorType, dims: Sequence[Dim], of: str) -> None:
    wrong_rank = parameter.ndim not in (-1, len(dims))
    if wrong_rank or (parameter.dims and any(map(can_prove_different, parameter.dims, dims))):
        found = (
            dims_text(parameter.dims) if parameter.dims else counted(parameter.ndim, "dimension")
        )
        raise OpError(f"`{name}` must have shape {dims_text(dims)}, as {of}, found {found}")


def _normed_type(data: TensorType, axes: Sequence[int], **parameters: TensorType) -> TensorType:
    require_parameters(data, axes, "the axes of `data`", **parameters)
    return data


def _rules(norm: Callable[..., Norm]) -> dict[str, Any]:
    """The rules of an operator that is the norm `norm(ndim, **attributes)`."""

    def lower(data: Any, *parameters: Any, **attrs: Any) -> Any:
        return norm(data.ndim, **attrs).computed(data, *parameters)

    def gradient(
        g: Expr, y: Expr, data: Expr, *parameters: Expr, **attrs: Any
    ) -> tuple[Expr | None, ...]:
        return norm(ndim_of(data), **attrs).adjoints(g, data, *parameters)

    def spelt_out(data: Expr, *parameters: Expr, **attrs: Any) -> Expr:
        return norm(ndim_of(data), **attrs).spelt_out(data, *parameters)

    return {"lower": lower, "gradient": gradient, "inference": spelt_out, **NEVER_HALF}


def _over_axes(ndim: int, axes: Sequence[int], **options: Any) -> Norm:
    places = normalize_axes(axes, ndim, "axes")
    return Norm(places, places, **options)


def _of_channels(ndim: int, channel_axis: int, axes: Sequence[int], **options: Any) -> Norm:
    channel = normalize_axis(channel_axis, ndim)
    return Norm(normalize_axes(axes, ndim, "axes"), [channel], **options)


def _root_mean_square(ndim: int, axes: Sequence[int], epsilon: float) -> Norm:
    return _over_axes(ndim, axes, epsilon=epsilon, center=False, scale=True, about_zero=True)


_LAYER_RULES = _rules(_over_axes)


@op(
    "relax.nn.layer_norm",
    layout=axis_rule("axes"),
    training_form=_LAYER_RULES["inference"],
    **_LAYER_RULES,
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
    return _normed_type(data, places, gamma=gamma, beta=beta)


def _grouped(
    dims: Sequence[Any], num_groups: int, channel_axis: int, axes: Sequence[int], **options: Any
) -> tuple[list[Any], list[Any], Norm]:
    """A group norm where the channels are two axes, the group and the channel in it.

    The shapes in which the data and the parameters have them, and the norm of such data.
    """
    channel = normalize_axis(channel_axis, len(dims))
    pair = [num_groups, dims[channel] // num_groups]
    behind = (axis + (axis > channel) for axis in normalize_axes(axes, len(dims), "axes"))
    norm = Norm(sorted([channel + 1, *behind]), [channel, channel + 1], **options)
    return [*dims[:channel], *pair, *dims[channel + 1 :]], pair, norm


def _group_norm(data: Any, gamma: Any, beta: Any, **attrs: Any) -> Any:
    shape, pair, norm = _grouped(data.shape, **attrs)
    parameters = (lax.reshape(parameter, pair) for parameter in (gamma, beta))
    return lax.reshape(norm.computed(lax.reshape(data, shape), *parameters), data.shape)


def _group_norm_gradient(
    g: Expr, y: Expr, data: Expr, gamma: Expr, beta: Expr, **attrs: Any
) -> tuple[Expr | None, ...]:
    shape, pair, norm = _grouped(dims_of(data), **attrs)
    parameters = (call("reshape", parameter, pair) for parameter in (gamma, beta))
    args = (call("reshape", g, shape), call("reshape", data, shape), *parameters)
    return tuple(
        None if adjoint is None else call("reshape", adjoint, dims_of(arg))
        for adjoint, arg in zip(norm.adjoints(*args), (data, gamma, beta), strict=True)
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
    **NEVER_HALF,
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
    return _normed_type(data, [channel], gamma=gamma, beta=beta)


@op(
    "relax.nn.instance_norm",
    layout=axis_rule("channel_axis", "axes"),
    **_rules(_of_channels),
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
    return _normed_type(data, [channel], gamma=gamma, beta=beta)


@op("relax.nn.rms_norm", layout=axis_rule("axes"), **_rules(_root_mean_square), cost=per_input(4))
def rms_norm(
    data: TensorType, weight: TensorType, axes: Axes = (-1,), epsilon: float = 1e-5
) -> TensorType:
    """Root-mean-square norm over `axes`: x / sqrt(mean(x * x) + epsilon) * weight."""
    places = normalize_axes(axes, data.ndim, "axes") if data.ndim >= 0 else ()
    return _normed_type(data, places, weight=weight)
