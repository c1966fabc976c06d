"""Dropout, as TVM has it: without a random key there is nothing to draw from."""

import jax.numpy as jnp

from relaxjax.ir.expr import Expr
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.ops.declare import OpError, op


def _dropout_gradient(g: Expr, y: Expr, data: Expr, rate: float) -> Expr:
    return g[0] * y[1]


@op(
    "relax.nn.dropout",
    lower=lambda data, rate: (data, jnp.ones_like(data)),
    gradient=_dropout_gradient,
    precision="follow",
    fusion="elementwise",
)
def dropout(data: TensorType, rate: float = 0.5) -> TupleType:
    """`data` and the mask it was multiplied by. In inference, and so here, the mask is all ones."""
    if not 0 <= rate < 1:
        raise OpError(f"`rate` must be in [0, 1), found {rate}")
    return TupleType((data, data))
