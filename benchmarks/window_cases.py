"""Products, convolutions and pooling, in Relax and in plain JAX.

The plain one is what somebody who knows JAX would write with jax.lax and jax.numpy.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax
from operator_case import Case, floats

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call


def _matmul(name: str, *shapes: Sequence[int], dtype: str = "float32", swap: str = "") -> Case:
    """A product; operands named in `swap` are transposed in the program."""
    draws = tuple(floats(*shape, scale=shape[0] ** -0.5, dtype=dtype) for shape in shapes)

    def relax(x: Expr, y: Expr) -> Expr:
        x = call("permute_dims", x, [1, 0]) if "x" in swap else x
        return call("matmul", x, call("permute_dims", y, [1, 0]) if "y" in swap else y)

    def plain(x: Any, y: Any) -> Any:
        return jnp.matmul(x.T if "x" in swap else x, y.T if "y" in swap else y)

    return Case(name, relax, plain, draws)


def _loop(name: str, data: Sequence[int], kernels: Sequence[int], layouts: tuple[str, str]) -> Case:
    """Layers of a convolution each, one after the other in a loop."""
    said = f'data_layout="{layouts[0]}", kernel_layout="{layouts[1]}"'
    script = f"""
from relaxjax.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(
        x0: R.Tensor({tuple(data)}, "float32"), x1: R.Tensor({tuple(kernels)}, "float32")
    ) -> R.Tensor({tuple(data)}, "float32"):
        with R.dataflow():
            @R.function
            def layer(
                x: R.Tensor({tuple(data)}, "float32"),
                kernel: R.Tensor({tuple(kernels[1:])}, "float32"),
            ) -> R.Tuple(R.Tensor({tuple(data)}, "float32"), R.Tuple()):
                with R.dataflow():
                    y = R.tanh(R.nn.conv2d(x, kernel, padding=1, {said}))
                    R.output(y)
                return (y, R.tuple())

            run = R.scan(layer, x0, x1)
            out = run[0]
            R.output(out)
        return out
