"""Dropout: nothing in inference, a mask drawn with a random key in training."""

import jax.numpy as jnp

from relaxjax.ir.expr import Expr, Tuple
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.ops.cost_rules import MOVES
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.emit import call, scalar, shape_of, where
from relaxjax.ops.rearranging import LIKE_DATA


def _dropout_gradient(g: Expr, y: Expr, data: Expr, rate: float) -> Expr:
    return g[0] * y[1]


def _training_form(data: Expr, rate: float, key: Expr) -> Expr:
    """What is kept is scaled up, so that the mean stays; the backward program reuses the mask."""
    kept = call("random.bernoulli", key, 1 - rate, shape_of(data))
    mask = where(kept, scalar(1 / (1 - rate), data), scalar(0, data))
    return Tuple((data * mask, mask))


@op(
    "relax.nn.dropout",
    layout=LIKE_DATA,
    lower=lambda data, rate: (data, jnp.ones_like(data)),
    gradient=_dropout_gradient,
    training_form=_training_form,
    inference=lambda data, rate: Tuple((data, call("ones_like", data))),
    precision="follow",
    fusion="elementwise",
    cost=MOVES,
)
def dropout(data: TensorType, rate: float = 0.5) -> TupleType:
    """`data` and the mask it was multiplied by. In inference, and so here, the mask is all ones.

    In its training form, elements are zeroed with the probability `rate`, and the others divided by
    1 - rate.
    """
    if not 0 <= rate < 1:
        raise OpError(f"`rate` must be in [0, 1), found {rate}")
    return TupleType((data, data))
