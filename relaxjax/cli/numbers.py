"""Numbers on a command line, checked as they are read."""

import argparse
import math
from collections.abc import Callable


def positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    """An argument that must be a finite number above zero."""

    def number(text: str) -> float:
        value = kind(text)
        if not 0 < value < math.inf:
            limit = " and finite" if value > 0 else ""
            raise argparse.ArgumentTypeError(f"must be above zero{limit}, found {text}")
        return value

    number.__name__ = kind.__name__  # argparse names it where `text` is no number
    return number


def count(text: str) -> int:
    """An argument that must be an integer of at least 0."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, found {text}")
    return value


def share(text: str) -> float:
    """An argument that must be at least 0 and below 1."""
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 0 and below 1, found {text}")
    return value
