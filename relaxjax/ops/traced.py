"""Gradients by JAX's own derivative of a lowering, for operators that have no better formula."""

from relaxjax.ir.op import GradientRule

from .lax.dialect import lax_op
from .lax.gradient import gradient_of


def traced_gradient(name: str) -> GradientRule:
    """The pullback of the operator `name`, traced into operators of the `lax` dialect."""
    return gradient_of(name, lax_op)
