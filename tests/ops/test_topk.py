"""The smallest elements, which XLA's library for the largest ones finds."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from relaxjax.ir.op import get_op

ODD = [3.0, np.nan, -0.0, 0.0, np.inf, -np.inf, 1.0, 1.0, -2.5, np.nan, 0.0, -0.0]


def smallest(x: Any, k: int, axis: int = -1) -> Any:
    lower = get_op("relax.topk").lower
    assert lower is not None
    return lower(x, k, axis, "both", False, "int32")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32"])
@pytest.mark.parametrize("k", [1, 5, 0, 99])
def test_the_smallest_come_first_and_nan_last(dtype: str, k: int) -> None:
    odd = [x for x in ODD if np.isfinite(x)] if dtype == "int32" else ODD
    x = jnp.asarray([odd, odd[::-1]]).astype(dtype)
    order = jnp.argsort(x, -1, stable=True)[:, : k or None]
    values, places = jax.jit(smallest, static_argnums=1)(x, k)
    chex.assert_trees_all_equal(places, order)
    chex.assert_trees_all_equal(values, jnp.take_along_axis(x, order, -1))


def test_along_another_axis() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(7, 3, 5)), "float32")
    values, places = smallest(x, 4, 0)
    chex.assert_trees_all_equal(values, jnp.sort(x, 0)[:4])
    chex.assert_trees_all_equal(jnp.take_along_axis(x, places, 0), values)
