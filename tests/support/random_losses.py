"""Random losses in JAX whose loops, branches and rules stand inside one another.

A loss is drawn as steps, which say what they read by number: tracing it twice gives one program.
Each value is a short vector, and stays moderate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from hypothesis import strategies as st
from jax import lax

SIZE = 3
DEPTH = 3

Values: TypeAlias = list[Any]
Body: TypeAlias = Callable[..., Any]
Grad: TypeAlias = Callable[[Callable[[Any], Any]], Callable[[Any], Any]]


def times(number: float, like: Any, count: Any) -> Any:
    """A vector like another of a number times what a loop counts."""
    return jnp.full_like(like, number) * lax.convert_element_type(count, like.dtype)


UNARY: dict[str, Callable[[Any], Any]] = {
    "sin": jnp.sin,
    "tanh": jnp.tanh,
    "exp": lambda x: jnp.exp(jnp.sin(x)),
    "root": lambda x: jnp.sqrt(1.5 + jnp.sin(x)),
    "square": lambda x: jnp.square(jnp.sin(x)),
    "softmax": jax.nn.softmax,
    "sort": jnp.sort,
    "sums": lambda x: 0.5 * jnp.cumsum(x),
    "total": lambda x: jnp.full_like(x, 0.3) * jnp.sum(x),
    "turned": lambda x: jnp.roll(x, 1),
    "first": lambda x: x.at[0].set(0.7),
    "still": lax.stop_gradient,
    "whole": lambda x: jnp.round(x),
    "largest": lambda x: x * times(0.4, x, jnp.argmax(x)),
    "as it is": lambda x: x,
    "none": jnp.zeros_like,
}

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": jnp.add,
    "subtract": jnp.subtract,
    "product": lambda x, y: jnp.sin(x) * y,
    "quotient": lambda x, y: x / (1.5 + jnp.sin(y)),
    "where": lambda x, y: jnp.where(x < y, x, 0.5 * y),
    "larger": jnp.maximum,
    "outer": lambda x, y: 0.4 * jnp.outer(x, jnp.tanh(y)) @ y,
    "taken": lambda x, y: x[jnp.argmax(y)] + y,
    "second": lambda x, y: y,
}


@dataclass(frozen=True)
class Step:
    """What one step does with the values in reach, which `picks` number, and with its bodies."""

    kind: str
    picks: tuple[int, ...]
    number: int
    bodies: tuple[tuple["Step", ...], ...] = ()


@dataclass
class Maker:
    """Computes the steps of a loss; `grad` is for losses inside of it."""

    grad: Grad = jax.grad
    values: Values = field(default_factory=list)

    def after(self, *added: Any) -> "Maker":
        return Maker(self.grad, [*self.values, *added])

    def alone(self) -> "Maker":
        """One whose bodies read their arguments alone, as functions with own rules must."""
        return Maker(self.grad)

    def pick(self, step: Step, place: int) -> Any:
        return self.values[step.picks[place] % len(self.values)]

    def body(self, step: Step, place: int = 0) -> Body:
        """A body as a function of further values, which it reads beside those around it."""

        def function(*added: Any) -> Any:
            return self.after(*added).run(step.bodies[place])

        return function

    def run(self, steps: Sequence[Step]) -> Any:
        """The last value, bounded, so that what is around it stays moderate."""
        inner = self.after()
        for step in steps:
            inner.values.extend(KINDS[step.kind](inner, step))
        return jnp.tanh(inner.values[-1])


Kind: TypeAlias = Callable[[Maker, Step], Sequence[Any]]


def unary(maker: Maker, step: Step) -> Sequence[Any]:
    name = sorted(UNARY)[step.number % len(UNARY)]
    return [UNARY[name](maker.pick(step, 0))]


def binary(maker: Maker, step: Step) -> Sequence[Any]:
    name = sorted(BINARY)[step.number % len(BINARY)]
    return [BINARY[name](maker.pick(step, 0), maker.pick(step, 1))]


def scan(maker: Maker, step: Step) -> Sequence[Any]:
    """Carries two vectors and a count, reads a stack if not an empty one, and stacks a vector."""
    first, second, data = (maker.pick(step, place) for place in range(3))
    turned, unroll = step.number % 2 == 1, 1 + step.number % 3 // 2
    inner = maker.body(step)

    def one(carry: Any, x: Any) -> Any:
        at, left, right = carry
        new = inner(left, right, x, times(0.2, x, at))
        kept = right if step.number % 5 == 0 else left
        return (at + 1, new, kept), new if step.number % 4 else x * 0.5

    stack = jnp.stack([data, 0.5 * data, -data])[: 0 if step.number % 7 == 0 else 3]
    (_, left, right), ys = lax.scan(one, (0, first, second), stack, reverse=turned, unroll=unroll)
    one_y = ys[step.number % 3] if len(stack) else jnp.sum(ys, axis=0)
    return [right, one_y, left][: 1 + step.number % 3]


def counted(maker: Maker, step: Step) -> Sequence[Any]:
    inner = maker.body(step)

    def one(i: Any, x: Any) -> Any:
        return inner(x, x * times(0.3, x, i))

    return [lax.fori_loop(0, step.number % 4, one, maker.pick(step, 0))]


def mapped(maker: Maker, step: Step) -> Sequence[Any]:
    inner = maker.body(step)
    stack = jnp.stack([maker.pick(step, 0), maker.pick(step, 1)])
    return [lax.map(inner, stack)[step.number % 2]]


def waited(maker: Maker, step: Step) -> Sequence[Any]:
    """A while loop over what does not move, beside what does."""
    inner = Maker(maker.grad, [lax.stop_gradient(value) for value in maker.values])

    def one(carry: Any) -> Any:
        return carry[0] + 1, inner.body(step)(carry[1])

    start = lax.stop_gradient(maker.pick(step, 0))
    end = step.number % 3
    count, last = lax.while_loop(lambda c: (c[0] < end) & (c[1][0] < 0.9), one, (0, start))
    return [last + times(0.1, last, count), maker.pick(step, 1) * last]


def branched(maker: Maker, step: Step) -> Sequence[Any]:
    chosen = jnp.sum(maker.pick(step, 0)) > 0.1 * (step.number % 5)
    operand = maker.pick(step, 1)
    return [lax.cond(chosen, maker.body(step, 0), maker.body(step, 1), operand)]


def switched(maker: Maker, step: Step) -> Sequence[Any]:
    place = jnp.argmax(maker.pick(step, 0))
    branches = [maker.body(step, 0), maker.body(step, 1), lambda x: x]
    return [lax.switch(place, branches, maker.pick(step, 1))]


def checkpointed(maker: Maker, step: Step) -> Sequence[Any]:
    policies = [
        None,
        jax.checkpoint_policies.dots_saveable,
        jax.checkpoint_policies.everything_saveable,
    ]
    policy = policies[step.number % 3]
    return [jax.checkpoint(maker.body(step), policy=policy)(maker.pick(step, 0))]


def called(maker: Maker, step: Step) -> Sequence[Any]:
    inner = jax.jit(maker.body(step))
    return [inner(maker.pick(step, 0)), inner(maker.pick(step, 1))]


def batched(maker: Maker, step: Step) -> Sequence[Any]:
    """Once for each row of a stack, beside a vector that all of them share."""
    stack = jnp.stack([maker.pick(step, 0), maker.pick(step, 1)])
    rows = jax.vmap(maker.body(step), in_axes=(0, None))(stack, maker.pick(step, 2))
    return [rows[0], 0.5 * jnp.sum(rows, axis=0)]


def own_backward(maker: Maker, step: Step) -> Sequence[Any]:
    """A function whose rule for the way back is not its derivative."""
    inner = maker.alone().body(step)

    def value(x: Any, y: Any) -> Any:
        return inner(x, y) + 0.0 * (x + y)  # where its rule is mapped, it must be, too

    def forward(x: Any, y: Any) -> Any:
        return value(x, y), (x, y)

    def backward(kept: Any, cotangent: Any) -> Any:
        x, y = kept
        return 0.5 * cotangent * jnp.cos(y), cotangent * x if step.number % 2 else None

    function = jax.custom_vjp(value)
    function.defvjp(forward, backward)
    return [function(maker.pick(step, 0), maker.pick(step, 1))]


def own_tangent(maker: Maker, step: Step) -> Sequence[Any]:
    inner = maker.alone().body(step)

    @jax.custom_jvp
    def function(x: Any, y: Any) -> Any:
        return inner(x, y) + 0.0 * (x + y)  # where its rule is mapped, it must be, too

    @function.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        x, y = primals
        return function(x, y), tangents[0] * jnp.sin(y) + 0.5 * tangents[1]

    return [function(maker.pick(step, 0), maker.pick(step, 1))]


def inner_gradient(maker: Maker, step: Step) -> Sequence[Any]:
    inner = maker.body(step)
    return [maker.grad(lambda x: jnp.sum(inner(x)))(maker.pick(step, 0))]


def inner_tangent(maker: Maker, step: Step) -> Sequence[Any]:
    return jax.jvp(maker.body(step), [maker.pick(step, 0)], [maker.pick(step, 1)])


KINDS: dict[str, Kind] = {
    "unary": unary,
    "binary": binary,
    "scan": scan,
    "counted": counted,
    "mapped": mapped,
    "waited": waited,
    "branched": branched,
    "switched": switched,
    "checkpointed": checkpointed,
    "called": called,
    "batched": batched,
    "own backward": own_backward,
    "own tangent": own_tangent,
    "inner gradient": inner_gradient,
    "inner tangent": inner_tangent,
}
PLAIN = ["unary", "binary"]
TWO_BODIES = ["branched", "switched"]


@st.composite
def steps(draw: st.DrawFn, depth: int = DEPTH) -> tuple[Step, ...]:
    """Some steps; those with bodies may have others inside."""
    kinds = PLAIN if depth == 0 else [*PLAIN, *KINDS]
    return tuple(draw(a_step(kinds, depth)) for _ in range(draw(st.integers(1, 3))))


@st.composite
def a_step(draw: st.DrawFn, kinds: Sequence[str], depth: int) -> Step:
    kind = draw(st.sampled_from(kinds))
    picks = tuple(draw(st.integers(0, 11)) for _ in range(3))
    count = 0 if kind in PLAIN else 2 if kind in TWO_BODIES else 1
    bodies = tuple(draw(steps(depth - 1)) for _ in range(count))
    return Step(kind, picks, draw(st.integers(0, 59)), bodies)


def loss_of(recipe: Sequence[Step], grad: Grad = jax.grad) -> Callable[..., Any]:
    """A loss of three vectors."""

    def loss(x: Any, y: Any, z: Any) -> Any:
        maker = Maker(grad, [x, y, z])
        last = maker.run(recipe)
        return jnp.vdot(last, jnp.cos(jnp.arange(SIZE, dtype=last.dtype))) + jnp.sum(x * y)

    return loss
