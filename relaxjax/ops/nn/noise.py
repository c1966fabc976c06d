"""Noise: drawn with a random key in training, and its mean in inference."""

from typing import Any

import jax.numpy as jnp

from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ir.op import ZERO_GRADIENT
from relaxjax.ir.types import TensorType, is_float
from relaxjax.ops.arrays import jax_dtype
from relaxjax.ops.conversions import DType
from relaxjax.ops.cost_rules import FILLS
from relaxjax.ops.creation import shaped
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.emit import call, scalar

# The distributions, and the mean of each.
_MEANS = {"normal": 0.0, "uniform": 0.5, "exponential": 1.0}


def _mean(shape: Any, distribution: str, dtype: str) -> Any:
    return jnp.full(shape, _MEANS[distribution], jax_dtype(dtype))


def _training_form(shape: Expr, distribution: str, dtype: str, key: Expr) -> Expr:
    if distribution != "exponential":
        return call(f"random.{distribution}", key, shape, dtype=dtype)
    u = call("random.uniform", key, shape, dtype=dtype)
    # Not 0, for a logarithm is taken of it at times.
    least = jnp.finfo(jax_dtype(dtype)).eps / 2  # type: ignore[no-untyped-call]  # JAX has no types for it
    return call("maximum", -call("log1p", -u), scalar(float(least), u))


@op(
    "relax.nn.noise",
    lower=_mean,
    gradient=ZERO_GRADIENT,
    training_form=_training_form,
    fusion="elementwise",
    cost=FILLS,
)
def noise(shape: ShapeExpr, distribution: str = "normal", dtype: DType = "float32") -> TensorType:
    """Random numbers; in inference, and so here, the mean of their distribution instead.

    `distribution` is normal, of mean 0 and variance 1, uniform, from 0 to 1, or exponential, of
    mean 1. In its training form each call draws numbers of its own.
    """
    if distribution not in _MEANS:
        raise OpError(
            f"`distribution` must be normal, uniform or exponential, found {distribution}"
        )
    if not is_float(dtype):
        raise OpError(f"`dtype` must be a float dtype, found {dtype}")
    return shaped(shape, dtype)
