"""Products of reflections, and matrices as stacks of several axes."""

from collections.abc import Sequence
from typing import Any

from jax import lax
from jax import numpy as jnp

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import dims_of, ndim_of
from relaxjax.ops.shapes import element_count

from .complex_numbers import is_complex
from .matrices import inv, solve
from .shapes import permute, place_of, shaped
from .table import aten, traced


def _reflected(columns: Any, scales: Any) -> Any:
    """The first columns of the product of all I - scale * v * v', the last of which comes first.

    Each v is what lies below the diagonal in its column, with 1 on it.
    """
    rows, count = columns.shape[-2], scales.shape[-1]
    one = jnp.eye(rows, columns.shape[-1], dtype=columns.dtype)
    start = jnp.broadcast_to(one, columns.shape)
    vectors = jnp.tril(columns, -1) + start

    def step(found: Any, given: tuple[Any, Any]) -> tuple[Any, None]:
        vector, scale = given
        along = jnp.einsum("...i,...ij->...j", vector, found)
        return found - scale[..., None, None] * vector[..., :, None] * along[..., None, :], None

    each = jnp.moveaxis(vectors[..., :count], -1, 0), jnp.moveaxis(scales, -1, 0)
    return lax.scan(step, start, each, reverse=True)[0]


@aten("linalg_householder_product.default")
def householder_product(input: Expr, tau: Expr) -> Expr:
    if is_complex(input):
        raise ValueError("reflections of complex numbers are not there here")
    return traced(_reflected, input, tau)


@aten("orgqr.default")
def orgqr(self: Expr, input2: Expr) -> Expr:
    return householder_product(self, input2)


@aten("linalg_tensorinv.default")
def tensorinv(self: Expr, ind: int = 2) -> Expr:
    """The inverse of the matrix whose rows are the first axes."""
    sizes = dims_of(self)
    rows = element_count(sizes[:ind])
    return shaped(inv(shaped(self, [rows, rows])), [*sizes[ind:], *sizes[:ind]])


@aten("linalg_tensorsolve.default")
def tensorsolve(self: Expr, other: Expr, dims: Sequence[int] | None = None) -> Expr:
    """The solution whose axes are the last ones of a matrix as a tensor."""
    ndim = ndim_of(self)
    moved = [place_of(dim, ndim) for dim in dims or []]
    matrix = permute(self, [*(axis for axis in range(ndim) if axis not in moved), *moved])
    sizes, count = dims_of(matrix)[ndim_of(other) :], element_count(dims_of(other))
    found = solve(shaped(matrix, [count, count]), shaped(other, [count]))
    return shaped(found, sizes)
