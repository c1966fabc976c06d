"""Numbers that lie where a slope jumps by how they are made are computed once for it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from parsing import parse_flow

import relaxjax
from relaxjax.passes import Gradient

H = "h = R.multiply(x, b)"


def once_of(*lines: str) -> list[str]:
    """What the backward program of some lines computes once; `y` is summed."""
    mod = parse_flow("\n".join([*lines, "gv = R.sum(y)"]), x=(4, 8), b=(8,))
    adjoint = str(Gradient("main", lazy=True)(mod)["main_adjoint"].script())
    return [
        line.partition("R.grad.once(")[2][:-1] for line in adjoint.splitlines() if "once" in line
    ]


TURNS = [
    "R.nn.relu(d)",
    "R.nn.leakyrelu(d)",
    "R.nn.prelu(d, b)",
    "R.nn.selu(d)",
    "R.abs(d)",
    "R.clip(d, R.prim_value(0.0), R.prim_value(6.0))",
    'R.maximum(d, R.const(0, "float32"))',
    'R.minimum(d, R.const(0, "float32"))',
    "R.linalg.norm(d, axis=[1])",
]


@pytest.mark.parametrize("turn", TURNS)
def test_a_difference_from_the_median_is_computed_once_for_a_slope_that_jumps(turn: str) -> None:
    made = (H, "m = R.median(h, axis=[0], keepdims=True)", "d = R.subtract(h, m[0])")
    assert once_of(*made, f"y = {turn}") == ["d"]


@pytest.mark.parametrize(
    "chosen",
    [
        "R.flip(h, axis=1)",
        "R.sort(h, axis=1)",
        "R.broadcast_to(R.strided_slice(h, axes=[1], begin=[0], end=[1]), (4, 8))",
        "R.reshape(R.nn.max_pool1d(R.reshape(h, (1, 4, 8)), [3], padding=[1, 1]), (4, 8))",
        "R.negative(R.take(h, R.arange(8), axis=1))",
        "R.cumsum(h, axis=1)",
        'R.scatter_elements(R.zeros_like(h), R.zeros((4, 8), "int64"), h, reduction="max")',
    ],
)
def test_elements_may_be_chosen_in_many_ways(chosen: str) -> None:
    found = once_of(H, f"m = {chosen}", "d = R.add(h, m)", "y = R.abs(d)")
    assert found[0] == "d"  # before what rules of their own compute once


def test_a_mean_may_be_of_one_element_each() -> None:
    wide = "w = R.expand_dims(h, axis=[2])"
    mean = "m = R.mean(w, axis=[2], keepdims=True)"
    assert once_of(H, wide, mean, "d = R.subtract(w, m)", "y = R.nn.relu(d)") == ["d"]


def test_pairs_of_one_vector_meet_on_the_diagonal() -> None:
    rows, columns = "R.expand_dims(h, axis=[1])", "R.expand_dims(h, axis=[2])"
    assert once_of(H, f"d = R.subtract({rows}, {columns})", "y = R.abs(d)") == ["d"]


def test_what_is_computed_of_them_may_lie_there_too() -> None:
    lines = (H, "d = R.subtract(h, R.flip(h, axis=0))", "s = R.add(R.multiply(d, b), b)")
    assert once_of(*lines, "y = R.nn.relu(s)") == ["s"]


def test_an_answer_is_computed_once_where_a_choice_is_made_by_it() -> None:
    lines = (H, "is_first = R.greater(h, R.flip(h, axis=1))")
    assert once_of(*lines, "y = R.where(is_first, h, x)") == ["is_first"]


def test_one_value_serves_all_slopes_that_jump_there() -> None:
    lines = (H, "d = R.subtract(h, R.flip(h, axis=0))")
    assert once_of(*lines, "y = R.add(R.abs(d), R.nn.relu(d))") == ["d"]


@pytest.mark.parametrize(
    "lines",
    [
        ("y = R.nn.relu(R.add(h, b))",),
        ("y = R.nn.relu(R.subtract(h, R.mean(h, axis=[0])))",),
        ("y = R.multiply(R.nn.relu(R.flip(h, axis=0)), h)",),
        ("y = R.exp(R.subtract(h, R.flip(h, axis=0)))",),
        ("p = R.matmul(R.subtract(h, R.flip(h, axis=0)), R.permute_dims(x))", "y = R.nn.relu(p)"),
        ("y = R.nn.relu(R.multiply(R.nn.relu(R.flip(h, axis=1)), R.flip(h, axis=0)))",),
    ],
)
def test_others_lie_there_by_chance(lines: tuple[str, ...]) -> None:
    assert once_of(H, *lines) == []


def test_values_meet_far_behind_their_origin_until_a_product_mixes_them() -> None:
    sums = [f"h{i + 1} = R.multiply(h{i}, R.flip(h{i}, axis=0))" for i in range(40)]
    mixed = ["p = R.matmul(h40, R.ones((8, 8), 'float32'))"]
    lines = ["h0 = R.multiply(x, b)", "f = R.flip(h0, axis=0)", *sums, *mixed]
    assert once_of(*lines, "d = R.subtract(h40, f)", "y = R.abs(d)") == ["d"]
    assert once_of(*lines, "d = R.subtract(p, f)", "y = R.abs(d)") == []


def test_a_loss_in_jax_is_looked_at_like_one_in_relax() -> None:
    def loss(x: jax.Array) -> jax.Array:
        h = x * jnp.sum(x)
        d = h - jnp.max(h, axis=0, keepdims=True)
        return jnp.sum(jax.nn.relu(d)) + jnp.sum(jnp.where(d > 0, d, 2 * d)) + jnp.sum(abs(d))

    mod = relaxjax.from_jax(loss, jnp.ones((4, 8)))
    text = str(Gradient("main")(mod)["main_adjoint"].script())
    assert text.count("R.grad.once") == 3  # the difference, the answer, and what has a maximum


def _largest_by_a_loop(h: jax.Array) -> Any:
    return jax.lax.fori_loop(1, 8, lambda i, most: jnp.maximum(most, h[:, i]), h[:, 0])


def _largest_of_rows(h: jax.Array) -> Any:
    return jax.lax.scan(lambda carry, row: (carry, jnp.max(row)), 0.0, h)[1]


def _largest_in_a_branch(h: jax.Array) -> Any:
    return jax.lax.cond(h[0, 0] > 0, lambda: jnp.max(h, axis=1), lambda: h[:, 0])


@pytest.mark.parametrize("chosen", [_largest_by_a_loop, _largest_of_rows, _largest_in_a_branch])
def test_a_loop_or_a_branch_may_choose_as_well(chosen: Callable[[jax.Array], jax.Array]) -> None:
    def loss(x: jax.Array) -> jax.Array:
        h = x * jnp.sum(x)
        return jnp.sum(jax.nn.relu(h - chosen(h)[:, None]))

    mod = relaxjax.from_jax(loss, jnp.ones((4, 8)))
    text = str(Gradient("main")(mod)["main_adjoint"].script())
    assert text.count("R.grad.once") == 2  # the difference, and what has a maximum
