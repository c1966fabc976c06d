"""Networks for images: LeNet, ResNets, a MobileNet and a U-Net.

The Relax programs hold images as (N, C, H, W), as those imported from elsewhere do. The plain ones
hold them channels last, which is quicker in JAX on a CPU.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import lax
from whole_image_models import EPSILON
from whole_image_models import lenet as lenet_of
from whole_image_models import unet as unet_of
from whole_model import Weights, WholeModel, type_of
from whole_residual_models import resnet18, resnet50

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var
from relaxjax.script import relax as R

NAMES = ("NHWC", "HWIO", "NHWC")


@dataclass(frozen=True)
class ChannelsLast(WholeModel):
    """A model whose plain form takes images as NHWC and kernels as HWIO."""

    def to_plain(self, values: Any) -> Any:
        """Parameters, or their gradients, as the plain form has them."""
        return jax.tree.map(lambda a: jnp.transpose(a, (2, 3, 1, 0)) if a.ndim == 4 else a, values)

    def plain_inputs(self) -> tuple[Any, ...]:
        return tuple(jnp.moveaxis(a, 1, -1) if a.ndim == 4 else a for a in self.inputs)


def channels_last(model: WholeModel, plain: Callable[..., Any]) -> ChannelsLast:
    return ChannelsLast(model.module, plain, model.params, model.inputs)


def conv(x: Any, kernel: Any, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
    pads = [(padding, padding)] * 2
    return lax.conv_general_dilated(
        x, kernel, (stride,) * 2, pads, dimension_numbers=NAMES, feature_group_count=groups
    )


def conv_transposed(x: Any, kernel: Any, pads: tuple[int, int]) -> Any:
    return lax.conv_transpose(x, kernel, (2, 2), [pads] * 2, None, NAMES, transpose_kernel=True)


def max_pool(x: Any, size: int, stride: int, padding: int = 0) -> Any:
    pads = [(0, 0), (padding, padding), (padding, padding), (0, 0)]
    window, strides = (1, size, size, 1), (1, stride, stride, 1)
    return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, pads)


def avg_pool(x: Any, size: int) -> Any:
    window = (1, size, size, 1)
    return lax.reduce_window(x, 0.0, lax.add, window, window, "VALID") / (size * size)


def batch_norm(x: Any, gamma: Any, beta: Any) -> tuple[Any, Any, Any]:
    mean, var = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
    return (x - mean) * lax.rsqrt(var + EPSILON) * gamma + beta, mean, var


def conv_norm(x: Any, p: Any, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
    return batch_norm(conv(x, p[0], stride, padding, groups), p[1], p[2])[0]


def cross_entropy(scores: Any, labels: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()


def head(x: Any, labels: Any, p: Any) -> Any:
    return cross_entropy(jnp.mean(x, (1, 2)) @ p[0] + p[1], labels)


def lenet(**sizes: Any) -> WholeModel:
    """With batch norm, whose running statistics are results too."""

    def plain(*args: Any) -> Any:
        k0, gamma0, beta0, k1, gamma1, beta1, w0, b0, w1, b1, *states, x, labels = args
        y0, *seen0 = batch_norm(conv(x, k0, padding=2), gamma0, beta0)
        y1, *seen1 = batch_norm(conv(max_pool(jax.nn.relu(y0), 2, 2), k1), gamma1, beta1)
        pooled = jnp.moveaxis(avg_pool(jax.nn.relu(y1), 2), -1, 1).reshape(len(x), -1)
        scores = jax.nn.relu(pooled @ w0 + b0) @ w1 + b1
        seen = (*seen0, *seen1)
        moved = tuple(0.9 * old + 0.1 * new for old, new in zip(states, seen, strict=True))
        return cross_entropy(scores, labels), moved

    return channels_last(lenet_of("float32", **sizes), plain)


def _residual(block: Callable[[Any, Any, int], Any]) -> Callable[..., Any]:
    """The plain form of a ResNet of such blocks."""

    def plain(first: Any, *rest: Any) -> Any:
        *stages, last, x, labels = rest
        is_small = len(first[0]) == 3
        y = jax.nn.relu(conv_norm(x, first, 1 if is_small else 2, 1 if is_small else 3))
        y = y if is_small else max_pool(y, 3, 2, padding=1)
        for i, stage in enumerate(stages):
            for j, p in enumerate(stage):
                y = block(y, p, 2 if i and not j else 1)
        return head(y, labels, last)

    return plain


def small_resnet(**sizes: Any) -> WholeModel:
    """ResNet-18."""

    def block(x: Any, p: Any, stride: int) -> Any:
        y = jax.nn.relu(conv_norm(x, p[0], stride, padding=1))
        side = conv_norm(x, p[2], stride) if len(p) == 3 else x
        return jax.nn.relu(conv_norm(y, p[1], padding=1) + side)

    return channels_last(resnet18("float32", **sizes), _residual(block))


def large_resnet(**sizes: Any) -> WholeModel:
    """ResNet-50."""

    def block(x: Any, p: Any, stride: int) -> Any:
        y = jax.nn.relu(conv_norm(x, p[0]))
        y = jax.nn.relu(conv_norm(y, p[1], stride, padding=1))
        side = conv_norm(x, p[3], stride) if len(p) == 4 else x
        return jax.nn.relu(conv_norm(y, p[2]) + side)

    return channels_last(resnet50("float32", expansion=4, **sizes), _residual(block))


def unet(**sizes: Any) -> WholeModel:
    """Two steps down and up again, with transposed convolutions."""

    def biased(x: Any, p: Any) -> Any:
        return conv(x, p[0], padding=1) + p[1]

    def plain(down: Any, up: Any, joined: Any, x: Any, labels: Any) -> Any:
        d0 = jax.nn.relu(biased(x, down[0]))
        d1 = jax.nn.relu(biased(max_pool(d0, 2, 2), down[1]))
        d2 = jax.nn.relu(biased(max_pool(d1, 2, 2), down[2]))
        u1 = conv_transposed(d2, up[0], (1, 1))
        j1 = jax.nn.relu(biased(jnp.concatenate([d1, u1], -1), joined[0]))
        u0 = conv_transposed(j1, up[1], (1, 2))
        j0 = jax.nn.relu(biased(jnp.concatenate([d0, u0], -1), joined[1]))
        return cross_entropy(biased(j0, joined[2]), labels)

    return channels_last(unet_of("float32", **sizes), plain)


def mobilenet(widths: tuple[int, ...], batch: int, size: int, classes: int = 10) -> WholeModel:
    """Depthwise convolutions, each with a 1x1 one behind it; every second one has a stride."""
    w = Weights("float32")

    def normed(outputs: int, inputs: int, window: int) -> Any:
        return w.kernel(outputs, inputs, window), w.around(1, outputs), w.around(0, outputs)

    blocks = [(normed(a, 1, 3), normed(b, a, 1)) for a, b in pairwise(widths)]
    params = (normed(widths[0], 3, 3), *blocks, w.dense(widths[-1], classes))
    inputs = (w.normal(batch, 3, size, size), w.ids(classes, batch))

    def relax_conv_norm(x: Expr, p: Expr, stride: int, padding: int, groups: int = 1) -> Any:
        y = R.nn.conv2d(x, p[0], strides=stride, padding=padding, groups=groups)
        running = R.zeros_like(p[1]), R.ones_like(p[1])
        return R.nn.relu(R.nn.batch_norm(y, p[1], p[2], *running, axis=1)[0])

    builder = BlockBuilder()
    names = ["first", *(f"block{i}" for i in range(len(blocks))), "last", "x", "labels"]
    given = [Var(n, type_of(a)) for n, a in zip(names, (*params, *inputs), strict=True)]
    first, *middle, last, x, labels = given
    with builder.function("main", given):
        with builder.dataflow():
            y = builder.emit(relax_conv_norm(x, first, 1, 1))
            for i, p in enumerate(middle):
                y = builder.emit(relax_conv_norm(y, p[0], 1 + i % 2, 1, widths[i]))
                y = builder.emit(relax_conv_norm(y, p[1], 1, 0))
            scores = R.matmul(R.mean(y, axis=[2, 3]), last[0]) + last[1]
            loss = builder.emit_output(R.nn.nll_loss(R.nn.log_softmax(scores), labels), "loss")
        builder.emit_func_output(loss)

    def plain(first: Any, *rest: Any) -> Any:
        *blocks, last, x, labels = rest
        y = jax.nn.relu(conv_norm(x, first, padding=1))
        for i, (depthwise, pointwise) in enumerate(blocks):
            y = jax.nn.relu(conv_norm(y, depthwise, 1 + i % 2, 1, groups=y.shape[-1]))
            y = jax.nn.relu(conv_norm(y, pointwise))
        return head(y, labels, last)

    return channels_last(WholeModel(builder.get(), plain, params, inputs), plain)
