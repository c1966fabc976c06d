"""How the time of passes, and of what reads and writes programs, grows with a program.

    python tests/long/growth.py                              # everything
    python tests/long/growth.py Gradient from_source --shapes chain wide --smallest 32

Each is timed at the sizes n, 4 n and 16 n of each shape of `tests/support/growing_programs.py`, on
one thread's clock, the least of three runs where they are short. The slope is that of the line
through the logarithms: 1 for what grows in proportion to the size, 2 for its square. For each, the
steepest shape is shown; what nests is timed at depths of 2, 4 and 8. XLA compiles nothing here.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import checkout  # noqa: F401  # finds what follows
from growing_programs import NESTED, SHAPES
from growing_work import ENTRY_POINTS, OTHERS, Doing, differentiating, sampled
from pass_samples import preserving
from timing import table

SMALLEST = 16
DEPTHS = (2, 4, 8)
# What takes longer is run once.
SHORT = 0.2
HEAD = ("what", "shape", "sizes", "ms", "slope")

THINGS: dict[str, Doing] = {
    **ENTRY_POINTS,
    "value_and_grad": differentiating,
    **{name: partial(sampled, name) for name in preserving()},
    **OTHERS,
}


def seconds(prepare: Callable[[], Callable[[], Any]]) -> float:
    """The least time of a call, made ready anew each time: JAX remembers what it has traced."""
    times: list[float] = []
    while len(times) < 3 and sum(times) < SHORT:
        run = prepare()
        start = time.thread_time()
        run()
        times.append(time.thread_time() - start)
    return min(times)


def slope(sizes: Sequence[int], times: Sequence[float]) -> float:
    """That of the line of least squares through the logarithms."""
    xs, ys = [math.log(size) for size in sizes], [math.log(max(t, 1e-6)) for t in times]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    products = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True))
    return products / sum((a - x) ** 2 for a in xs)


def measured(name: str, shape: str, smallest: int) -> tuple[Any, ...]:
    sizes = DEPTHS if shape in NESTED else (smallest, 4 * smallest, 16 * smallest)
    prepare = THINGS[name]
    prepare(SHAPES[shape](2))()
    times = [seconds(partial(prepare, SHAPES[shape](size))) for size in sizes]
    shown = ", ".join(f"{1e3 * took:.3g}" for took in times)
    return name, shape, ", ".join(map(str, sizes)), shown, slope(sizes, times)


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="all where none is given")
    parser.add_argument("--shapes", nargs="*", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--smallest", type=int, default=SMALLEST)
    given = parser.parse_args()
    rows = []
    for name in given.names or THINGS:
        found = [measured(name, shape, given.smallest) for shape in given.shapes]
        *row, steepest = max(found, key=lambda row: float(row[-1]))
        rows.append((*row, f"{steepest:.2f}"))
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    print(table(HEAD, rows))


if __name__ == "__main__":
    main()
