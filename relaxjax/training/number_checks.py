"""Numbers of steps, epochs and classes, and amounts, as a user gives them."""

import math
import operator
from numbers import Real
from typing import Any


def is_count(value: Any, least: float) -> bool:
    """Whether it is an integer of at least so much; True is none, though Python counts it 1."""
    try:
        return not isinstance(value, bool) and operator.index(value) >= least
    except TypeError:
        return False


def check_batches(count: Any) -> None:
    """Raise where a number of stacked batches is none."""
    if count is not None and not is_count(count, -math.inf):
        raise TypeError(f"`count` must be an integer, a number of batches, but it is {count!r}")


def is_amount(value: Any) -> bool:
    """Whether it is a number of at least 0."""
    return isinstance(value, Real) and 0 <= float(value) < math.inf


def check_every(every: Any) -> None:
    """Raise where a callback is to look at no number of steps."""
    if not is_count(every, 0):
        raise ValueError(
            f"`every` must be a number of steps, or 0 for no single steps, but it is {every!r}"
        )
