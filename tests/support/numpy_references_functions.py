"""Programs of the operators that take functions, and what they compute, in plain Python."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from operator_samples import Array, floats, integers


@dataclass(frozen=True)
class Program:
    """Functions as text, the arguments of `main`, and what it gives for them."""

    text: str
    args: tuple[Array, ...]
    reference: Callable[..., Any]


PROGRAMS: dict[str, list[Program]] = {}


def _scanned(body: Callable[..., Any], carry: Any, rows: Any) -> Any:
    """The last carry, and what each step gives."""
    stacked = []
    for row in rows:
        carry, y = body(carry, row)
        stacked.append(y)
    return carry, stacked


_SUMS = """
@R.function
def main(h: R.Tensor((3,), "float32"), xs: R.Tensor((LENGTH, 3), "float32")):
    @R.function
    def step(c: R.Tensor((3,), "float32"), x: R.Tensor((3,), "float32")):
        s = R.add(R.multiply(c, h), x)
        y = R.sum(s)
        return (s, y)
    out = R.scan(step, h, xs, OPTIONS)
    return out
"""


def _sums(length: int, options: str, reverse: bool = False) -> Program:
    def reference(h: Any, xs: Any) -> Any:
        order = slice(None, None, -1 if reverse else 1)
        body: Callable[..., Any] = lambda c, x: (c * h + x, (c * h + x).sum())  # noqa: E731  # short
        carry, ys = _scanned(body, h, xs[order])
        return carry, np.array(ys, "float32")[order]

    text = _SUMS.replace("LENGTH", str(length)).replace("OPTIONS", options)
    args = floats(3, dtype="float32"), floats(length, 3, dtype="float32")
    return Program(text, args, reference)


_POWERS = Program(
    """
@R.function
def main(n: R.Tensor((), "int32")):
    @R.function
    def step(c: R.Tensor((), "int32"), x: R.Tuple()):
        d = R.multiply(c, R.const(2, "int32"))
        return (d, c)
    out = R.scan(step, n, R.tuple(), length=5)
    return out
""",
    (integers(low=1),),
    lambda n: (n * 32, n * 2 ** np.arange(5)),
)
_PAIRS = Program(
    """
@R.function
def main(
    a: R.Tensor((2,), "bfloat16"), b: R.Tensor((), "int32"), xs: R.Tensor((4, 2), "bfloat16"),
    ys: R.Tensor((4,), "int32"),
):
    @R.function
    def step(
        c: R.Tuple(R.Tensor((2,), "bfloat16"), R.Tensor((), "int32")),
        x: R.Tuple(R.Tensor((2,), "bfloat16"), R.Tensor((), "int32")),
    ):
        low = R.minimum(c[0], x[0])
        total = R.add(c[1], x[1])
        return ((low, total), (total, low))
    out = R.scan(step, (a, b), (xs, ys))
    return out
""",
    (floats(2, dtype="bfloat16"), integers(), floats(4, 2, dtype="bfloat16"), integers(4)),
    lambda a, b, xs, ys: (
        (np.minimum(a, xs.min(0)), b + ys.sum()),
        (b + np.cumsum(ys), np.minimum(a, np.minimum.accumulate(xs))),
    ),
)
PROGRAMS["relax.scan"] = [
    _sums(5, "reverse=False"),
    _sums(4, "reverse=True, checkpoint=True", reverse=True),
    _sums(0, "checkpoint=True"),
    _POWERS,
    _PAIRS,
]


def _collatz(bound: int) -> Program:
    """A number halved or tripled until it is 1, and how often."""

    def reference(n: Any) -> Any:
        steps = 0
        while n != 1 and steps < bound:
            n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
        return n, steps

    text = """
@R.function
def main(n: R.Tensor((), "int32")):
    @R.function
    def going(c: R.Tuple(R.Tensor((), "int32"), R.Tensor((), "int32"))):
        more = R.not_equal(c[0], R.const(1, "int32"))
        return more
    @R.function
    def step(c: R.Tuple(R.Tensor((), "int32"), R.Tensor((), "int32"))):
        two = R.const(2, "int32")
        even = R.equal(R.floor_mod(c[0], two), R.const(0, "int32"))
        tripled = R.add(R.multiply(R.const(3, "int32"), c[0]), R.const(1, "int32"))
        following = R.where(even, R.floor_divide(c[0], two), tripled)
        count = R.add(c[1], R.const(1, "int32"))
        return (following, count)
    out = R.while_loop(going, step, (n, R.const(0, "int32")), max_iter=BOUND)
    return out
