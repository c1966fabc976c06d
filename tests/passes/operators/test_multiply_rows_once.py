"""Products of rows that are repeated, each of which is multiplied once."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions
from rewriting import check_kept

import relaxjax
from relaxjax.ir import Call, IRModule, Op
from relaxjax.ir.tensor_types import static_dims
from relaxjax.optim import Adam, Lazy
from relaxjax.passes import MultiplyRowsOnce, RaiseOps
from relaxjax.training import Trainer


def loss(body: str, rest: str = "", dtype: str = "float32", attr: str = "") -> str:
    return f"""
@R.function
def main(
    x: R.Tensor((8, 4), "{dtype}"), e: R.Tensor((40, 3), "{dtype}"), w: R.Tensor((7, 5), "{dtype}"),
    table: R.Tensor((8, 4), "{dtype}"), i: R.Tensor((40,), "int32"){rest}
):
    {attr}
    with R.dataflow():
        t = R.nn.relu(x)
        {body}
        R.output(y)
    return y
"""


U = ', u: R.Tensor((4, 2), "float32")'
D = ', d: R.Tensor((2, 40), "float32")'
LOOKUP = "v = R.take(t, i, axis=0)\n        c = R.concat((v, e), axis=-1)\n        "


def products(module: IRModule) -> list[tuple[int, ...]]:
    """The shapes of what is multiplied."""
    calls = [b.value for b in module["main"].body.bindings() if isinstance(b.value, Call)]
    found = [call for call in calls if isinstance(call.op, Op) and call.op.name == "relax.matmul"]
    return [static_dims(call.args[0].ty) or () for call in found]


def test_both_users_of_a_concatenation_multiply_each_row_once() -> None:
    body = LOOKUP + "a = R.matmul(c, w)\n        b = R.matmul(c, w)\n        y = R.add(a, b)"
    changed = MultiplyRowsOnce()(parse_functions(loss(body)))
    assert sorted(products(changed)) == [(8, 4), (8, 4), (40, 3), (40, 3)]
    assert "R.concat" not in changed.script()
    assert MultiplyRowsOnce()(changed) is changed


@pytest.mark.parametrize(
    "text",
    [
        loss(LOOKUP + "y = R.matmul(c, w)", dtype="float16"),
        loss(LOOKUP + "b = R.matmul(c, w)\n        y = (b, c)"),  # the rows are needed anyway
        loss(LOOKUP + "a = R.exp(c)\n        b = R.matmul(c, w)\n        y = (a, b)"),
        loss(LOOKUP + "y = R.matmul(c, u)", rest=', u: R.Tensor((7, 80), "float32")'),
        loss(LOOKUP + "b = R.matmul(c, w)\n        a = R.matmul(d, c)\n        y = (a, b)", rest=D),
        loss(
            "v = R.take(t, i, axis=0)\n        c = R.concat((v, v), axis=0)\n        "
            "y = R.matmul(c, u)",
            rest=U,
        ),
        loss(
            "v = R.take(t, j, axis=0)\n        y = R.matmul(v, u)",
            rest=', j: R.Tensor((9,), "int32"), u: R.Tensor((4, 2), "float32")',
        ),
        loss(
            "v = R.take(table, i, axis=0)\n        y = R.matmul(v, u)",
            rest=', u: R.Tensor((4, 2), "float32")',
            attr='R.func_attr({"num_input": 2})',
        ),
    ],
)
def test_products_that_stay(text: str) -> None:
    check_kept(MultiplyRowsOnce(), text)


Function = Callable[[jax.Array, jax.Array], jax.Array]


def test_tables_that_are_named_stay() -> None:
    module = parse_functions(
        loss("v = R.take(table, i, axis=0)\n        y = R.matmul(v, u)", rest=U)
    )
    assert products(MultiplyRowsOnce()(module)) == [(8, 4)]
    assert MultiplyRowsOnce(["table"])(module) is module


def test_a_lazy_optimizer_has_rows_of_small_tables() -> None:
    """It updates the rows that occur, and no others, though each occurs in many products."""
    places, w = jnp.arange(40) % 3, drawn(4, 2)

    def squares(params: dict[str, jax.Array], places: jax.Array) -> jax.Array:
        return ((params["table"][places] @ w) ** 2).mean()

    table = drawn(8, 4)
    trainer = Trainer.from_jax(squares, {"table": table}, Lazy(Adam(0.1)), places)
    trainer.fit([places], epochs=1)
    changed = (trainer.params["table"] != table).any(axis=1)
    assert changed.tolist() == [True] * 3 + [False] * 5


def seen(function: Function, *args: jax.Array) -> IRModule:
    return MultiplyRowsOnce()(RaiseOps()(relaxjax.from_jax(function, *args)))


def drawn(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape), jnp.float32)


PLACES = jnp.asarray(np.random.default_rng(0).integers(-9, 9, 40), jnp.int32)  # some lie outside
IN_BATCH = PLACES.reshape(4, 10) % 4


def by_edge(x: jax.Array, w: jax.Array) -> jax.Array:
    both = jnp.concatenate([x.at[PLACES].get(mode="fill", fill_value=0), jnp.sin(x)[PLACES % 8]], 1)
    return (both @ w).sum(1)


def by_pair(x: jax.Array, w: jax.Array) -> jax.Array:
    every = (8, 8, 3)
    one, other = (jnp.broadcast_to(a, every) for a in (x[:, None], jnp.cos(x)[None]))
    return (jnp.concatenate([one, other], -1) @ w).sum((1, 2))


def by_batch(x: jax.Array, w: jax.Array) -> jax.Array:
    found = jax.vmap(lambda rows, places: rows[places])(x, IN_BATCH)
    return (jnp.tanh(found @ w)).sum((1, 2))


@pytest.mark.parametrize(
    ("function", "x", "w", "multiplied"),
    [
        (by_edge, drawn(8, 3), drawn(6, 5), [(2, 3), (8, 3), (8, 3)]),
        (by_pair, drawn(8, 3), drawn(6, 5), [(1, 8, 3), (8, 1, 3)]),
        (by_batch, drawn(4, 4, 5), drawn(5, 3), [(4, 2, 5), (4, 4, 5)]),
    ],
)
def test_values_and_gradients_are_those_of_jax(
    function: Function, x: jax.Array, w: jax.Array, multiplied: list[tuple[int, ...]]
) -> None:
    assert sorted(products(seen(function, x, w))) == multiplied

    def total(x: jax.Array, w: jax.Array) -> jax.Array:
        return (function(x, w) ** 2).sum()

    wanted = jax.value_and_grad(total, (0, 1))(x, w)
    found = relaxjax.value_and_grad(total, argnums=(0, 1))(x, w)
    chex.assert_trees_all_close(found, wanted, rtol=2e-4)


def by_places_of_both(x: jax.Array, w: jax.Array) -> jax.Array:
    return x[PLACES[:, None] % 8, jnp.arange(3)] @ w


def by_part_of_a_window(x: jax.Array, w: jax.Array) -> jax.Array:
    found = jax.vmap(lambda place: jax.lax.dynamic_slice(x, (place, 0), (1, 2))[0])(PLACES % 8)
    return found @ w[:2]


def by_column(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.broadcast_to(x[:, :1], (40, 8, 3)) @ w


@pytest.mark.parametrize(
    ("function", "multiplied"),
    [
        (by_places_of_both, (40, 3)),
        (by_part_of_a_window, (40, 2)),
        (by_column, (40, 8, 3)),
    ],
)
def test_rows_that_are_made_of_columns_stay(
    function: Function, multiplied: tuple[int, ...]
) -> None:
    x, w = drawn(8, 3), drawn(3, 2)
    assert products(seen(function, x, w)) == [multiplied]


def test_rows_filled_with_other_numbers_stay() -> None:
    def filled(x: jax.Array, w: jax.Array) -> jax.Array:
        return x.at[PLACES].get(mode="fill", fill_value=2.0) @ w

    assert products(seen(filled, drawn(8, 3), drawn(3, 3))) == [(40, 3)]


OUTSIDE = jnp.asarray([0, 1, -9, 3, 5, -1, 9, 2], jnp.int32)  # of four rows


def by_row(x: jax.Array, w: jax.Array) -> jax.Array:
    return x[OUTSIDE] @ w


def by_row_of_each(x: jax.Array, w: jax.Array) -> jax.Array:
    found: jax.Array = jax.vmap(lambda rows, places: rows[places])(x[None], OUTSIDE[None])
    return found @ w


def by_two_places(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.reshape(x, (2, 2, 3))[OUTSIDE, OUTSIDE[::-1]] @ w


@pytest.mark.parametrize(
    ("function", "multiplied"),
    [
        (by_row, [(2, 3), (4, 3)]),
        (by_row_of_each, [(1, 2, 3), (1, 4, 3)]),
        (by_two_places, [(8, 3)]),  # stays: the row nearest to a place outside may be any one
    ],
)
def test_gradients_by_places_outside_are_those_of_jax(
    function: Function, multiplied: list[tuple[int, ...]]
) -> None:
    """Its lookup reads the nearest row, of which the weight has a gradient, and the table none."""

    def total(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.tanh(function(jnp.sin(x), w)).sum()

    x, w = drawn(4, 3), drawn(3, 2)
    assert sorted(products(seen(total, x, w))) == multiplied
    wanted = jax.value_and_grad(total, (0, 1))(x, w)
    found = relaxjax.value_and_grad(total, argnums=(0, 1))(x, w)
    chex.assert_trees_all_close(found, wanted, rtol=1e-4)
