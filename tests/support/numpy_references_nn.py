"""What losses and norms compute, in numpy, in the plainest way."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special


def softmax(x: Any, axis: int = -1) -> Any:
    return special.softmax(x, axis)


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


def product_nll_loss(
    x: Any, w: Any, t: Any, b: Any = None, transposed: bool = False, **attrs: Any
) -> Any:
    scores = x @ (w.T if transposed else w) + (0 if b is None else b)
    return nll_loss(special.log_softmax(scores, 1), t, None, **attrs)


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


def scaled(x: Any, gamma: Any, beta: Any, center: bool = True, scale: bool = True) -> Any:
    x = x * gamma if scale else x
    return x + beta if center else x


def layer_norm(x: Any, g: Any, b: Any, axes: Any, epsilon: float = 1e-5, **options: bool) -> Any:
    axes = tuple(np.atleast_1d(axes))
    g, b = (on_axes(p, axes, x.ndim) for p in (g, b))
    return scaled(norm(x, axes, epsilon), g, b, **options)


def group_norm(
    x: Any,
    g: Any,
    b: Any,
    groups: int,
    channel: int,
    axes: Any,
    epsilon: float = 1e-5,
    **options: bool,
) -> Any:
    channel %= x.ndim
    parts = np.split(x, groups, channel)
    done = np.concatenate([norm(p, (channel, *axes), epsilon) for p in parts], channel)
    g, b = (on_axes(p, [channel], x.ndim) for p in (g, b))
    return scaled(done, g, b, **options)


def instance_norm(
    x: Any, g: Any, b: Any, channel: int, axes: Any, epsilon: float = 1e-5, **options: bool
) -> Any:
    g, b = (on_axes(p, [channel], x.ndim) for p in (g, b))
    return scaled(norm(x, tuple(axes), epsilon), g, b, **options)


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


def prelu(x: Any, alpha: Any, axis: int = 1) -> Any:
    slopes = alpha.reshape((1,) * x.ndim) if alpha.size == 1 else on_axes(alpha, [axis], x.ndim)
    return np.where(x > 0, x, slopes * x)


NETWORK: dict[str, Callable[..., Any]] = {
    "relax.nn.softmax": softmax,
    "relax.nn.log_softmax": lambda x, axis=-1: special.log_softmax(x, axis),
    "relax.nn.prelu": prelu,
    "relax.nn.bias_add": lambda x, bias, axis=1: x + on_axes(bias, [axis], x.ndim),
    "relax.nn.dropout": lambda x, rate=0.5: (x, np.ones_like(x)),
    "relax.nn.noise": lambda shape, distribution="normal", dtype="float32": np.full(
        shape, {"normal": 0, "uniform": 0.5, "exponential": 1}[distribution], dtype
    ),
    "relax.nn.cross_entropy_with_logits": lambda x, y: (
        -(x * y).sum() / (len(x) if x.ndim > 1 else 1)
    ),
    "relax.nn.nll_loss": nll_loss,
    "relax.nn.softmax_nll_loss": lambda x, *rest, **attrs: nll_loss(
        special.log_softmax(x, min(x.ndim - 1, 1)), *rest, **attrs
    ),
    "relax.nn.product_nll_loss": product_nll_loss,
    "relax.nn.layer_norm": layer_norm,
    "relax.nn.group_norm": group_norm,
    "relax.nn.instance_norm": instance_norm,
    "relax.nn.rms_norm": rms_norm,
    "relax.nn.batch_norm": batch_norm,
}
