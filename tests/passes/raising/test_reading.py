"""Where tensors lie along the axes of larger ones: what is repeated there is not what counts."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from parsing import parse_function
from quickly_compiled_programs import QUICK

import relaxjax
from relaxjax.ir.uses import Uses
from relaxjax.passes.raising.reading import Reading, View

WAVES = np.sin(np.arange(120, dtype="float32"))
ROWS = WAVES[:12].reshape(3, 4)
LABELS = np.array([1, 0, 3])
HEADS = WAVES.reshape(2, 5, 3, 4)


def attended(seen: Any) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        scores = jnp.where(seen, jnp.einsum("bqhd,bkhd->bhqk", x, x), -jnp.inf)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), x)

    return function


def seeing_the_first(x: Any) -> Any:
    return attended(jnp.arange(1)[:, None] >= jnp.arange(5))(x)


def seeing_all(x: Any) -> Any:
    return attended(jnp.arange(5)[:, None] >= jnp.arange(1))(x)


def picked_from_the_first_row(x: Any) -> Any:
    return jax.nn.log_softmax(x)[jnp.arange(1), LABELS]


def centred(x: Any) -> tuple[Any, Any]:
    low = x - jnp.mean(x, -1, keepdims=True)
    return low, lax.rsqrt(jnp.mean(low**2, -1, keepdims=True) + 1e-3)


def repeated_after_its_mean(both: Any) -> Any:
    x, scale = both[:1], both[1]
    spread = lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-3)
    return jnp.sum(jnp.broadcast_to(x, (5, 4)) * jnp.broadcast_to(spread, (5, 4)) * scale, 0)


def scaled_by_one_number(x: Any) -> Any:
    """As an array of one element, which operators of `lax` repeat by themselves."""
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-3) * jnp.sin(x[:1, :1])


def scaled_by_rows(x: Any) -> Any:
    return x * (lax.rsqrt(jnp.mean(x * x) + 1e-3) * jnp.sin(x[:, :1]))


def scaled_along_a_new_axis(x: Any) -> Any:
    low, inverse = centred(x)
    return (low * inverse)[:, :, None] * jnp.arange(1.0, 6.0)


def scaled_and_repeated(x: Any) -> Any:
    low, inverse = centred(x)
    shape = (3, 4, 5)
    return jnp.broadcast_to((low * inverse)[:, :, None], shape) * jnp.broadcast_to(
        jnp.arange(1.0, 5.0)[:, None], shape
    )


def reading_of(lines: list[str]) -> tuple[Reading, View]:
    """What a body of `lax` lines says of its last value."""
    body = "\n".join(f"        {line}" for line in lines)
    function = parse_function(f"""
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
{body}
        return {lines[-1].split()[0]}
    """)
    return Reading(Uses.of(function)), View.whole(function.body.body)


def test_a_product_has_eight_factors_at_most() -> None:
    """Read as a tree, one that is squared time and again has two to the power of the times."""
    reading, view = reading_of(["a = L.mul(x, y)", "b = L.mul(a, L.div(a, y))"])
    names = [str(factor.view.expr) for factor in reading.factors(view, quotients=True)]
    assert names == ["x", "y", "x", "y", "y"]
    inverted = [factor.inverted for factor in reading.factors(view, quotients=True)]
    assert inverted == [False, False, False, False, True]
    squares = ["s0 = L.mul(x, x)", *(f"s{i} = L.mul(s{i - 1}, s{i - 1})" for i in range(1, 40))]
    reading, view = reading_of(squares)
    assert len(reading.factors(view)) == 8
    halves = ["h0 = L.neg(x)", *(f"h{i} = L.neg(h{i - 1})" for i in range(1, 40))]
    reading, view = reading_of(halves)
    assert str(reading.multiple(view)[0].expr) == "h31"


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (seeing_the_first, HEADS),
        (seeing_all, HEADS),
        (picked_from_the_first_row, ROWS),
        (repeated_after_its_mean, ROWS[:2]),
        (scaled_by_one_number, ROWS),
        (scaled_by_rows, ROWS),
        (scaled_along_a_new_axis, ROWS),
        (scaled_and_repeated, ROWS),
    ],
)
def test_an_axis_of_one_element_that_is_repeated_is_no_other(
    function: Callable[..., Any], x: Any
) -> None:
    def loss(x: Any) -> Any:
        result = function(x)
        return jnp.sum(jnp.sin(result + jnp.linspace(0.0, 1.0, result.size).reshape(result.shape)))

    with jax.numpy_rank_promotion("allow"):
        ours, jaxs = relaxjax.value_and_grad(loss), jax.value_and_grad(loss)
        found = jax.jit(ours, compiler_options=QUICK)(x)
        expected = jax.jit(jaxs, compiler_options=QUICK)(x)
    chex.assert_trees_all_close(found, expected, rtol=2e-5, atol=2e-5)
