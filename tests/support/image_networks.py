"""Random networks on images, for passes that look at convolutions and what stands between them."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from relaxjax.ir import BlockBuilder, Expr, IRModule, TensorType, Var, const
from relaxjax.ir.op import get_op

DTYPE = "float64"


def call(name: str, *args: Any, **attrs: Any) -> Expr:
    return get_op(f"relax.{name}")(*args, **attrs)


def dims(x: Expr) -> list[int]:
    assert isinstance(x.ty, TensorType)
    return [dim for dim in x.ty.dims or () if isinstance(dim, int)]


class Network:
    """A network under construction: what has been computed, and the parameters so far."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.params = [Var("x", TensorType((2, 4, 6, 6), DTYPE))]
        self.images: list[Expr] = [self.params[0]]
        self.layout = self.draw.choice(["NCHW", "NCHW", "NHWC"])
        if self.layout == "NHWC":
            self.params[0] = Var("x", TensorType((2, 6, 6, 4), DTYPE))
            self.images = [self.params[0]]

    def param(self, *shape: int) -> Var:
        var = Var(f"p{len(self.params)}", TensorType(shape, DTYPE))
        self.params.append(var)
        return var

    def channels(self, x: Expr) -> int:
        return dims(x)[self.layout.index("C")]

    def image(self) -> Expr:
        return self.draw.choice(self.images[-3:])

    def vector(self, count: int) -> Expr:
        """A parameter along the channels: as a bias or a scale."""
        form = {"NCHW": [(count, 1, 1), (1, count, 1, 1)], "NHWC": [(count,), (1, 1, 1, count)]}
        p: Expr = self.param(*self.draw.choice(form[self.layout]))
        return call("exp", p) if self.draw.random() < 0.5 else p

    def like(self, x: Expr) -> list[Expr]:
        return [y for y in self.images if dims(y) == dims(x)]

    def module(self, steps: int) -> IRModule:
        """A function that computes a scalar of all that nothing else has read."""
        builder = BlockBuilder()
        kinds = list(_KINDS)
        values: list[Expr] = []
        for _ in range(steps):
            found = _KINDS[self.draw.choice(kinds)](self, self.image())
            self.images += [y for y in found if len(dims(y)) == 4 and min(dims(y)) > 0]
            values += found
        total: Expr = const(0.0, DTYPE)
        for value in [*values[-4:], self.images[-1]]:
            total = total + call("mean", call("tanh", value))
        with builder.function("main", self.params):
            with builder.dataflow():
                out = builder.emit_output(total)
            builder.emit_func_output(out)
        return builder.get()


Step = Callable[[Network, Expr], Sequence[Expr]]
_KINDS: dict[str, Step] = {}


def _step(function: Step) -> Step:
    _KINDS[function.__name__] = function
    return function


