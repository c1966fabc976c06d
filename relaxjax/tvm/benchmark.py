"""How long a call takes, measured as TVM's programs ask for it."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from .nd import unwrapped


@dataclass(frozen=True)
class BenchmarkResult:
    """The seconds that one call took, on the average of each repetition."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        return min(self.results)

    @property
    def max(self) -> float:
        return max(self.results)

    @property
    def std(self) -> float:
        return statistics.pstdev(self.results)

    def __str__(self) -> str:
        figures = {name: getattr(self, name) for name in ("mean", "median", "max", "min", "std")}
        return ", ".join(f"{name} {value * 1e3:.4f} ms" for name, value in figures.items())


def measured(
    call: Callable[[], Any], number: int, repeat: int, min_repeat_ms: float
) -> BenchmarkResult:
    """Call `number` times, `repeat` times over, after one call that may compile.

    The calls of a repetition become more until it takes `min_repeat_ms`.
    """
    for name, value in (("number", number), ("repeat", repeat)):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1, found {value}")
    _seconds(call, 1)
    results: list[float] = []
    while len(results) < repeat:
        seconds = _seconds(call, number)
        if seconds * 1e3 < min_repeat_ms:
            number *= 2
        else:
            results.append(seconds / number)
    return BenchmarkResult(tuple(results))


def _seconds(call: Callable[[], Any], number: int) -> float:
    """How long some calls take, until their results are there."""
    start = time.perf_counter()
    result = None
    for _ in range(number):
        result = call()
    jax.block_until_ready(unwrapped(result))
    return time.perf_counter() - start