"""

    def plain(x: Any, kernels: Any) -> Any:
        def layer(x: Any, kernel: Any) -> tuple[Any, None]:
            numbers = (layouts[0], layouts[1], layouts[0])
            y = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=numbers)
            return jnp.tanh(y), None

        return lax.scan(layer, x, kernels)[0]

    return Case(name, script, plain, (floats(*data), floats(*kernels, scale=0.05)))


def _spatial(count: int) -> str:
    return {1: "W", 2: "HW", 3: "DHW"}[count]


def _conv(
    name: str,
    data: Sequence[int],
    weight: Sequence[int],
    strides: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    layout: str = "",
    kernel_layout: str = "",
) -> Case:
    count = len(data) - 2
    layout = layout or f"NC{_spatial(count)}"
    kernel_layout = kernel_layout or f"OI{_spatial(count)}"

    def relax(x: Expr, w: Expr) -> Expr:
        window = (strides, padding, dilation, groups)
        return call(f"nn.conv{count}d", x, w, *window, layout, kernel_layout)

    def plain(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x,
            w,
            (strides,) * count,
            [(padding, padding)] * count,
            rhs_dilation=(dilation,) * count,
            dimension_numbers=(layout, kernel_layout, layout),
            feature_group_count=groups,
        )

    fan = math.prod(weight) / weight[kernel_layout.index("O")]
    return Case(name, relax, plain, (floats(*data), floats(*weight, scale=fan**-0.5)))


def _transposed(
    name: str, data: Sequence[int], weight: Sequence[int], strides: int, padding: int
) -> Case:
    """Of the kernel as relaxjax has it, (in, out, ...); plain JAX turns it round itself."""
    count = len(data) - 2
    letters = _spatial(count)

    def relax(x: Expr, w: Expr) -> Expr:
        return call(f"nn.conv{count}d_transpose", x, w, strides, padding)

    def plain(x: Any, w: Any) -> Any:
        sides = [(size - 1 - padding, size - 1 - padding) for size in weight[2:]]
        return lax.conv_general_dilated(
            x,
            jnp.flip(w, range(2, w.ndim)),
            (1,) * count,
            sides,
            lhs_dilation=(strides,) * count,
            dimension_numbers=(f"NC{letters}", f"IO{letters}", f"NC{letters}"),
        )

    fan = math.prod(weight) / weight[1]
    return Case(name, relax, plain, (floats(*data), floats(*weight, scale=fan**-0.5)))


def _pool(
    kind: str, name: str, data: Sequence[int], size: int, strides: int, padding: int = 0
) -> Case:
    count = len(data) - 2

    def relax(x: Expr) -> Expr:
        window = ((size,) * count, (strides,) * count, (padding,) * count)
        given = {"count_include_pad": True} if kind == "avg" else {}
        return call(f"nn.{kind}_pool{count}d", x, *window, **given)

    def plain(x: Any) -> Any:
        window = ((1, 1, *(size,) * count), (1, 1, *(strides,) * count))
        sides = ((0, 0), (0, 0), *((padding, padding),) * count)
        if kind == "max":
            return lax.reduce_window(x, -jnp.inf, lax.max, *window, sides)
        return lax.reduce_window(x, 0.0, lax.add, *window, sides) / size**count

    return Case(f"{kind} {name}", relax, plain, (floats(*data),))


def _adaptive(name: str, data: Sequence[int], size: int) -> Case:
    """Without equal parts: the mean of each window by itself."""

    def plain(x: Any) -> Any:
        edges = [
            (i * n // size, -(-(i + 1) * n // size)) for n in x.shape[2:3] for i in range(size)
        ]
        rows = [
            jnp.stack([jnp.mean(x[:, :, a:b, c:d], (2, 3)) for c, d in edges], -1) for a, b in edges
        ]
        return jnp.stack(rows, 2)

    def relax(x: Expr) -> Expr:
        return call("nn.adaptive_avg_pool2d", x, size)

    return Case(f"adaptive {name}", relax, plain, (floats(*data),))


FAMILIES: dict[str, list[Case]] = {
    "matmul": [
        _matmul("256x1024 @ 1024x512", (256, 1024), (1024, 512)),
        _matmul("both transposed", (1024, 256), (512, 1024), swap="xy"),
        _matmul("3-D @ 2-D", (8, 128, 256), (256, 512)),
        _matmul("3-D @ 2-D, bfloat16", (8, 128, 256), (256, 512), dtype="bfloat16"),
        _matmul("batch of 32", (32, 128, 64), (32, 64, 128)),
    ],
    "conv1d": [
        _conv("k3, 64 to 64", (8, 64, 256), (64, 64, 3), padding=1),
        _conv("k7, 4 to 32, stride 2", (8, 4, 512), (32, 4, 7), strides=2, padding=3),
        _conv("depthwise k5", (8, 64, 256), (64, 1, 5), padding=2, groups=64),
    ],
    "conv2d": [
        _conv("1x1, 64 to 128", (8, 64, 28, 28), (128, 64, 1, 1)),
        _conv("1x1, 256 to 64, 8x8", (8, 256, 8, 8), (64, 256, 1, 1)),
        _conv("1x1, 64 to 128, stride 2", (8, 64, 28, 28), (128, 64, 1, 1), strides=2),
        _conv("1x1, 64 to 128, NHWC", (8, 28, 28, 64), (1, 1, 64, 128), 1, 0, 1, 1, "NHWC", "HWIO"),
        _conv("3x3, 64 to 64, 28x28", (8, 64, 28, 28), (64, 64, 3, 3), padding=1),
        _conv(
            "3x3, 64 to 64, 28x28, NHWC",
            (8, 28, 28, 64),
            (3, 3, 64, 64),
            padding=1,
            layout="NHWC",
            kernel_layout="HWIO",
        ),
        _conv("3x3, 32 to 64, stride 2", (8, 32, 28, 28), (64, 32, 3, 3), strides=2, padding=1),
        _conv("3x3, 128 to 128, 4x4", (8, 128, 4, 4), (128, 128, 3, 3), padding=1),
        _conv("3x3, 256 to 256, 2x2", (8, 256, 2, 2), (256, 256, 3, 3), padding=1),
        _conv("3x3, 256 to 256, 4x4 to 2x2", (8, 256, 4, 4), (256, 256, 3, 3), 2, 1),
        _conv("5x5, 6 to 16", (32, 6, 14, 14), (16, 6, 5, 5)),
        _conv("5x5, 1 to 6", (32, 1, 28, 28), (6, 1, 5, 5), padding=2),
        _conv("7x7 stem, 3 to 64, stride 2", (4, 3, 64, 64), (64, 3, 7, 7), strides=2, padding=3),
        _conv("3x3 stem, 3 to 32", (8, 3, 32, 32), (32, 3, 3, 3), padding=1),
        _conv("dilated by 2, 32 to 32", (8, 32, 28, 28), (32, 32, 3, 3), padding=2, dilation=2),
    ],
    "grouped": [
        _conv("depthwise 3x3", (8, 64, 28, 28), (64, 1, 3, 3), padding=1, groups=64),
        _conv("depthwise, stride 2", (8, 64, 28, 28), (64, 1, 3, 3), 2, 1, groups=64),
        _conv("multiplier 2", (4, 32, 16, 16), (64, 1, 3, 3), padding=1, groups=32),
        _conv("groups 2, 64 to 64", (4, 64, 16, 16), (64, 32, 3, 3), padding=1, groups=2),
        _conv("groups 8, 64 to 64", (4, 64, 16, 16), (64, 8, 3, 3), padding=1, groups=8),
        _conv("groups 8, 64 to 64, stride 2", (4, 64, 16, 16), (64, 8, 3, 3), 2, 1, groups=8),
    ],
    "loops": [
        _loop("4 layers, NHWC", (8, 28, 28, 64), (4, 3, 3, 64, 64), ("NHWC", "HWIO")),
        _loop("4 layers, NCHW", (8, 64, 28, 28), (4, 64, 64, 3, 3), ("NCHW", "OIHW")),
    ],
    "conv3d": [
        _conv("k3, 16 to 16", (2, 16, 8, 16, 16), (16, 16, 3, 3, 3), padding=1),
        _conv("k3, 16 to 32, stride 2", (2, 16, 8, 16, 16), (32, 16, 3, 3, 3), 2, 1),
        _conv("k3, 32 to 32, groups 4", (2, 32, 8, 8, 8), (32, 8, 3, 3, 3), 1, 1, groups=4),
    ],
    "transposed": [
        _transposed("1d k4, stride 2", (8, 32, 128), (32, 32, 4), 2, 1),
        _transposed("2x2, stride 2", (8, 64, 14, 14), (64, 32, 2, 2), 2, 0),
        _transposed("4x4, stride 2", (8, 32, 14, 14), (32, 32, 4, 4), 2, 1),
        _transposed("3d 2x2x2, stride 2", (2, 16, 6, 8, 8), (16, 8, 2, 2, 2), 2, 0),
    ],
    "pooling": [
        _pool("max", "2x2, stride 2", (8, 64, 28, 28), 2, 2),
        _pool("max", "3x3, stride 2", (8, 64, 28, 28), 3, 2, 1),
        _pool("max", "3x3, stride 1", (8, 64, 28, 28), 3, 1, 1),
        _pool("max", "1d, 2, stride 2", (8, 64, 1024), 2, 2),
        _pool("max", "3d, 2, stride 2", (2, 16, 16, 16, 16), 2, 2),
        _pool("avg", "2x2, stride 2", (8, 64, 28, 28), 2, 2),
        _pool("avg", "3x3, stride 1", (8, 64, 28, 28), 3, 1, 1),
        _adaptive("28x28 to 7x7", (8, 64, 28, 28), 7),
        _adaptive("28x28 to 5x5", (8, 64, 28, 28), 5),
    ],
}
