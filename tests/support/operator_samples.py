"""Arguments on which the operators are tried out: the kinds of them, and the table by operator."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relaxjax.ir.expr import np_dtype

Shape = Sequence[int]


@dataclass(frozen=True)
class Array:
    """A tensor argument: its shape, its dtype, and how its elements are drawn."""

    shape: Shape
    dtype: str
    draw: Callable[[np.random.Generator, Shape], Any]

    def value(self, seed: int) -> np.ndarray[Any, Any]:
        drawn = self.draw(np.random.default_rng(seed), tuple(self.shape))
        return np.asarray(drawn).astype(np_dtype(self.dtype))


@dataclass(frozen=True)
class Sample:
    """One call of an operator. `smooth` says whether derivatives exist there."""

    args: tuple[Any, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    smooth: bool = True
    second_order: bool = True

    def seed(self, index: int) -> int:
        return zlib.crc32(repr((index, self.attrs)).encode())


def sample(*args: Any, smooth: bool = True, second_order: bool = True, **attrs: Any) -> Sample:
    return Sample(args, attrs, smooth, second_order)


def floats(*shape: int, dtype: str = "float64", low: float = -2, high: float = 2) -> Array:
    """Floats between two bounds, all different, none of them near an integer or a half."""

    def draw(random: np.random.Generator, shape: Shape) -> Any:
        count = int(np.prod(shape))
        places = random.permutation(count) + random.uniform(0.2, 0.8, count)
        spread = low + (high - low) * places / max(count, 1)
        near = np.abs(spread * 2 - np.round(spread * 2)) < 0.05
        return np.where(near, spread + 0.04, spread).reshape(shape)

    return Array(shape, dtype, draw)


def positive(*shape: int, dtype: str = "float64") -> Array:
    return floats(*shape, dtype=dtype, low=0.3, high=2.5)


def inner(*shape: int, dtype: str = "float64") -> Array:
    """Floats well inside (-1, 1)."""
    return floats(*shape, dtype=dtype, low=-0.8, high=0.8)


def integers(*shape: int, low: int = 0, high: int = 4, dtype: str = "int32") -> Array:
    """Integers from `low` on and below `high`."""
    return Array(shape, dtype, lambda random, shape: random.integers(low, high, shape))


def bools(*shape: int) -> Array:
    return Array(shape, "bool", lambda random, shape: random.integers(0, 2, shape))


def exactly(values: Any, dtype: str = "float64") -> Array:
    """An array of given elements."""
    given = np.asarray(values)
    return Array(given.shape, dtype, lambda random, shape: given)


@dataclass(frozen=True)
class Dims:
    """A shape argument."""

    values: tuple[int, ...]


def dims(*values: int) -> Dims:
    return Dims(values)
