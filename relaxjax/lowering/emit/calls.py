"""Calls of the lax dialect as calls of JAX's public functions."""

from collections.abc import Sequence

import jax

from relaxjax.ir.expr import Call
from relaxjax.ir.op import Op
from relaxjax.lowering.interpreter import LoweringError

from .forms import FORMS
from .functions import bound_text, function_text
from .literals import SymbolName
from .operators import operator_text
from .writing import Operand, Writing


def call_text(expr: Call, operands: Sequence[Operand], symbol: SymbolName) -> str:
    """A call of an operator of the dialect as Python that means just the same.

    The first of these that can be written: an operator of Python, a form of its own, the function
    of the primitive's name, the primitive bound.
    """
    assert isinstance(expr.op, Op)
    name = expr.op.name.removeprefix("lax.")
    writing = Writing(name, operands, expr.attrs, expr.ty, symbol)
    for form in (operator_text, FORMS.get(name, function_text), function_text, bound_text):
        text = form(writing)
        if text is not None:
            return text
    raise LoweringError(
        f"`{expr.op.name}` has no public name in JAX {jax.__version__}, "
        "so it cannot be written as plain JAX"
    )