def _convolved(net: Network, x: Expr, outs: int, groups: int, **window: Any) -> Expr:
    size = window.pop("size")
    kernel = {"O": outs, "I": net.channels(x) // groups, "H": size, "W": size}
    layout = net.draw.choice(["OIHW", "HWIO"])
    weight = net.param(*(kernel[letter] for letter in layout))
    layouts = {"data_layout": net.layout, "kernel_layout": layout}
    return call("nn.conv2d", x, weight, groups=groups, **layouts, **window)


@_step
def convolution(net: Network, x: Expr) -> list[Expr]:
    groups = net.draw.choice([1, 1, 1, 2 if net.channels(x) % 2 == 0 else 1, net.channels(x)])
    stride = net.draw.choice([1, 1, 2])
    return [_convolved(net, x, 2 * groups, groups, size=3, padding=1, strides=stride)]


@_step
def branches(net: Network, x: Expr) -> list[Expr]:
    outs = [net.draw.choice([2, 4]) for _ in range(3)]
    layout = {"data_layout": net.layout, "kernel_layout": "OIHW"}
    made = [
        call("nn.conv2d", x, net.param(count, net.channels(x), 1, 1), **layout) for count in outs
    ]
    if net.draw.random() < 0.6:
        made = [y + net.vector(net.channels(y)) for y in made]
        made = [call("nn.relu", y) for y in made]
    return made


@_step
def transposed(net: Network, x: Expr) -> list[Expr]:
    weight = net.param(net.channels(x), 2, 2, 2)
    return [call("nn.conv2d_transpose", x, weight, data_layout=net.layout)]


@_step
def activation(net: Network, x: Expr) -> list[Expr]:
    return [call(net.draw.choice(["nn.relu", "nn.silu", "sigmoid", "negative", "abs"]), x)]


@_step
def bias(net: Network, x: Expr) -> list[Expr]:
    return [x + net.vector(net.channels(x))]


@_step
def scale(net: Network, x: Expr) -> list[Expr]:
    factor = net.vector(net.channels(x))
    return [x * factor if net.draw.random() < 0.7 else x / call("exp", factor)]


@_step
def number(net: Network, x: Expr) -> list[Expr]:
    return [x * net.draw.choice([0.5, -2.0])]


@_step
def residual(net: Network, x: Expr) -> list[Expr]:
    return [x + net.draw.choice(net.like(x))]


@_step
def pooling(net: Network, x: Expr) -> list[Expr]:
    kind, width = net.draw.choice(["max", "avg"]), dims(x)[net.layout.index("W")]
    return [call(f"nn.{kind}_pool2d", x, [1, min(2, width)], [1, 1], layout=net.layout)]


@_step
def norm(net: Network, x: Expr) -> list[Expr]:
    if net.draw.random() < 0.7:
        x = _convolved(net, x, 3, 1, size=1)
    count, axis = net.channels(x), net.layout.index("C")
    gamma, beta, mean = (net.param(count) for _ in range(3))
    variance = call("exp", net.param(count))
    normed = call("nn.batch_norm", x, gamma, beta, mean, variance, axis=axis, training=False)
    return [normed[0]]


@_step
def excitation(net: Network, x: Expr) -> list[Expr]:
    spatial = [net.layout.index(letter) for letter in "HW"]
    return [x * call("sigmoid", call("mean", x, spatial, keepdims=True))]


@_step
def joined(net: Network, x: Expr) -> list[Expr]:
    return [call("concat", [x, net.draw.choice(net.like(x))], axis=net.draw.randrange(4))]


@_step
def parted(net: Network, x: Expr) -> list[Expr]:
    axis = net.draw.randrange(4)
    if dims(x)[axis] < 2:
        return []
    pieces = call("split", x, [1], axis=axis)
    return [pieces[0], pieces[1]]


@_step
def flattened(net: Network, x: Expr) -> list[Expr]:
    """Through two axes, or one, and back."""
    a, b, c, d = dims(x)
    flat = call("reshape", x, net.draw.choice([(a, b * c * d), (a, b, c * d), (a * b, c, d)]))
    return [call("reshape", call("sin", flat), (a, b, c, d))]


@_step
def turned(net: Network, x: Expr) -> list[Expr]:
    """Transposed, and back."""
    there = call("permute_dims", x, [0, 2, 3, 1])
    return [call("permute_dims", call("nn.softmax", there), [0, 3, 1, 2])]


@_step
def padded(net: Network, x: Expr) -> list[Expr]:
    return [call("nn.pad", x, [0, 0, 0, 1, 1, 0, 0, 0])]


@_step
def sliced(net: Network, x: Expr) -> list[Expr]:
    axis = net.draw.randrange(1, 4)
    return [call("strided_slice", x, [axis], [0], [max(1, dims(x)[axis] - 1)])]


@_step
def dense(net: Network, x: Expr) -> list[Expr]:
    """Products of the last axis, several of one tensor."""
    last = dims(x)[-1]
    made = [call("matmul", x, net.param(last, net.draw.choice([2, 3]))) for _ in range(3)]
    return [call("nn.relu", y) for y in made] if net.draw.random() < 0.5 else made
