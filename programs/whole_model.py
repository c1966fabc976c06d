"""What the tests of whole models say of each: the model as a Relax program and in plain JAX."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType, TupleType, Type


@dataclass(frozen=True)
class WholeModel:
    """One model twice: both take `(*params, *inputs)` and give the loss, or a pair with it first.

    The parameters are arrays and nested tuples of them, to be differentiated by.
    """

    module: IRModule  # its function `main` is the model
    plain: Callable[..., Any]  # as one would write it for JAX, without relaxjax
    params: tuple[Any, ...]
    inputs: tuple[Any, ...]


class Weights:
    """A source of random parameters in one dtype, the same ones in each run."""

    def __init__(self, dtype: str, seed: int = 0) -> None:
        self._dtype = dtype
        self._random = np.random.default_rng(seed)

    def normal(self, *shape: int, fan_in: int = 1) -> Any:
        """Normally distributed, small enough that sums of `fan_in` products stay near 1."""
        return (self._random.normal(size=shape) / math.sqrt(fan_in)).astype(self._dtype)

    def around(self, center: float, *shape: int) -> Any:
        """Between 0.1 below and 0.1 above the center."""
        return (center + self._random.uniform(-0.1, 0.1, shape)).astype(self._dtype)

    def dense(self, inputs: int, outputs: int) -> tuple[Any, Any]:
        """The matrix and the bias of a layer."""
        return self.normal(inputs, outputs, fan_in=inputs), self.around(0, outputs)

    def kernel(self, outputs: int, inputs: int, size: int) -> Any:
        """The kernel of a convolution of images, in the layout OIHW."""
        return self.normal(outputs, inputs, size, size, fan_in=inputs * size * size)

    def ids(self, bound: int, *shape: int) -> Any:
        """Whole numbers from 0 to `bound`, which is not among them."""
        return self._random.integers(0, bound, shape).astype("int32")


def type_of(value: Any) -> Type:
    """The type of an array, or of nested tuples of them."""
    if isinstance(value, tuple):
        return TupleType(tuple(map(type_of, value)))
    return TensorType(value.shape, str(value.dtype))


def likelihood_loss(scores: Any, labels: Any) -> Any:
    """In plain JAX: the mean negative log likelihood of the labels; classes come last."""
    picked = jnp.take_along_axis(jax.nn.log_softmax(scores), labels[..., None], -1)
    return -jnp.mean(picked)