"""
    return Program(text.replace("BOUND", str(bound)), (integers(low=6, high=40),), reference)


def _halved(x: Any) -> Any:
    while x.sum() > 1:
        x = x * np.float32(0.5)
    return x


_HALVED = Program(
    """
@R.function
def main(x: R.Tensor((LENGTH,), "float32")):
    @R.function
    def large(c: R.Tensor((LENGTH,), "float32")):
        d = R.greater(R.sum(c), R.const(1.0, "float32"))
        return d
    @R.function
    def half(c: R.Tensor((LENGTH,), "float32")):
        d = R.multiply(c, R.const(0.5, "float32"))
        return d
    out = R.while_loop(large, half, x, max_iter=20, checkpoint=True)
    return out
""",
    (),
    _halved,
)
PROGRAMS["relax.while_loop"] = [
    *map(_collatz, (200, 3, 0)),
    *(
        Program(
            _HALVED.text.replace("LENGTH", str(length)),
            (floats(length, dtype="float32", low=1, high=9),),
            _halved,
        )
        for length in (4, 0)
    ),
]

_CLOSURES = {
    "relax.invoke_pure_closure": ("R.invoke_pure_closure", ""),
    "relax.invoke_closure": ("R.invoke_closure", "(pure=False)"),
}


def _closures(invoke: str, effects: str) -> list[Program]:
    """Closures that lack one argument, all of them, or none; of several dtypes and shapes."""
    one = f"""
@R.function(private=True)
def part(x: R.Tensor(("n",), "float32"), a: R.Tensor((), "float32"), b: R.Tensor((), "float32")):
    n = T.int64()
    y: R.Tensor((n,), "float32") = R.subtract(R.multiply(a, x), b)
    return y
@R.function{effects}
def main(x: R.Tensor((LENGTH,), "float32"), a: R.Tensor((), "float32")):
    closure = R.make_closure(Module.part, (a, R.const(2.0, "float32")))
    first = {invoke}(closure, (x,), ty_args=R.Tensor((LENGTH,), "float32"))
    second = {invoke}(closure, (first,), ty_args=R.Tensor((LENGTH,), "float32"))
    return second
"""
    every = f"""
@R.function(private=True)
def whole(x: R.Tensor((2, 3), "int32"), y: R.Tensor((3,), "int32")):
    z = R.floor_divide(x, y)
    return z
@R.function{effects}
def main(x: R.Tensor((2, 3), "int32"), y: R.Tensor((3,), "int32")):
    closure = R.make_closure(Module.whole, ())
    out = {invoke}(closure, (x, y), ty_args=R.Tensor((2, 3), "int32"))
    return out
"""
    none = f"""
@R.function(private=True)
def pair(x: R.Tensor((), "float16"), y: R.Tensor((2,), "float16")):
    return (R.maximum(x, y), x)
@R.function{effects}
def main(x: R.Tensor((), "float16"), y: R.Tensor((2,), "float16")):
    closure = R.make_closure(Module.pair, (x, y))
    out = {invoke}(
        closure, (), ty_args=R.Tuple(R.Tensor((2,), "float16"), R.Tensor((), "float16"))
    )
    return out
"""
    narrow = floats(dtype="float16"), floats(2, dtype="float16")
    return [
        *(
            Program(
                one.replace("LENGTH", str(length)),
                (floats(length, dtype="float32"), floats(dtype="float32")),
                lambda x, a: a * (a * x - 2) - 2,
            )
            for length in (3, 0)
        ),
        Program(every, (integers(2, 3, low=-9), integers(3, low=1)), np.floor_divide),
        Program(none, narrow, lambda x, y: (np.maximum(x, y), x)),
    ]


PROGRAMS |= {name: _closures(*how) for name, how in _CLOSURES.items()}
PROGRAMS["relax.make_closure"] = PROGRAMS["relax.invoke_pure_closure"]
