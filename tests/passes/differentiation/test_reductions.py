"""Folds by functions of several tensors, differentiated."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import relaxjax
from relaxjax import from_jax, to_jax
from relaxjax.ir import SymbolicVar, TensorType
from relaxjax.passes import Gradient, Jvp

X = np.cos(np.arange(18.0, dtype="float32")).reshape(2, 3, 3)
W = np.linspace(0.5, 2.0, 6, dtype="float32").reshape(2, 3)


def by_each(x: Any) -> Any:
    """A sum, a product, a maximum and a minimum, each by itself, from starts that count."""
    operands = (x, x * 0.9, x, x * x)
    starts = tuple(map(np.float32, (0.5, 0.7, 0.1, 0.2)))

    def combine(left: Any, right: Any) -> Any:
        (a, b, c, d), (e, f, g, h) = left, right
        return e + a, b * f, lax.max(c, g), lax.min(h, d)

    total, product, most, least = lax.reduce(operands, starts, combine, (1,))
    return jnp.sum((total + product * most - least) * W)


def by_each_in_jax(x: Any) -> Any:
    """As JAX differentiates it: its derivative of `lax.reduce` takes starts for neutral."""
    total, product = 0.5 + jnp.sum(x, 1), 0.7 * jnp.prod(x * 0.9, 1)
    most, least = jnp.max(x, 1, initial=0.1), jnp.min(x * x, 1, initial=0.2)
    return jnp.sum((total + product * most - least) * W)


def by_place(x: Any) -> Any:
    """The largest elements and where they are, the first of equals, along two axes."""

    def larger(left: Any, right: Any) -> Any:
        is_left = left[0] >= right[0]
        return tuple(map(lambda a, b: lax.select(is_left, a, b), left, right))

    places = lax.broadcasted_iota("int32", x.shape, 1)
    first = lax.reduce((x, places), (-np.inf, np.int32(-1)), larger, (2, 1))
    return jnp.sum(first[0] * (1 + first[1]).astype("float32"))


def by_place_in_jax(x: Any) -> Any:
    rows = x.reshape(2, -1)
    places = jnp.argmax(rows, 1)
    return jnp.sum(jnp.max(rows, 1) * (1 + places // 3).astype("float32"))


def composed(x: Any) -> Any:
    """Affine functions after each other, which do not commute."""

    def after(left: Any, right: Any) -> Any:
        return left[0] * right[0], left[1] * right[0] + right[1]

    slope, offset = lax.reduce((x, x * x), (np.float32(1), np.float32(0)), after, (1,))
    return jnp.sum((slope + offset) * W)


def composed_in_jax(x: Any) -> Any:
    slope, offset = jnp.ones((2, 3)), jnp.zeros((2, 3))
    for row in jnp.unstack(x, axis=1):
        slope, offset = slope * row, offset * row + row * row
    return jnp.sum((slope + offset) * W)


def test_each_by_one_primitive() -> None:
    """As sums, products and extremes: none is spread over calls."""
    found = relaxjax.value_and_grad(by_each)
    chex.assert_trees_all_close(
        jax.jit(found)(X), jax.jit(jax.value_and_grad(by_each_in_jax))(X), rtol=1e-5
    )
    assert "L.reduce_prod" in found.module(X).script()


@pytest.mark.parametrize(
    ("fold", "in_jax"), [(by_place, by_place_in_jax), (composed, composed_in_jax)]
)
def test_several_together(fold: Any, in_jax: Any) -> None:
    ours, theirs = (jax.jit(f) for f in (relaxjax.value_and_grad(fold), jax.value_and_grad(in_jax)))
    for x in (X, X[:, :1]):
        chex.assert_trees_all_close(ours(x), theirs(x), rtol=1e-5)


def test_the_first_of_equals() -> None:
    chex.assert_trees_all_close(
        jax.jit(relaxjax.grad(by_place))(np.ones((1, 3, 3), "float32")),
        np.eye(1, 9, dtype="float32").reshape(1, 3, 3),
    )


def test_nothing_is_folded() -> None:
    empty = X[:, :0]
    chex.assert_trees_all_close(jax.jit(relaxjax.value_and_grad(composed))(empty), (W.sum(), empty))


def test_tangents() -> None:
    moved = jax.jit(to_jax(Jvp("main")(from_jax(composed, X)), "main_jvp"))(X, W[:, None] * X)
    expected = jax.jit(lambda *dx: jax.jvp(composed_in_jax, (X,), dx))(W[:, None] * X)
    chex.assert_trees_all_close(moved, expected, rtol=1e-4)


def test_an_unknown_number_has_no_gradient() -> None:
    def rows(x: Any) -> Any:
        sums = lax.reduce((x, x), (0.0, 0.0), lambda a, b: (a[0] + b[0], a[1] + b[1]), (0,))
        return sums[0][0] * sums[1][0]

    module = from_jax(rows, TensorType((SymbolicVar("n"), 3), "float32"))
    with pytest.raises(ValueError, match=r"no gradient is known for:\n.*lax.reduce"):
        Gradient("main")(module)


@jax.custom_jvp
def joined(a: Any, b: Any) -> Any:
    return a + b + a * b


@joined.defjvp
def _joined_tangent(values: Any, tangents: Any) -> Any:
    (a, b), (da, db) = values, tangents
    return joined(a, b), (1 + b) * da + (1 + a) * db + a * b * (da + db)


@pytest.mark.parametrize(("combine", "start"), [(joined, 0.0), (jnp.logaddexp, -np.inf)])
def test_the_function_may_have_a_derivative_of_its_own(combine: Any, start: float) -> None:
    """That of the body was taken in the place of a user's rule, and JAX's functions were refused.

    Rules are ones of scalars: they are called on arrays.
    """

    def folded(x: Any) -> Any:
        return jnp.sum(lax.reduce(x, np.float32(start), combine, (2, 0)) ** 2)

    x = X[:, :, :1] if combine is joined else X  # the rule goes by the order
    chex.assert_trees_all_close(to_jax(from_jax(folded, x), "main")(x), folded(x), rtol=1e-6)
    expected = jax.value_and_grad(folded)(x)
    chex.assert_trees_all_close(relaxjax.value_and_grad(folded)(x), expected, rtol=1e-5)
    empty = X[:, :0]
    chex.assert_trees_all_close(relaxjax.grad(folded)(empty), empty)
