"""What the benchmark of operators says of each case: once in Relax and once in plain JAX."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from relaxjax.ir.expr import Expr

Draw = Callable[[np.random.Generator], Any]


@dataclass(frozen=True)
class Case:
    """One operator at one size: both forms take the same arrays and give one."""

    name: str
    relax: Callable[..., Expr] | str  # or a script, whose `main` it is
    plain: Callable[..., Any]
    draws: tuple[Draw, ...]
    differentiable: bool = True

    def values(self) -> list[Any]:
        random = np.random.default_rng(0)
        return [draw(random) for draw in self.draws]


def floats(*shape: int, scale: float = 1.0, center: float = 0.0, dtype: str = "float32") -> Draw:
    return lambda random: jnp.asarray(center + scale * random.normal(size=shape), dtype)


def ids(bound: int, *shape: int) -> Draw:
    return lambda random: random.integers(0, bound, shape).astype("int32")
