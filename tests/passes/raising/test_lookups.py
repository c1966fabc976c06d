"""Rows that are looked up under `jax.vmap`: by their numbers, and trained by rows."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import relaxjax
from relaxjax import Trainer
from relaxjax.optim import Adam, Lazy
from relaxjax.passes import EliminateCommonSubexpr, FoldConstant, RaiseOps

IDS = np.array([3, 3, 1, -1, 6, 9, -12, 0], "int32")  # some counted from the back, some outside


def table(*dims: int) -> Any:
    return np.random.default_rng(0).normal(size=dims).astype("float32")


def by_index(table: Any, ids: Any) -> Any:
    return jax.vmap(lambda i: table[i])(ids)


def by_two(table: Any, ids: Any) -> Any:
    return jax.vmap(jax.vmap(lambda i: table[i]))(ids.reshape(4, 2))


def by_dynamic_index(table: Any, ids: Any) -> Any:
    return jax.vmap(lambda i: lax.dynamic_index_in_dim(table, i, keepdims=False))(ids)


def by_dynamic_slice(table: Any, ids: Any) -> Any:
    sizes = (1, *table.shape[1:])
    return jax.vmap(lambda i: lax.dynamic_slice(table, (i, *([0] * (table.ndim - 1))), sizes))(ids)


def two_rows(table: Any, ids: Any) -> Any:
    return jax.vmap(lambda i: lax.dynamic_slice(table, (i, 0), (2, table.shape[1])))(ids)


def columns(table: Any, ids: Any) -> Any:
    return jax.vmap(lambda i: lax.dynamic_index_in_dim(table, i, axis=1))(ids)


Lookup = Callable[[Any, Any], Any]


def raised(lookup: Lookup, table: Any) -> str:
    mod = relaxjax.from_jax(lookup, table, IDS)
    for one in (FoldConstant(), EliminateCommonSubexpr(), RaiseOps()):
        mod = one(mod)
    return mod.script()


@pytest.mark.parametrize("dims", [(7, 4), (7, 2, 3)])
@pytest.mark.parametrize("lookup", [by_index, by_two, by_dynamic_index, by_dynamic_slice])
def test_rows_are_looked_up_by_their_number_alone(lookup: Lookup, dims: tuple[int, ...]) -> None:
    given = table(*dims)
    text = raised(lookup, given)
    assert '"start_index_map": [0]' in text
    assert "concatenate" not in text
    _agrees_with_jax(lookup, given)


@pytest.mark.parametrize("lookup", [two_rows, columns])
def test_what_are_no_single_rows_stay(lookup: Lookup) -> None:
    given = table(7, 4)
    assert '"start_index_map": [0, 1]' in raised(lookup, given)
    _agrees_with_jax(lookup, given)


def _agrees_with_jax(lookup: Lookup, given: Any) -> None:
    def loss(table: Any) -> Any:
        found = lookup(table, jnp.asarray(IDS))
        weights = jnp.arange(found.size, dtype=found.dtype).reshape(found.shape)
        return jnp.sum(jnp.sin(found) * weights)

    found = jax.jit(relaxjax.value_and_grad(loss))(given)
    chex.assert_trees_all_close(found, jax.value_and_grad(loss)(given), rtol=1e-4, atol=1e-4)


def test_a_lazy_optimizer_takes_them_as_rows() -> None:
    def trained(lookup: Lookup) -> Trainer:
        def loss(params: Any, ids: Any) -> Any:
            return jnp.mean((lookup(params["table"], ids) @ params["w"]) ** 2)

        params = {"table": table(50, 4), "w": table(4, 2)}
        trainer = Trainer.from_jax(loss, params, Lazy(Adam(0.1)), IDS)
        for _ in range(2):
            trainer.update(IDS)
        return trainer

    wanted = trained(lambda table, ids: table.at[ids].get(mode="clip")).params
    chex.assert_trees_all_close(trained(by_index).params, wanted, rtol=1e-5, atol=1e-6)
