"""Functions written in JAX among the rules."""

from collections.abc import Callable
from typing import Any

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr
from relaxjax.ops.jax_functions import call_jax


def traced(function: Callable[..., Any], *args: Expr) -> Expr:
    """The results of a function of JAX, bound once: a loop in it is defined where it stands."""
    return BlockBuilder.current().emit(call_jax(function, *args))
