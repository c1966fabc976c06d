"""The linear recurrence, whose gradient is a linear recurrence that runs the other way."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.expr import Expr
from relaxjax.ir.types import TensorType

from .declare import op
from .emit import call, ndim_of
from .lowered_cost import LOWERED
from .shapes import normalize_axis, one_type


def shifted(x: Expr, axis: int, places: int) -> Expr:
    """The elements of `x` moved along `axis`, with zeros behind them; what leaves it is lost."""
    widths = [0] * (2 * ndim_of(x))
    axis = normalize_axis(axis, ndim_of(x))
    widths[2 * axis : 2 * axis + 2] = [places, -places]
    return call("nn.pad", x, widths)


def _linear_recurrence(a: Any, b: Any, axis: int, reverse: bool) -> Any:
    """In a logarithmic number of steps; one after another where the length is symbolic."""
    axis %= a.ndim
    if isinstance(a.shape[axis], int):
        return lax.associative_scan(_composed, (a, b), reverse=reverse, axis=axis)[1]

    def step(before: Any, factors: tuple[Any, Any]) -> tuple[Any, Any]:
        after = factors[0] * before + factors[1]
        return after, after

    rows = jnp.moveaxis(a, axis, 0), jnp.moveaxis(b, axis, 0)
    start = jnp.zeros(rows[0].shape[1:], a.dtype)
    return jnp.moveaxis(lax.scan(step, start, rows, reverse=reverse)[1], 0, axis)


def _composed(first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
    """Two steps y -> a * y + b as one."""
    return second[0] * first[0], second[0] * first[1] + second[1]


def _linear_recurrence_gradient(
    g: Expr, y: Expr, a: Expr, b: Expr, axis: int, reverse: bool
) -> tuple[Expr, Expr]:
    ahead = -1 if reverse else 1
    to_b = call("linear_recurrence", shifted(a, axis, -ahead), g, axis, reverse=not reverse)
    return to_b * shifted(y, axis, ahead), to_b


def _linear_recurrence_jvp(
    tangents: tuple[Expr | None, Expr | None], y: Expr, a: Expr, b: Expr, axis: int, reverse: bool
) -> Expr:
    of_a, of_b = tangents
    moved = None if of_a is None else of_a * shifted(y, axis, -1 if reverse else 1)
    parts = [part for part in (moved, of_b) if part is not None]
    total = parts[0] + parts[1] if len(parts) == 2 else parts[0]
    return call("linear_recurrence", a, total, axis, reverse=reverse)


@op(
    "relax.linear_recurrence",
    lower=_linear_recurrence,
    gradient=_linear_recurrence_gradient,
    jvp=_linear_recurrence_jvp,
    cost=LOWERED,
)
def linear_recurrence(
    a: TensorType, b: TensorType, axis: int = -1, reverse: bool = False
) -> TensorType:
    """The recurrence y[i] = a[i] * y[i - 1] + b[i] along `axis`, from zero on.

    A reversed one runs from the end: y[i] = a[i] * y[i + 1] + b[i].
    """
    found = one_type(a=a, b=b)
    if found.ndim >= 0:
        normalize_axis(axis, found.ndim)
    return found
