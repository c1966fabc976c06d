"""What the operators of neural networks compute, in numpy, in the plainest way."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

erf = np.vectorize(math.erf, otypes=["float64"])


def softmax(x: Any, axis: int = -1) -> Any:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def sparse_dense(x: Any, blocks: Any, columns: Any, starts: Any) -> Any:
    height, width = blocks.shape[1:]
    weight = np.zeros(((len(starts) - 1) * height, x.shape[-1]))
    for row in range(len(starts) - 1):
        for place in range(starts[row], starts[row + 1]):
            left = columns[place] * width
            weight[row * height : (row + 1) * height, left : left + width] = blocks[place]
    return x @ weight.T


def nll_loss(
    x: Any, t: Any, w: Any = None, reduction: str = "mean", ignore_index: int = -100
) -> Any:
    x = x if x.ndim > 1 else x[None]
    batched = t.ndim > 0
    t = np.atleast_1d(t)
    w = np.ones(x.shape[1]) if w is None else w
    losses, weights = np.zeros(t.shape), np.zeros(t.shape)
    for place in np.ndindex(t.shape):
        c = t[place]
        if c != ignore_index:
            weights[place] = w[c]
            losses[place] = -w[c] * x[(place[0], c, *place[1:])]
    total = {"sum": losses.sum(), "mean": losses.sum() / weights.sum()}
    return total.get(reduction, losses if batched else losses[0])


def norm(x: Any, axes: Any, epsilon: float) -> Any:
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + epsilon)


def on_axes(parameter: Any, axes: Any, ndim: int) -> Any:
    """A parameter whose axis i is `axes[i]` of a tensor, as it broadcasts to the tensor."""
    places = [a % ndim for a in axes]
    order = np.argsort(places)
    shape = [1] * ndim
    for i in order:
        shape[places[i]] = parameter.shape[i]
    return parameter.transpose(order).reshape(shape)


def scaled(x: Any, gamma: Any, beta: Any, center: bool, scale: bool) -> Any:
    x = x * gamma if scale else x
    return x + beta if center else x


def layer_norm(
    x: Any,
    g: Any,
    b: Any,
    axes: Any,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Any:
    axes = tuple(np.atleast_1d(axes))
    return scaled(
        norm(x, axes, epsilon), on_axes(g, axes, x.ndim), on_axes(b, axes, x.ndim), center, scale
    )


def group_norm(
    x: Any,
    g: Any,
    b: Any,
    groups: int,
    channel: int,
    axes: Any,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Any:
    channel %= x.ndim
    parts = np.split(x, groups, channel)
    done = np.concatenate([norm(p, (channel, *axes), epsilon) for p in parts], channel)
    return scaled(done, on_axes(g, [channel], x.ndim), on_axes(b, [channel], x.ndim), center, scale)


def instance_norm(
    x: Any,
    g: Any,
    b: Any,
    channel: int,
    axes: Any,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Any:
    g, b = (on_axes(p, [channel], x.ndim) for p in (g, b))
    return scaled(norm(x, tuple(axes), epsilon), g, b, center, scale)


def rms_norm(x: Any, w: Any, axes: Any = (-1,), epsilon: float = 1e-5) -> Any:
    square = (x * x).mean(tuple(axes), keepdims=True)
    return x / np.sqrt(square + epsilon) * on_axes(w, axes, x.ndim)


def batch_norm(
    x: Any,
    g: Any,
    b: Any,
    mean: Any,
    var: Any,
    axis: int,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    momentum: float = 0.1,
    training: bool = True,
) -> Any:
    others = tuple(a for a in range(x.ndim) if a != axis % x.ndim)
    used_mean, used_var = (x.mean(others), x.var(others)) if training else (mean, var)
    used = [on_axes(p, [axis], x.ndim) for p in (used_mean, used_var, g, b)]
    y = scaled((x - used[0]) / np.sqrt(used[1] + epsilon), used[2], used[3], center, scale)
    if not training:
        return y, mean, var
    return (
        y,
        (1 - momentum) * mean + momentum * used_mean,
        (1 - momentum) * var + momentum * used_var,
    )


def windows(x: Any, size: Any, strides: Any, pads: Any, dilation: Any, ceil: bool) -> Any:
    """Each window of the last axes of `x`, and which of its places lie inside of `x`."""
    n = len(size)
    outer, lengths = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, size, strict=True)]
    rooms = [lengths[a] + pads[a] + pads[n + a] - spans[a] for a in range(n)]
    counts = [(-(-r // s) if ceil else r // s) + 1 for r, s in zip(rooms, strides, strict=True)]
    values = np.zeros((*outer, *counts, *size))
    inside = np.zeros((*counts, *size), bool)
    for out in np.ndindex(*counts):
        for k in np.ndindex(*size):
            at = tuple(out[a] * strides[a] + k[a] * dilation[a] - pads[a] for a in range(n))
            if all(0 <= at[a] < lengths[a] for a in range(n)):
                values[(..., *out, *k)] = x[(..., *at)]
                inside[(*out, *k)] = True
    return values, inside


def pooling(kind: str, count: int, include: bool) -> Callable[..., Any]:
    spatial = {1: "W", 2: "HW", 3: "DHW"}[count]

    def each(value: Any) -> Any:
        return [value] * count if isinstance(value, int) else list(value)

    def run(
        x: Any,
        pool_size: Any = 1,
        strides: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = include,
        layout: str = f"NC{spatial}",
        out_layout: str | None = None,
    ) -> Any:
        x = x.transpose([layout.index(c) for c in f"NC{spatial}"])
        pads = each(padding)
        pads = pads if len(pads) == 2 * count else pads * 2
        size = each(pool_size)
        values, inside = windows(x, size, each(strides), pads, each(dilation), ceil_mode)
        last = tuple(range(-count, 0))
        if kind == "max":
            y = np.where(inside, values, -np.inf).max(last)
        else:
            y = values.sum(last) / (math.prod(size) if count_include_pad else inside.sum(last))
        return y.transpose([f"NC{spatial}".index(c) for c in out_layout or layout])

    return run


def convolution(count: int) -> Callable[..., Any]:
    spatial = {1: "W", 2: "HW", 3: "DHW"}[count]

    def each(value: Any) -> Any:
        return [value] * count if isinstance(value, int) else list(value)

    def run(
        x: Any,
        w: Any,
        strides: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        data_layout: str = f"NC{spatial}",
        kernel_layout: str = f"OI{spatial}",
        out_layout: str | None = None,
        out_dtype: Any = None,
    ) -> Any:
        x = x.transpose([data_layout.index(c) for c in f"NC{spatial}"])
        w = w.transpose([kernel_layout.index(c) for c in f"OI{spatial}"])
        pads = each(padding)
        pads = pads if len(pads) == 2 * count else pads * 2
        values, _ = windows(x, w.shape[2:], each(strides), pads, each(dilation), False)
        inputs, outputs = np.split(values, groups, 1), np.split(w, groups, 0)
        last = list(range(-count, 0))
        parts = [
            np.moveaxis(np.tensordot(v, k, (([1, *last]), ([1, *last]))), -1, 1)
            for v, k in zip(inputs, outputs, strict=True)
        ]
        y = np.concatenate(parts, 1)
        return y.transpose([f"NC{spatial}".index(c) for c in out_layout or data_layout])

    return run


def attention(
    q: Any,
    k: Any,
    v: Any,
    bias: Any = None,
    scale: Any = None,
    causal_mask: Any = None,
    window_size: Any = None,
) -> Any:
    groups = q.shape[2] // k.shape[2]
    k, v = (np.repeat(part, groups, 2) for part in (k, v))
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) * (scale or q.shape[-1] ** -0.5)
    scores = scores if bias is None else scores + bias
    for i in range(q.shape[1]):
        place = i + (abs(k.shape[1] - q.shape[1]) if causal_mask == "BottomRight" else 0)
        for j in range(k.shape[1]):
            hidden = (causal_mask and j > place) or (window_size and place - j >= window_size)
            if hidden:
                scores[:, :, i, j] = -np.inf
    return np.einsum("bhqk,bkhd->bqhd", softmax(scores), v)


NETWORK: dict[str, Callable[..., Any]] = {
    "relax.nn.relu": lambda x: np.maximum(x, 0),
    "relax.nn.leakyrelu": lambda x, alpha=0.01: np.where(x > 0, x, alpha * x),
    "relax.nn.silu": lambda x: x * sigmoid(x),
    "relax.nn.gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    "relax.nn.selu": lambda x: (
        1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1))
    ),
    "relax.nn.sparse_dense": sparse_dense,
    "relax.nn.softplus": lambda x, beta=1.0, threshold=20.0: np.where(
        beta * x > threshold, x, np.log1p(np.exp(beta * x)) / beta
    ),
    "relax.nn.softmax": softmax,
    "relax.nn.log_softmax": lambda x, axis=-1: np.log(softmax(x, axis)),
    "relax.nn.cross_entropy_with_logits": lambda x, y: (
        -(x * y).sum() / (len(x) if x.ndim > 1 else 1)
    ),
    "relax.nn.nll_loss": nll_loss,
    "relax.nn.softmax_nll_loss": lambda x, *rest, **attrs: nll_loss(
        np.log(softmax(x, min(x.ndim - 1, 1))), *rest, **attrs
    ),
    "relax.nn.layer_norm": layer_norm,
    "relax.nn.group_norm": group_norm,
    "relax.nn.instance_norm": instance_norm,
    "relax.nn.rms_norm": rms_norm,
    "relax.nn.batch_norm": batch_norm,
    "relax.nn.attention": attention,
    "relax.nn.attention_bias": attention,
    **{f"relax.nn.conv{n}d": convolution(n) for n in (1, 2, 3)},
    **{f"relax.nn.max_pool{n}d": pooling("max", n, False) for n in (1, 2, 3)},
    **{f"relax.nn.avg_pool{n}d": pooling("avg", n, n != 2) for n in (1, 2, 3)},
}
