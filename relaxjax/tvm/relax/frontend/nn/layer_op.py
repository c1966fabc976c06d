"""Operators of layers on the tensors of a program that is being built: `op` has them too."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from relaxjax.ir.expr import Expr
from relaxjax.script import relax as R

from .tensors import Tensor, emitted

Sizes: TypeAlias = Any  # one number for all axes, or a sequence of them


def layer_norm(
    x: Tensor,
    normalized_shape: int | list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    name: str = "layer_norm",
) -> Tensor:
    """Layer normalisation over the last axes, which are of this shape."""
    shape = normalized_shape if isinstance(normalized_shape, list | tuple) else [normalized_shape]
    axes = list(range(-len(shape), 0))
    scale = _filled(np.ones, shape, x) if weight is None else weight
    shift = _filled(np.zeros, shape, x) if bias is None else bias
    return emitted(R.nn.layer_norm(x._expr, scale._expr, shift._expr, axes, eps), name)


def rms_norm(
    x: Tensor, weight: Tensor, axes: int | list[int], epsilon: float = 1e-5, name: str = "rms_norm"
) -> Tensor:
    given = [axes] if isinstance(axes, int) else list(axes)
    return emitted(R.nn.rms_norm(x._expr, weight._expr, given, epsilon), name)


def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float = 1e-5,
    channel_axis: int = 1,
    axes: list[int] | None = None,
    name: str = "group_norm",
) -> Tensor:
    """Normalisation of groups of channels, over these axes, or over all behind the second."""
    channels = [x.shape[channel_axis]]
    scale = _filled(np.ones, channels, x) if weight is None else weight
    shift = _filled(np.zeros, channels, x) if bias is None else bias
    over = list(range(2, x.ndim)) if axes is None else axes
    operands = x._expr, scale._expr, shift._expr
    return emitted(R.nn.group_norm(*operands, num_groups, channel_axis, over, eps), name)


def _filled(make: Callable[..., Any], shape: Sequence[Any], x: Tensor) -> Tensor:
    return Tensor(_expr=R.const(make(tuple(shape)), x.dtype))


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int | None = 1,
    name: str = "conv1d",
) -> Tensor:
    operands = x._expr, weight._expr
    product = R.nn.conv1d(*operands, stride, padding, dilation, groups or 1)
    return _with_bias(product, bias, "NCW", name)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int | None = 1,
    data_layout: str | None = "NCHW",
    name: str = "conv2d",
) -> Tensor:
    """A convolution of images in a layout; the kernel's is OIHW."""
    layout = data_layout or "NCHW"
    operands = x._expr, weight._expr
    product = R.nn.conv2d(*operands, stride, padding, dilation, groups or 1, data_layout=layout)
    return _with_bias(product, bias, layout, name)


def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int | None = 1,
    data_layout: str | None = "NCDHW",
    name: str = "conv3d",
) -> Tensor:
    """A convolution of volumes in a layout; the kernel's is OIDHW."""
    layout = data_layout or "NCDHW"
    operands = x._expr, weight._expr
    product = R.nn.conv3d(*operands, stride, padding, dilation, groups or 1, data_layout=layout)
    return _with_bias(product, bias, layout, name)


def conv1d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int | None = 1,
    name: str = "conv1d_transpose",
) -> Tensor:
    operands = x._expr, weight._expr
    options = stride, padding, output_padding, dilation, groups or 1
    return _with_bias(R.nn.conv1d_transpose(*operands, *options), bias, "NCW", name)


def _with_bias(product: Expr, bias: Tensor | None, layout: str, name: str) -> Tensor:
    """A convolution, plus the bias of each channel."""
    if bias is None:
        return emitted(product, name)
    shape = [bias.shape[0] if letter == "C" else 1 for letter in layout]
    return emitted(R.add(product, R.reshape(bias._expr, shape)), name)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool | None = False,
    scale: float | None = None,
    name: str = "scaled_dot_product_attention",
) -> Tensor:
    """Attention of tensors (batch, sequence, heads, size); the mask is added to the scores."""
    found = R.nn.attention(
        query._expr,
        key._expr,
        value._expr,
        None if attn_mask is None else attn_mask._expr,
        scale,
        "TopLeft" if is_causal else None,
    )
    return emitted(found, name)


_METHODS = {"nearest": "nearest_neighbor", "bilinear": "linear", "bicubic": "cubic"}


def interpolate(
    x: Tensor,
    size: int | tuple[int, ...] | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool | None = None,
    data_layout: str | None = "NCHW",
    name: str = "interpolate",
) -> Tensor:
    """Images of another size, which is given, or a multiple of theirs."""
    if recompute_scale_factor or antialias:
        raise NotImplementedError("`interpolate` takes no recompute_scale_factor and no antialias")
    if mode not in _METHODS:
        raise ValueError(f"the mode of `interpolate` is one of {', '.join(_METHODS)}: {mode!r}")
    layout = data_layout or "NCHW"
    if size is None:
        factors = scale_factor if isinstance(scale_factor, tuple) else (scale_factor or 1,) * 2
        lengths = [x.shape[layout.index(axis)] for axis in "HW"]
        wanted = [int(length * factor) for length, factor in zip(lengths, factors, strict=True)]
    else:
        wanted = list(size) if isinstance(size, tuple | list) else [size, size]
    places = "asymmetric" if mode == "nearest" else "half_pixel"
    resized = R.image.resize2d(
        x._expr,
        R.shape(wanted),
        layout=layout,
        method=_METHODS[mode],
        coordinate_transformation_mode="align_corners" if align_corners else places,
    )
    return emitted(resized, name)


def get_timestep_embedding(
    x: Tensor,
    embedding_dim: int,
    flip_sin_to_cos: bool = False,
    downscale_freq_shift: float = 1,
    scale: float = 1,
    max_period: int = 10000,
    name: str = "get_timestep_embedding",
) -> Tensor:
    """Sines and cosines of times, at frequencies from 1 down to 1 / `max_period`."""
    half = embedding_dim // 2
    places = R.arange(0, half, dtype="float32")
    exponent = R.multiply(R.const(-math.log(max_period), "float32"), places)
    frequencies = R.exp(R.divide(exponent, R.const(half - downscale_freq_shift, "float32")))
    times = R.expand_dims(R.astype(x._expr, "float32"), 1)
    angles = R.multiply(times, R.expand_dims(frequencies, 0))
    if scale != 1:
        angles = R.multiply(R.const(scale, "float32"), angles)
    angles = emitted(angles, "lv")._expr
    waves = [R.sin(angles), R.cos(angles)]
    found = R.concat(waves[::-1] if flip_sin_to_cos else waves, -1)
    if embedding_dim % 2:
        found = R.nn.pad(found, [0, 0, 0, 1])
    return emitted(R.astype(found, "float32"), name)
