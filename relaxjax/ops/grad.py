"""Operators that only backward programs use, and marks that steer differentiation."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from relaxjax.ir.expr import Expr
from relaxjax.ir.op import ZERO_GRADIENT, GradientRule, NoGradient, Op
from relaxjax.ir.types import TensorType, Type

from .cost_rules import MOVES, VIEWS
from .declare import op, sugar
from .emit import call
from .index import gather_slices, taken_type
from .rearranging import LIKE_DATA
from .refused import refusing, why_refused
from .shapes import require_adjoint


def mark(
    name: str,
    doc: str,
    gradient: GradientRule | NoGradient | None,
    lower: Callable[[Any], Any] = lambda input: input,
    **facts: Any,
) -> Op:
    """An operator whose value is its argument, of any type.

    It has further facts, such as that it `steers`: then it stays in legalised programs, where
    `lower` cannot say in `lax` how it is differentiated.
    """

    def infer(input: Expr) -> Type:
        assert input.ty is not None
        return input.ty

    infer.__doc__ = doc
    return op(
        f"relax.grad.{name}",
        layout=LIKE_DATA,
        lower=lower,
        gradient=gradient,
        precision="follow",
        fusion="elementwise",
        facts={"identity": True, **facts},
        cost=VIEWS,
    )(infer)


def _varies(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and bool(jnp.issubdtype(leaf.dtype, jnp.inexact))


def _stopped(input: Any) -> Any:
    return jax.tree.map(lambda leaf: lax.stop_gradient(leaf) if _varies(leaf) else leaf, input)


no_grad = mark("no_grad", "`input`, through which no gradient flows.", ZERO_GRADIENT, _stopped)
closed_over = mark(
    "closed_over",
    "`input`, by which nothing can be differentiated: a rule for the rest leaves it out.",
    None,
    refusing("closed_over"),
    steers=True,
    instead=why_refused("closed_over"),
)
deepest_rule = mark(
    "deepest_rule",
    "`input`, of which a function takes no further derivative: its rules go on and on.",
    None,
    refusing("deepest_rule"),
    steers=True,
    instead=why_refused("deepest_rule"),
)
start_checkpoint = mark(
    "start_checkpoint",
    "`input`, from which on the forward values are recomputed for the backward program.",
    lambda g, y, input: g,
)
end_checkpoint = mark(
    "end_checkpoint",
    "`input`, up to which the forward values are recomputed for the backward program.",
    lambda g, y, input: g,
)


def _take_backward(output_grad: Any, x: Any, indices: Any, axis: int | None) -> Any:
    """The transpose of the gather, for any axis and any rank of the places."""
    gather = functools.partial(gather_slices, indices=indices, axis=axis)
    (spread,) = jax.linear_transpose(gather, jax.ShapeDtypeStruct(x.shape, x.dtype))(output_grad)
    return spread


def _take_backward_gradient(
    g: Expr, y: Expr, output_grad: Expr, x: Expr, indices: Expr, axis: int | None
) -> tuple[Expr, None, None]:
    return call("take", g, indices, axis=axis), None, None


@op("relax.grad.take_backward", lower=_take_backward, gradient=_take_backward_gradient, cost=MOVES)
def take_backward(
    output_grad: TensorType, x: TensorType, indices: Expr, axis: int | None = None
) -> TensorType:
    """The adjoint of `x` in take: slices of `output_grad` added up at `indices` along `axis`."""
    require_adjoint(output_grad, taken_type(x, indices, axis))
    return x


@sugar("relax.grad.take_backward")
def take_backward_as_printed(
    output_grad: Expr, x: Expr, indices: Expr, axis: int | None = None, mode: str = ""
) -> Expr:
    """TVM prints a `mode` that says nothing, and that its own parser refuses."""
    return take_backward(output_grad, x, indices, axis)
