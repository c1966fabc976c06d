"""Random losses made of what networks are made of: norms, choices among numbers, chains of steps.

Where XLA computes a value in several kernels, as it does with cheap steps behind a norm, whatever
chooses by that value is at risk. So each loss has norms, then choices, then chains.
"""

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from random import Random
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import relaxjax.ops  # noqa: F401  # enters the operators into the table
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, TupleGetItem, Var, const
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.ops.emit import call, scalar, where
from relaxjax.ops.jax_functions import call_jax
from relaxjax.testing import Way
from relaxjax.testing.compilations import DTYPES, POLICIES, ROUTES

# Sequences (batch, steps, features), and images (batch, channels, height, width).
SHAPES = ((2, 4, 8), (3, 6, 16), (2, 4, 6, 6), (1, 8, 4, 4))
_WEIGHTS = ("gamma", "beta", "bias", "scale")
_LEAST = 4  # features
# Each network is compiled in one of these, by its number.
WAYS = [Way(route, policy, dtype) for policy in POLICIES for dtype in DTYPES for route in ROUTES]

T = TypeVar("T")
Step: TypeAlias = Callable[["Network"], Expr]


@dataclass(frozen=True)
class Loss:
    """A module whose `main` gives a scalar, arguments for it, and the numbers of its steps."""

    module: IRModule
    args: tuple[Any, ...]
    steps: tuple[int, ...]


def random_loss(seed: int, without: Collection[int] = ()) -> Loss:
    """A loss of float32, of a sequence or of images: the same one for the same seed.

    Each step is drawn by itself, so one `without` some steps has others like those it had.
    """
    return Network(seed, frozenset(without), Random(seed).choice(SHAPES)).loss()


def single_choice(index: int) -> Loss:
    """A norm by hand, one choice by it, and both of them in the loss."""

    class _Single(Network):
        def kinds(self) -> list[Sequence[Step]]:
            return [[_by_hand], [CHOICES[index]]]

        def total(self) -> Expr:
            chosen = call("sum", call("square", self.values[-1]))
            return chosen + call("sum", self.values[-2] * call("cos", self.values[-1]))

    return _Single(index, frozenset(), SHAPES[index % len(SHAPES)]).loss()


def arguments(module: IRModule, seed: int) -> tuple[Any, ...]:
    """Arguments for the loss: floats, and labels that every number of features has."""
    random = np.random.default_rng(seed)
    found = []
    for param in module["main"].params:
        assert isinstance(param.ty, TensorType)
        size: Any = param.ty.dims
        floats = param.ty.dtype == "float32"
        drawn = random.normal(size=size) if floats else random.integers(0, _LEAST, size)
        found.append(drawn.astype(param.ty.dtype))
    return tuple(found)


@dataclass
class Network:
    """Emits random bindings; `values` have the shape of the input."""

    seed: int
    without: frozenset[int]
    shape: tuple[int, ...]
    builder: BlockBuilder = field(default_factory=BlockBuilder)
    values: list[Expr] = field(default_factory=list)
    params: dict[str, Var] = field(default_factory=dict)
    made: list[int] = field(default_factory=list)
    random: Random = field(default_factory=Random)  # that of the step

    def loss(self) -> Loss:
        shapes: dict[str, tuple[int, ...]] = {
            "x": self.shape,
            "w": (self.features, self.features),
            "k": (self.features, self.features, 3, 3),
            **dict.fromkeys(_WEIGHTS, (self.features,)),
        }
        types = {name: TensorType(shape, "float32") for name, shape in shapes.items()}
        types["labels"] = TensorType(self.shape[:1], "int32")
        self.params = {name: Var(name, ty) for name, ty in types.items()}
        self.values = [self.params["x"]]
        with self.builder.function("main", [*self.params.values()]):
            with self.builder.dataflow():
                for number, kinds in enumerate(self.kinds()):
                    self.step(number, kinds)
                total = self.builder.emit_output(self.total(), "loss")
            self.builder.emit_func_output(total)
        module = self.builder.get()
        return Loss(module, arguments(module, self.seed), tuple(self.made))

    def kinds(self) -> "list[Sequence[Step]]":
        """What kind each step is of."""
        random = Random(f"{self.seed} kinds")
        found: list[Sequence[Step]] = []
        for _ in range(random.randint(1, 3)):
            found += [NORMS, *[CHAINS] * random.randint(0, 2)]
            found += [CHOICES, *[CHAINS] * random.randint(0, 3)]
        return found

    def step(self, number: int, kinds: "Sequence[Step]") -> None:
        if number in self.without:
            return
        self.random = Random(f"{self.seed} step {number}")
        value = self.builder.emit(self.one(kinds)(self), "h")
        assert isinstance(value.ty, TensorType)
        assert value.ty.dims == self.shape, value
        self.values.append(value)
        self.made.append(number)

    def total(self) -> Expr:
        """The sum of two or three losses."""
        self.random = Random(f"{self.seed} loss")
        losses = [self.one(LOSSES)(self) for _ in range(self.random.randint(2, 3))]
        return reduce(operator.add, losses)

    def one(self, options: "Sequence[T]") -> "T":
        return self.random.choice(options)

    @property
    def is_image(self) -> bool:
        return len(self.shape) == 4

    @property
    def channels(self) -> int:
        """The axis of the features."""
        return 1 if self.is_image else 2

    @property
    def features(self) -> int:
        return self.shape[self.channels]

    @property
    def axis(self) -> int:
        """An axis to choose along."""
        return self.one(range(1, len(self.shape)))

    @property
    def value(self) -> Expr:
        """The newest value mostly, else any."""
        return self.values[-1] if self.random.randint(0, 3) else self.one(self.values)

    def weight(self, name: str = "") -> Expr:
        """A vector of weights, shaped so that it broadcasts along the features."""
        vector = self.params[name or self.one(_WEIGHTS)]
        return call("reshape", vector, (self.features, 1, 1)) if self.is_image else vector


