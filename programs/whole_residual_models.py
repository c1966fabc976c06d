"""Residual networks, each as a Relax program and in plain JAX: ResNet-18 and ResNet-50.

Their parameters are nested as the blocks are; (kernel, gamma, beta) is a convolution.
"""

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
from whole_image_models import batch_norm, conv, max_pool
from whole_model import Weights, WholeModel, likelihood_loss, type_of

from relaxjax.script import ir as I
from relaxjax.script import relax as R


def shared_parts(stem_size: int) -> Any:
    """The macros that both residual networks are written with.

    A stem of 7 has strides and is pooled, for photographs; one of 3 keeps small images as they are.
    """

    @R.macro
    def conv_norm(x: Any, p: Any, stride: int, padding: int) -> Any:
        y = R.nn.conv2d(x, p[0], strides=stride, padding=padding)
        mean, var = R.zeros_like(p[1]), R.ones_like(p[1])
        normed = R.nn.batch_norm(y, p[1], p[2], mean, var, axis=1)
        return normed[0]

    @R.macro
    def stem(x: Any, p: Any) -> Any:
        y = R.nn.relu(conv_norm(x, p, stride=2, padding=3))
        return R.nn.max_pool2d(y, pool_size=3, strides=2, padding=1)

    @R.macro
    def small_stem(x: Any, p: Any) -> Any:
        return R.nn.relu(conv_norm(x, p, stride=1, padding=1))

    @R.macro
    def head(x: Any, labels: Any, p: Any) -> Any:
        pooled = R.mean(x, axis=[2, 3])
        scores = R.add(R.matmul(pooled, p[0]), p[1])
        return R.nn.nll_loss(R.nn.log_softmax(scores), labels)

    return conv_norm, small_stem if stem_size == 3 else stem, head


def plain_conv_norm(x: Any, p: Any, stride: int = 1, padding: int = 0) -> Any:
    return batch_norm(conv(x, p[0], stride, padding), p[1], p[2])[0]


def plain_stem(x: Any, p: Any) -> Any:
    if p[0].shape[-1] == 3:
        return jax.nn.relu(plain_conv_norm(x, p, padding=1))
    return max_pool(jax.nn.relu(plain_conv_norm(x, p, stride=2, padding=3)), 3, 2, padding=1)


def plain_head(x: Any, labels: Any, p: Any) -> Any:
    return likelihood_loss(jnp.mean(x, (2, 3)) @ p[0] + p[1], labels)


def conv_norm_params(w: Weights, inputs: int, outputs: int, size: int, gamma: float = 1) -> Any:
    return w.kernel(outputs, inputs, size), w.around(gamma, outputs), w.around(0, outputs)


def resnet18(
    dtype: str,
    widths: tuple[int, ...] = (4, 4, 6, 8),
    batch: int = 8,
    size: int = 64,
    classes: int = 3,
    stem_size: int = 7,
) -> WholeModel:
    """Four stages of two basic blocks each, written out by macros into one dataflow block."""
    conv_norm, stem, head = shared_parts(stem_size)

    @R.macro
    def block(x: Any, p: Any, stride: int) -> Any:
        y = R.nn.relu(conv_norm(x, p[0], stride, padding=1))
        z = conv_norm(y, p[1], 1, padding=1)
        side = conv_norm(x, p[2], stride, padding=0) if stride > 1 else x
        return R.nn.relu(R.add(z, side))

    @R.macro
    def stage(x: Any, p: Any, stride: int) -> Any:
        y = block(x, p[0], stride)
        return block(y, p[1], 1)

    w = Weights(dtype)
    params = (
        conv_norm_params(w, 3, widths[0], stem_size),
        basic_stage(w, widths[0], widths[0], halves=False),
        *(basic_stage(w, *pair, halves=True) for pair in pairwise(widths)),
        w.dense(widths[-1], classes),
    )

    @I.ir_module
    class ResNet18:
        @R.function
        def main(
            first: type_of(params[0]),
            stage1: type_of(params[1]),
            stage2: type_of(params[2]),
            stage3: type_of(params[3]),
            stage4: type_of(params[4]),
            last: type_of(params[5]),
            x: R.Tensor((batch, 3, size, size), dtype),
            labels: R.Tensor((batch,), "int32"),
        ) -> R.Tensor((), dtype):
            with R.dataflow():
                y0 = stem(x, first)
                y1 = stage(y0, stage1, 1)
                y2 = stage(y1, stage2, 2)
                y3 = stage(y2, stage3, 2)
                y4 = stage(y3, stage4, 2)
                loss = head(y4, labels, last)
                R.output(loss)
            return loss

    def plain_block(x: Any, p: Any, stride: int) -> Any:
        y = jax.nn.relu(plain_conv_norm(x, p[0], stride, padding=1))
        side = plain_conv_norm(x, p[2], stride) if stride > 1 else x
        return jax.nn.relu(plain_conv_norm(y, p[1], padding=1) + side)

    def plain(first: Any, *rest: Any) -> Any:
        *stages, last, x, labels = rest
        y = plain_stem(x, first)
        for index, (one, other) in enumerate(stages):
            y = plain_block(plain_block(y, one, 2 if index else 1), other, 1)
        return plain_head(y, labels, last)

    inputs = (w.normal(batch, 3, size, size), w.ids(classes, batch))
    return WholeModel(ResNet18, plain, params, inputs)  # type: ignore[arg-type]  # mypy takes it for a class


