"""JAX's own derivatives of a lowering, for operators that have no better formula."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.op import GradientRule, get_op

from .lax.dialect import lax_op
from .lax.gradient import gradient_of
from .lax.tangent import pushforward


def traced_gradient(name: str) -> GradientRule:
    """The pullback of the operator `name`, traced into operators of the `lax` dialect."""
    return gradient_of(name, lax_op)


def traced_tangent(name: str) -> Callable[..., Expr]:
    """The pushforward of the operator `name`, traced into operators of the `lax` dialect."""

    def tangent(tangents: Sequence[Expr | None], y: Var, *args: Expr | None, **attrs: Any) -> Expr:
        return pushforward(get_op(name), lax_op, tangents, y, args, Attrs(attrs))

    return tangent


def differentiated_as(plain: Callable[..., Any], compute: Callable[..., Any]) -> Callable[..., Any]:
    """`compute`, whose derivatives are those of `plain`, which computes the same."""
    function = jax.custom_jvp(lambda *arrays: compute(*arrays))
    function.defjvp(lambda primals, tangents: jax.jvp(plain, primals, tangents))
    return function