# What has the shape of its input and no sharp turns.

CHAINS: Sequence[Step] = (
    lambda n: n.value + n.weight(),
    lambda n: n.value * n.weight(),
    lambda n: n.value + n.value,
    lambda n: n.value * call("sigmoid", n.value),
    lambda n: call("tanh", n.value),
    lambda n: call("nn.gelu", n.value),
    lambda n: call("nn.silu", n.value),
    lambda n: call("nn.relu", n.value),
    lambda n: call("nn.softplus", n.value),
    lambda n: call("sin", n.value) * scalar(1.5, n.value),
    lambda n: n.value - call("mean", n.value, n.axis, keepdims=True),
    lambda n: n.value / (scalar(1.1, n.value) + call("square", call("sin", n.value))),
    lambda n: _dense(n),
    lambda n: _convolved(n),
)


def _dense(n: Network) -> Expr:
    """A product with the matrix of weights, along the features."""
    x, matrix = n.value, n.params["w"] * const(0.3, "float32")
    if not n.is_image:
        return call("matmul", x, matrix)
    last = call("matmul", call("permute_dims", x, (0, 2, 3, 1)), matrix)
    return call("permute_dims", last, (0, 3, 1, 2))


def _convolved(n: Network) -> Expr:
    if not n.is_image:
        return _dense(n)
    kernel = n.params["k"] * const(0.2, "float32")
    return call("nn.conv2d", n.value, kernel, padding=1)


# What XLA computes anew in several kernels, because it ends in cheap steps.

NORMS: Sequence[Step] = (
    lambda n: _layer_norm(n),
    lambda n: _layer_norm(n),
    lambda n: _by_hand(n),
    lambda n: _by_hand(n),
    lambda n: _rms_norm(n),
    lambda n: _group_norm(n),
    lambda n: _batch_norm(n),
    lambda n: call("nn.softmax", n.value, n.axis) * scalar(3, n.value),
    lambda n: call("nn.log_softmax", n.value, n.axis),
)


def _layer_norm(n: Network) -> Expr:
    gamma = n.one([n.params["gamma"], call("ones", (n.features,), "float32")])
    if not n.is_image:
        return call("nn.layer_norm", n.value, gamma, n.params["beta"], axes=[-1], epsilon=1e-3)
    last = call("permute_dims", n.value, (0, 2, 3, 1))
    norm = call("nn.layer_norm", last, gamma, n.params["beta"], axes=[-1], epsilon=1e-3)
    return call("permute_dims", norm, (0, 3, 1, 2))


def _by_hand(n: Network) -> Expr:
    x, axis = n.value, n.axis
    centred = x - call("mean", x, axis, keepdims=True)
    variance = call("mean", call("square", centred), axis, keepdims=True)
    norm = centred * call("rsqrt", variance + scalar(1e-2, x))
    return norm + n.weight("beta")


def _rms_norm(n: Network) -> Expr:
    if n.is_image:
        return _by_hand(n)
    return call("nn.rms_norm", n.value, n.params["gamma"], axes=[-1], epsilon=1e-3)


def _group_norm(n: Network) -> Expr:
    if not n.is_image:
        return _layer_norm(n)
    gamma, beta = n.params["gamma"], n.params["beta"]
    return call("nn.group_norm", n.value, gamma, beta, 2, 1, [2, 3], epsilon=1e-3)


def _batch_norm(n: Network) -> Expr:
    zeros, ones = (call(name, (n.features,), "float32") for name in ("zeros", "ones"))
    gamma, beta = n.params["gamma"], n.params["beta"]
    found = call("nn.batch_norm", n.value, gamma, beta, zeros, ones, n.channels, 1e-3)
    return TupleGetItem(n.builder.emit(found), 0)


# What chooses among numbers, back in the shape of the input.

