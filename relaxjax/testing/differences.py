"""Slopes by differences, and how far they can be trusted."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, nan

_STEPS = 12
# Where a turn is sought, and how far apart these steps are.
_TURNS, _FINER = 4, 8


@dataclass(frozen=True)
class Slope:
    """A slope, and how far it may be off: by its own convergence, and by rounding."""

    value: float
    error: float


def slope_at_zero(
    along: Callable[[float], float], epsilon: float, size: float, enough: float
) -> Slope:
    """The slope at 0 of a function of one number that rounds numbers of a `size` to `epsilon`.

    Central differences over steps that are halved, with the powers of the step taken out that they
    still have in common: the estimate is the one that differs least from those it was made of. It
    is sought until its error is `enough` of it, or little but rounding.

    References:
        C. J. F. Ridders, Accurate computation of F'(x) and F'(x) F''(x), 1982.
    """
    best, before, step = Slope(nan, inf), list[float](), 8 * epsilon ** (1 / 3)
    for _ in range(_STEPS):
        row, rounding = [(along(step) - along(-step)) / (2 * step)], epsilon * size / step
        for order, coarser in enumerate(before, start=1):
            row.append(row[-1] + (row[-1] - coarser) / (4**order - 1))
            moved = max(abs(row[-1] - row[-2]), abs(row[-1] - coarser))
            error = moved + rounding
            if isfinite(error) and error < best.error:
                best = Slope(row[-1], error)
        if best.error <= max(enough * abs(best.value), 2 * rounding):
            break
        before, step = row, step / 2
    return best


def turn_at_zero(along: Callable[[float], float], epsilon: float) -> float:
    """How much a function's slope changes at 0, or within the steps that its slope is found by.

    Of a smooth function that is little; where it turns or jumps, no slope at 0 says anything.
    """
    steps: list[float] = [8 * epsilon ** (1 / 3) / _FINER**number for number in range(_TURNS)]
    middle = along(0.0)
    return max(abs(along(step) + along(-step) - 2 * middle) / step for step in steps)
