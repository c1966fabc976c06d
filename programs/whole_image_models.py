"""Models of images, each as a Relax program and in plain JAX: LeNet and a U-Net."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from whole_model import Weights, WholeModel, likelihood_loss, type_of

from relaxjax.passes import DecomposeOpsForTraining
from relaxjax.script import ir as I
from relaxjax.script import relax as R

EPSILON = 1e-5


def conv(x: Any, kernel: Any, stride: int = 1, padding: int = 0) -> Any:
    pads = [(padding, padding)] * 2
    names = ("NCHW", "OIHW", "NCHW")
    return lax.conv_general_dilated(x, kernel, (stride, stride), pads, dimension_numbers=names)


def conv_transposed(x: Any, kernel: Any, pads: tuple[int, int]) -> Any:
    """With a stride of 2, for a kernel in the layout IOHW."""
    names = ("NCHW", "OIHW", "NCHW")
    return lax.conv_transpose(x, kernel, (2, 2), [pads] * 2, None, names, transpose_kernel=True)


def max_pool(x: Any, size: int, stride: int, padding: int = 0) -> Any:
    pads = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    window, strides = (1, 1, size, size), (1, 1, stride, stride)
    return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, pads)


def avg_pool(x: Any, size: int) -> Any:
    window = (1, 1, size, size)
    return lax.reduce_window(x, 0.0, lax.add, window, window, "VALID") / (size * size)


def channels(vector: Any) -> Any:
    """A vector as an image of one pixel."""
    return vector[None, :, None, None]


def batch_norm(x: Any, gamma: Any, beta: Any) -> tuple[Any, Any, Any]:
    """On the statistics of the batch, which it gives as well."""
    mean, var = jnp.mean(x, (0, 2, 3)), jnp.var(x, (0, 2, 3))
    scaled = (x - channels(mean)) * lax.rsqrt(channels(var) + EPSILON)
    return scaled * channels(gamma) + channels(beta), mean, var


def lenet(
    dtype: str,
    batch: int = 8,
    size: int = 12,
    classes: int = 4,
    widths: tuple[int, int, int] = (3, 4, 6),
) -> WholeModel:
    """LeNet with batch norm after its convolutions; its result has the running statistics."""
    (few, more, hidden), momentum = widths, 0.1
    flat = more * ((size // 2 - 4) // 2) ** 2

    w = Weights(dtype)
    norms = [(w.around(1, c), w.around(0, c)) for c in (few, more)]
    params = (
        *(w.kernel(few, 1, 5), *norms[0]),
        *(w.kernel(more, few, 5), *norms[1]),
        *w.dense(flat, hidden),
        *w.dense(hidden, classes),
    )
    states = [w.around(center, c) for c in (few, more) for center in (0, 1)]
    inputs = (*states, w.normal(batch, 1, size, size), w.ids(classes, batch))

    @I.ir_module
    class LeNet:
        @R.function
        def main(
            k0: R.Tensor((few, 1, 5, 5), dtype),
            gamma0: R.Tensor((few,), dtype),
            beta0: R.Tensor((few,), dtype),
            k1: R.Tensor((more, few, 5, 5), dtype),
            gamma1: R.Tensor((more,), dtype),
            beta1: R.Tensor((more,), dtype),
            w0: R.Tensor((flat, hidden), dtype),
            b0: R.Tensor((hidden,), dtype),
            w1: R.Tensor((hidden, classes), dtype),
            b1: R.Tensor((classes,), dtype),
            mean0: R.Tensor((few,), dtype),
            var0: R.Tensor((few,), dtype),
            mean1: R.Tensor((more,), dtype),
            var1: R.Tensor((more,), dtype),
            x: R.Tensor((batch, 1, size, size), dtype),
            labels: R.Tensor((batch,), "int32"),
        ) -> R.Tuple(R.Tensor((), dtype), R.Tuple(*(type_of(state) for state in states))):
            with R.dataflow():
                y0 = R.nn.conv2d(x, k0, padding=2)
                n0 = R.nn.batch_norm(y0, gamma0, beta0, mean0, var0, axis=1, momentum=momentum)
                p0 = R.nn.max_pool2d(R.nn.relu(n0[0]), pool_size=2, strides=2)
                y1 = R.nn.conv2d(p0, k1)
                n1 = R.nn.batch_norm(y1, gamma1, beta1, mean1, var1, axis=1, momentum=momentum)
                p1 = R.nn.avg_pool2d(R.nn.relu(n1[0]), pool_size=2, strides=2)
                h = R.nn.relu(R.add(R.matmul(R.reshape(p1, (batch, flat)), w0), b0))
                scores = R.add(R.matmul(h, w1), b1)
                loss = R.nn.nll_loss(R.nn.log_softmax(scores), labels)
                new_mean0, new_var0, new_mean1, new_var1 = n0[1], n0[2], n1[1], n1[2]
                R.output(loss, new_mean0, new_var0, new_mean1, new_var1)
            return (loss, (new_mean0, new_var0, new_mean1, new_var1))

    def plain(*args: Any) -> Any:
        k0, gamma0, beta0, k1, gamma1, beta1, w0, b0, w1, b1, *states, x, labels = args
        y0, *seen0 = batch_norm(conv(x, k0, padding=2), gamma0, beta0)
        y1, *seen1 = batch_norm(conv(max_pool(jax.nn.relu(y0), 2, 2), k1), gamma1, beta1)
        flattened = avg_pool(jax.nn.relu(y1), 2).reshape(len(x), -1)
        scores = jax.nn.relu(flattened @ w0 + b0) @ w1 + b1
        moved = [
            (1 - momentum) * state + momentum * seen
            for state, seen in zip(states, (*seen0, *seen1), strict=True)
        ]
        return likelihood_loss(scores, labels), tuple(moved)

    module = DecomposeOpsForTraining("main")(LeNet)  # type: ignore[arg-type]  # mypy takes it for a class
    return WholeModel(module, plain, params, inputs)


def unet(dtype: str, batch: int = 2, size: int = 8, few: int = 2, classes: int = 3) -> WholeModel:
    """Two steps down and up again, with transposed convolutions, for a class of each pixel."""
    w = Weights(dtype)

    def layer(outputs: int, inputs: int) -> Any:
        return w.kernel(outputs, inputs, 3), w.around(0, outputs)

    more, most = 2 * few, 4 * few
    params = (
        (layer(few, 1), layer(more, few), layer(most, more)),
        (w.kernel(most, more, 2), w.kernel(more, few, 3)),
        (layer(more, 2 * more), layer(few, 2 * few), layer(classes, few)),
    )

    @R.macro
    def conv_relu(x: Any, p: Any) -> Any:
        y = R.nn.conv2d(x, p[0], padding=1)
        return R.nn.relu(R.add(y, R.expand_dims(p[1], [0, 2, 3])))

    @R.macro
    def halved(x: Any) -> Any:
        return R.nn.max_pool2d(x, pool_size=2, strides=2)

    @I.ir_module
    class UNet:
        @R.function
        def main(
            down: type_of(params[0]),
            up: type_of(params[1]),
            joined: type_of(params[2]),
            x: R.Tensor((batch, 1, size, size), dtype),
            labels: R.Tensor((batch, size, size), "int32"),
        ) -> R.Tensor((), dtype):
            with R.dataflow():
                d0 = conv_relu(x, down[0])
                d1 = conv_relu(halved(d0), down[1])
                d2 = conv_relu(halved(d1), down[2])
                u1 = R.nn.conv2d_transpose(d2, up[0], strides=2)
                j1 = conv_relu(R.concat((d1, u1), axis=1), joined[0])
                u0 = R.nn.conv2d_transpose(j1, up[1], strides=2, padding=1, output_padding=1)
                j0 = conv_relu(R.concat((d0, u0), axis=1), joined[1])
                scores = R.nn.conv2d(j0, joined[2][0], padding=1)
                shifted = R.add(scores, R.expand_dims(joined[2][1], [0, 2, 3]))
                loss = R.nn.nll_loss(R.nn.log_softmax(shifted, axis=1), labels)
                R.output(loss)
            return loss

    def biased(x: Any, p: Any) -> Any:
        return conv(x, p[0], padding=1) + channels(p[1])

    def plain(down: Any, up: Any, joined: Any, x: Any, labels: Any) -> Any:
        d0 = jax.nn.relu(biased(x, down[0]))
        d1 = jax.nn.relu(biased(max_pool(d0, 2, 2), down[1]))
        d2 = jax.nn.relu(biased(max_pool(d1, 2, 2), down[2]))
        u1 = conv_transposed(d2, up[0], (1, 1))
        j1 = jax.nn.relu(biased(jnp.concatenate([d1, u1], 1), joined[0]))
        u0 = conv_transposed(j1, up[1], (1, 2))
        j0 = jax.nn.relu(biased(jnp.concatenate([d0, u0], 1), joined[1]))
        return likelihood_loss(jnp.moveaxis(biased(j0, joined[2]), 1, -1), labels)

    inputs = (w.normal(batch, 1, size, size), w.ids(classes, batch, size, size))
    return WholeModel(UNet, plain, params, inputs)  # type: ignore[arg-type]  # mypy takes it for a class
