"""How the work of a call grows with the size of a program, and by which law it may.

Of three sizes, each twice the one before, the steps between the works are compared: what a call
does whatever the size is falls out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any

from counted_work import counted
from growing_programs import DEEPER, NESTED, SHAPES

from relaxjax.ir.module import IRModule

SIZES = (6, 12, 24)
DEPTHS = (2, 4, 8)  # of what is nested
# By how much the order of sets may change a ratio, and how much deeper calls may stand in one
# another in a longer program.
SLACK = 1.03
SAME_DEPTH = 8


@dataclass(frozen=True)
class Law:
    """A law of growth: its name, and the work as a function of the size."""

    name: str
    of: Callable[[float], float]

    def ratio(self, sizes: Sequence[int]) -> float:
        return _ratio([self.of(size) for size in sizes])


NEARLY_LINEAR = Law("n log n", lambda n: n * log2(n))
QUADRATIC = Law("n^2", lambda n: n**2)
CUBIC = Law("n^3", lambda n: n**3)

Prepare = Callable[[int], Callable[[], Any]]


def of_shape(shape: str, prepare: Callable[[IRModule], Callable[[], Any]]) -> Prepare:
    """What is to be done to the programs of one shape."""
    return lambda size: prepare(SHAPES[shape](size))


def law_of(shape: str) -> Law:
    """By which law work may grow: where things are nested, each level may look at those inside."""
    return QUADRATIC if shape in NESTED else NEARLY_LINEAR


def check_growth(
    prepare: Prepare, shape: str, law: Law | None = None, sizes: Sequence[int] = (), deep: int = 0
) -> None:
    """Fail where work grows faster than its law, or calls stand deeper in longer programs.

    Unless they are nested themselves, or are known to be `deep`, but no deeper than that.
    """
    law = law or law_of(shape)
    sizes = sizes or (DEPTHS if shape in NESTED else SIZES)
    counted(prepare(sizes[0]))  # what is imported or cached the first time
    works = [counted(prepare(size)) for size in sizes]
    lines, depths = [work.lines for work in works], [work.depth for work in works]
    assert _ratio(lines) <= SLACK * law.ratio(sizes), (
        f"{shape}: the work at sizes {sizes} is {lines}, which grows faster than {law.name}"
    )
    assert shape in DEEPER or depths[-1] <= max(depths[0] + SAME_DEPTH, deep), (
        f"{shape}: calls stand {depths} deep in one another at sizes {sizes}"
    )


def _ratio(works: Sequence[float]) -> float:
    small, middle, large = works
    return (large - middle) / max(1.0, middle - small)