CHOICES: Sequence[Step] = (
    lambda n: _extremum(n),
    lambda n: _extremum(n),
    lambda n: _extremum(n),
    lambda n: call("maximum", n.value, n.value * n.weight()),
    lambda n: call("minimum", n.value, n.value + n.weight()),
    lambda n: call("clip", n.value, -0.731, 0.912),
    lambda n: call_jax(partial(_bounded, axis=n.channels), n.value, n.params["bias"]),
    lambda n: call_jax(partial(lax.cummax, axis=n.axis), n.value),
    lambda n: call_jax(partial(lax.cummin, axis=n.axis, reverse=True), n.value),
    lambda n: call_jax(jnp.maximum, n.value, n.value * n.weight("scale")),
    lambda n: call_jax(partial(_largest_of_segments, axis=n.axis), n.value),
    lambda n: call_jax(partial(_picked, axis=n.axis), n.value),
    lambda n: call("sort", n.value, n.axis),
    lambda n: _top(n),
    lambda n: _median(n),
    lambda n: _taken(n),
    lambda n: where(n.value > scalar(0.2, n.value), n.value, n.value * scalar(0.1, n.value)),
    lambda n: _tied(n),
    lambda n: _pooled(n),
    lambda n: call("floor_mod", n.value, scalar(0.731, n.value)) + n.value,
)


def _extremum(n: Network) -> Expr:
    """An extremum that is subtracted, added, or a factor."""
    x, axes = n.value, n.one([[n.axis], [-1, 1], None])
    name = n.one(["max", "min"])
    found = call(name, x, axes, keepdims=axes is not None)
    return n.one([x - found, n.value * call("tanh", found), n.value + found])


def _bounded(x: Any, bound: Any, axis: int) -> Any:
    shape = [1] * x.ndim
    shape[axis] = bound.shape[0]
    width = jnp.broadcast_to(jnp.abs(bound).reshape(shape), x.shape)
    return lax.clamp(-width, x, width)


def _largest_of_segments(x: Any, axis: int) -> Any:
    """Each element less the largest of its third of an axis, by a scatter."""
    rows = jnp.moveaxis(x, axis, 0)
    numbers = jnp.arange(rows.shape[0]) // 3
    found = jax.ops.segment_max(rows, numbers, -(-rows.shape[0] // 3))
    return jnp.moveaxis(rows - found[numbers], 0, axis)


def _picked(x: Any, axis: int) -> Any:
    """The elements at the place of the largest one, as attention over one key reads them."""
    place = jnp.argmax(x, axis, keepdims=True)
    return x * jnp.take_along_axis(jnp.sin(x), place, axis)


def _top(n: Network) -> Expr:
    """The values of the top two and their places, as a mixture of experts takes them."""
    axis = n.axis
    found = n.builder.emit(call("topk", n.value, 2, axis, "both", True, "int64"))
    values, places = TupleGetItem(found, 0), TupleGetItem(found, 1)
    zeros = call("zeros_like", n.value)
    weights = call("nn.softmax", values, axis)
    return call("scatter_elements", zeros, places, weights, axis) * n.value


def _median(n: Network) -> Expr:
    axis = n.axis
    found = n.builder.emit(call("median", n.value, [axis], keepdims=True))
    return n.value - TupleGetItem(found, 0)


def _taken(n: Network) -> Expr:
    """The element at the place of the largest along an axis, everywhere."""
    axis = n.axis
    place = call("argmax", n.value, axis, keepdims=True)
    return n.value + call("gather_elements", call("cos", n.value), place, axis)


def _tied(n: Network) -> Expr:
    """A maximum among numbers of which several are alike: zeros of relu."""
    x = call("nn.relu", n.value - scalar(1.0, n.value))
    return n.value + call("max", x, n.axis, keepdims=True) * scalar(0.5, x)


def _pooled(n: Network) -> Expr:
    x, kind = n.value, n.one(["max", "max", "avg"])
    if n.is_image:
        size = n.one([2, 3])
        pads = [0, 0, size - 1, size - 1]
        return call(f"nn.{kind}_pool2d", x, [size, size], [1, 1], pads)
    steps = call("permute_dims", x, (0, 2, 1))
    pooled = call(f"nn.{kind}_pool1d", steps, [3], [1], [1, 1])
    return call("permute_dims", pooled, (0, 2, 1))


# What ends in a scalar.

LOSSES: Sequence[Step] = (
    lambda n: call("sum", call("square", n.value)) * const(0.1, "float32"),
    lambda n: call("mean", call("sin", n.value)),
    lambda n: call("sum", n.value * call("cos", n.value)),
    lambda n: call("sum", call("square", call("max", n.value, n.axis))),
    lambda n: call("sum", call("square", call("min", n.value))),
    lambda n: call("mean", call("logsumexp", n.value, [n.axis])),
    lambda n: _cross_entropy(n),
)


def _cross_entropy(n: Network) -> Expr:
    axes = [2, 3] if n.is_image else [1]
    scores = call(n.one(["mean", "max"]), n.value, axes)
    return call("nn.nll_loss", call("nn.log_softmax", scores), n.params["labels"])
