"""What samples need of all samples is computed of the whole batch, once, before the parts."""

from typing import Any

import chex
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_main

import relaxjax
from relaxjax.ir.check import well_formed
from relaxjax.lowering import to_jax
from relaxjax.passes import SplitBatch


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


@pytest.mark.parametrize("parts", [2, 4])
def test_what_is_repeated_of_a_sum_is_of_the_whole_sum(parts: int) -> None:
    """Not of the sum of a part, which is computed in the loop as well."""

    def centred(x: Any) -> Any:
        total = x.sum(0)
        return x - jnp.broadcast_to(total, x.shape), total

    x = normal(4, 6)
    split = SplitBatch("main", parts, {"x": 0})(relaxjax.from_jax(centred, x))
    chex.assert_trees_all_close(tuple(to_jax(split, "main")(x)), centred(x), rtol=1e-5)


def test_what_is_known_before_the_parts_is_not_computed_after_them_again() -> None:
    body = """
    s = L.reduce_sum(x, axes=[0, 1])
    t = L.exp(s)
    u = L.sin(t)
    y = L.mul(x, u)
    return y, L.add(t, u)
    """
    mod = parse_main(body, x=(4, 6))
    split = SplitBatch("main", 2, {"x": 0})(mod)
    well_formed(split)
    x = normal(4, 6)
    chex.assert_trees_all_close(to_jax(split, "main")(x), to_jax(mod, "main")(x), rtol=1e-5)
