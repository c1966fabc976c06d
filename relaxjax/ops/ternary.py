"""Operators on three tensors of one shape."""

from relaxjax.ir.types import TensorType

from .cost_rules import per_element
from .declare import op
from .shapes import one_type


@op(
    "relax.ewise_fma",
    lower=lambda x1, x2, x3: x1 * x2 + x3,
    gradient=lambda g, y, x1, x2, x3: (g * x2, g * x1, g),
    precision="follow",
    fusion="elementwise",
    facts={"elementwise": True},
    cost=per_element(2),
)
def ewise_fma(x1: TensorType, x2: TensorType, x3: TensorType) -> TensorType:
    """Product and sum of three tensors of one shape: y = x1 * x2 + x3."""
    return one_type(x1=x1, x2=x2, x3=x3)
