"""Loops whose bodies compute in 64 bits on the way, though all that goes in and out is narrower."""

from typing import Any

import chex
import jax
import numpy as np
from jax import lax
from jax_reading import read_module

from relaxjax.lowering import build


def test_a_loop_of_narrow_values_may_compute_in_wide_ones() -> None:
    def rest(x: jax.Array) -> jax.Array:
        wide = x.astype("float64") * (1 + 1e-12) - x.astype("float64")
        return (wide * 1e6).astype("float32")

    def program(x: jax.Array) -> Any:
        return lax.fori_loop(0, 1, lambda i, y: rest(y), x)

    x = np.float32(3)
    with jax.enable_x64(True):
        mod = read_module(program, x)
        expected = program(jax.numpy.asarray(x))
    found = build(mod)["main"](x)
    assert 2e-6 < float(found) < 4e-6  # in 32 bits it would be 0
    chex.assert_trees_all_equal(found, expected)
