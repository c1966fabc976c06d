"""Distances of vectors, which lie along the last axis."""

import math

import numpy as np

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, np_dtype
from relaxjax.ops.binary import maximum
from relaxjax.ops.emit import dtype_of, scalar
from relaxjax.ops.statistical import max, sum
from relaxjax.ops.unary import abs, sqrt

from .base import widened


def distance(builder: BlockBuilder, a: Expr, b: Expr, p: float, eps: float) -> Expr:
    """The p-th root of the sum of |a - b + eps| ** p, in float32 for half precision.

    `eps` keeps equal vectors apart; where it does not, the derivative at zero is zero.
    """
    apart = builder.emit(abs(widened(builder, a) - widened(builder, b) + eps))
    if p == 1:
        return sum(apart, axis=-1)
    if math.isinf(p):
        return max(apart, axis=-1)
    total = builder.emit(sum(apart * apart if p == 2 else apart**p, axis=-1))
    least = scalar(float(np.finfo(np_dtype(dtype_of(total))).tiny), total)
    total = builder.emit(maximum(total, least))
    return sqrt(total) if p == 2 else total ** (1 / p)
