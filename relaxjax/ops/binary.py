"""Binary operators: arithmetic, comparison, logic and bits, all with numpy's broadcasting.

Gradient rules give the adjoint in the broadcast shape: the Gradient pass sums it back, once for all.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.expr import Expr, const
from relaxjax.ir.op import ZERO_GRADIENT, GradientRule, NoGradient, Op
from relaxjax.ir.registry import get_op
from relaxjax.ir.types import TensorType

from .declare import op
from .shapes import broadcast, common_dtype


def arithmetic(
    name: str,
    lower: Callable[..., Any],
    doc: str,
    gradient: GradientRule | NoGradient | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Op:
    """An operator on two tensors of one dtype, which is also the dtype of the result."""

    def infer(x1: TensorType, x2: TensorType) -> TensorType:
        return broadcast(x1, x2, common_dtype(x1=x1, x2=x2))

    infer.__doc__ = doc
    return op(f"relax.{name}", lower=lower, gradient=gradient, facts=facts)(infer)


def comparison(name: str, lower: Callable[..., Any], doc: str) -> Op:
    """An operator on two tensors of one dtype with a result of dtype bool."""

    def infer(x1: TensorType, x2: TensorType) -> TensorType:
        common_dtype(x1=x1, x2=x2)
        return broadcast(x1, x2, "bool")

    infer.__doc__ = doc
    return op(f"relax.{name}", lower=lower, gradient=ZERO_GRADIENT)(infer)


def where(condition: Expr, x1: Expr, x2: Expr) -> Expr:
    return get_op("relax.where")(condition, x1, x2)


def zero_like(x: Expr) -> Expr:
    """The scalar zero of a tensor's dtype."""
    assert isinstance(x.ty, TensorType)
    return const(0, x.ty.dtype)


def _multiply_gradient(g: Expr, z: Expr, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    return g * y, g * x


def _divide_gradient(g: Expr, z: Expr, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    return g / y, -(g * z / y)


def _power_gradient(g: Expr, z: Expr, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    return g * (y * x ** (y - 1)), g * (z * get_op("relax.log")(x))


def _maximum_gradient(g: Expr, z: Expr, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    return where(x < y, zero_like(g), g), where(x >= y, zero_like(g), g)


def _minimum_gradient(g: Expr, z: Expr, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    return where(x >= y, zero_like(g), g), where(x < y, zero_like(g), g)


add = arithmetic(
    "add", jnp.add, "Sum: z = x + y.", lambda g, z, x, y: (g, g), {"unit": 0, "commutative": True}
)
subtract = arithmetic(
    "subtract", jnp.subtract, "Difference: z = x - y.", lambda g, z, x, y: (g, -g), {"right_unit": 0}
)
multiply = arithmetic(
    "multiply",
    jnp.multiply,
    "Product: z = x * y.",
    _multiply_gradient,
    {"unit": 1, "zero": 0, "commutative": True},
)