def basic_stage(w: Weights, inputs: int, outputs: int, halves: bool) -> Any:
    """Two basic blocks; where they halve the image, what goes past the first is projected."""
    first = (
        conv_norm_params(w, inputs, outputs, 3),
        conv_norm_params(w, outputs, outputs, 3, gamma=0.2),
    )
    second = (
        conv_norm_params(w, outputs, outputs, 3),
        conv_norm_params(w, outputs, outputs, 3, gamma=0.2),
    )
    side = (conv_norm_params(w, inputs, outputs, 1),) if halves else ()
    return (*first, *side), second


def resnet50(
    dtype: str,
    widths: tuple[int, ...] = (4, 4, 6, 8),
    batch: int = 8,
    size: int = 64,
    classes: int = 3,
    stem_size: int = 7,
    expansion: int = 2,
) -> WholeModel:
    """Bottleneck blocks, 3, 4, 6 and 3 of them; equal ones are calls of one function."""
    counts = (3, 4, 6, 3)
    conv_norm, stem, head = shared_parts(stem_size)

    @R.macro
    def bottleneck(x: Any, p: Any, stride: int) -> Any:
        y = R.nn.relu(conv_norm(x, p[0], 1, padding=0))
        z = R.nn.relu(conv_norm(y, p[1], stride, padding=1))
        return conv_norm(z, p[2], 1, padding=0)

    @R.macro
    def widening(x: Any, p: Any, stride: int) -> Any:
        y = bottleneck(x, p, stride)
        side = conv_norm(x, p[3], stride, padding=0)
        return R.nn.relu(R.add(y, side))

    w = Weights(dtype)
    inputs = [widths[0], *(expansion * width for width in widths)]
    stages = [
        tuple(
            bottleneck_params(
                w, inputs[i] if block == 0 else inputs[i + 1], width, expansion, block == 0
            )
            for block in range(counts[i])
        )
        for i, width in enumerate(widths)
    ]
    params = (
        conv_norm_params(w, 3, widths[0], stem_size),
        *stages,
        w.dense(expansion * widths[-1], classes),
    )
    sizes = [(size if stem_size == 3 else size // 4) // 2**i for i in range(4)]

    def keeping(i: int) -> Any:
        """A block of stage `i` that changes no shape, as a function."""

        @R.function(private=True)
        def block(
            x: R.Tensor((batch, inputs[i + 1], sizes[i], sizes[i]), dtype), p: type_of(stages[i][1])
        ) -> R.Tensor((batch, inputs[i + 1], sizes[i], sizes[i]), dtype):
            with R.dataflow():
                y = bottleneck(x, p, 1)
                z = R.nn.relu(R.add(y, x))
                R.output(z)
            return z

        return block

    @I.ir_module
    class ResNet50:
        block1 = keeping(0)
        block2 = keeping(1)
        block3 = keeping(2)
        block4 = keeping(3)

        @R.function
        def main(
            first: type_of(params[0]),
            stage1: type_of(params[1]),
            stage2: type_of(params[2]),
            stage3: type_of(params[3]),
            stage4: type_of(params[4]),
            last: type_of(params[5]),
            x: R.Tensor((batch, 3, size, size), dtype),
            labels: R.Tensor((batch,), "int32"),
        ) -> R.Tensor((), dtype):
            cls = ResNet50
            with R.dataflow():
                y0 = stem(x, first)
                a1 = widening(y0, stage1[0], 1)
                y1 = cls.block1(cls.block1(a1, stage1[1]), stage1[2])
                a2 = widening(y1, stage2[0], 2)
                y2 = cls.block2(cls.block2(cls.block2(a2, stage2[1]), stage2[2]), stage2[3])
                a3 = widening(y2, stage3[0], 2)
                b3 = cls.block3(cls.block3(a3, stage3[1]), stage3[2])
                y3 = cls.block3(cls.block3(cls.block3(b3, stage3[3]), stage3[4]), stage3[5])
                a4 = widening(y3, stage4[0], 2)
                y4 = cls.block4(cls.block4(a4, stage4[1]), stage4[2])
                loss = head(y4, labels, last)
                R.output(loss)
            return loss

    def plain_block(x: Any, p: Any, stride: int) -> Any:
        y = jax.nn.relu(plain_conv_norm(x, p[0]))
        y = jax.nn.relu(plain_conv_norm(y, p[1], stride, padding=1))
        side = plain_conv_norm(x, p[3], stride) if len(p) == 4 else x
        return jax.nn.relu(plain_conv_norm(y, p[2]) + side)

    def plain(first: Any, *rest: Any) -> Any:
        *stages, last, x, labels = rest
        y = plain_stem(x, first)
        for i, stage in enumerate(stages):
            for j, p in enumerate(stage):
                y = plain_block(y, p, 2 if i and not j else 1)
        return plain_head(y, labels, last)

    images = (w.normal(batch, 3, size, size), w.ids(classes, batch))
    return WholeModel(ResNet50, plain, params, images)  # type: ignore[arg-type]  # mypy takes it for a class


def bottleneck_params(w: Weights, inputs: int, width: int, expansion: int, widens: bool) -> Any:
    """The three convolutions of a block, and that of what goes past it where the block widens."""
    outputs = expansion * width
    side = (conv_norm_params(w, inputs, outputs, 1),) if widens else ()
    return (
        conv_norm_params(w, inputs, width, 1),
        conv_norm_params(w, width, width, 3),
        conv_norm_params(w, width, outputs, 1, gamma=0.2),
        *side,
    )
