"""Sums of products that are larger than their rows: one product after the loop over the parts."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from parsing import parse_main

import relaxjax
from relaxjax.ir.check import well_formed
from relaxjax.ir.module import IRModule
from relaxjax.lowering import to_jax
from relaxjax.passes import SplitBatch

ADJOINT = "loss_adjoint"
PRODUCT = """
e = L.exp(x)
r = L.transpose(e, permutation=[1, 0])
y = L.dot_general(r, x, dimension_numbers=[[[1], [0]], [[], []]])
return y
"""


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def split_in(mod: IRModule, parts: int, given: Any) -> tuple[str, str]:
    """What is in the loop and after it, once the results are seen to be those of the whole."""
    split = SplitBatch("main", parts, {"x": 0})(mod)
    well_formed(split)
    before, after = (to_jax(one, "main")(given) for one in (mod, split))
    chex.assert_trees_all_close(before, after, rtol=1e-5, atol=1e-6)
    step, _, rest = split.script(show_all_types=False).partition("R.scan(")
    return step.partition("def part(")[2], rest


def test_rows_are_stored_and_their_product_comes_after_the_loop() -> None:
    """They are stored as they are computed: the product has them across."""
    step, rest = split_in(parse_main(PRODUCT, x=(4, 8)), 2, normal(4, 8))
    assert "L.exp(" in step
    assert "L.transpose(" not in step
    assert "L.dot_general(" not in step
    assert "L.transpose(" in rest
    assert "L.dot_general(" in rest


def test_a_product_that_is_smaller_than_its_rows_is_added_up_in_the_loop() -> None:
    step, rest = split_in(parse_main(PRODUCT, x=(12, 4)), 2, normal(12, 4))
    assert "L.dot_general(" in step
    assert "L.dot_general(" not in rest


def test_that_of_one_sample_is_added_to_the_sum_as_it_is_computed() -> None:
    step, rest = split_in(parse_main(PRODUCT, x=(4, 8)), 4, normal(4, 8))
    assert "L.dot_general(" in step
    assert "L.dot_general(" not in rest


def test_rows_across_that_the_loop_reads_itself_are_stored_so() -> None:
    body = PRODUCT.replace(
        "return y", "s = L.reduce_sum(L.sin(r), axes=[0, 1])\nz = L.mul(y, s)\nreturn z"
    )
    step, rest = split_in(parse_main(body, x=(4, 8)), 2, normal(4, 8))
    assert "L.transpose(" in step
    assert "L.dot_general(" in rest


def matrices(params: Any, x: Any) -> Any:
    return (jnp.tanh(jnp.tanh(x @ params[0]) @ params[1]) ** 2).mean()


def kernels(params: Any, x: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    found = lax.conv_general_dilated(x, params[0], (1, 1), "SAME", dimension_numbers=numbers)
    return (jnp.tanh(found) @ params[1]).mean()


LOSSES = {
    "matrices": (matrices, [normal(20, 30), normal(30, 20, seed=1)], normal(4, 20, seed=2)),
    "kernels": (kernels, [normal(3, 3, 8, 16), normal(16, 2, seed=1)], normal(4, 2, 2, 8, seed=2)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_many_numbers_are_those_of_jax(name: str) -> None:
    loss, params, x = LOSSES[name]
    mod = relaxjax.value_and_grad(loss).module(params, x)
    split = SplitBatch(ADJOINT, 2, {"x": 0})(mod)
    well_formed(split)
    rest = split.script(show_all_types=False).partition("R.scan(")[2]
    assert "L.conv_general_dilated(" in rest or "L.dot_general(" in rest
    wanted = jax.value_and_grad(loss)(params, x)
    chex.assert_trees_all_close(
        jax.tree.leaves(to_jax(split, ADJOINT)(*params, x)),
        jax.tree.leaves(wanted),
        rtol=1e-4,
        atol=1e-5,
    )


def test_what_is_no_row_but_computed_in_the_loop_is_multiplied_there() -> None:
    """Each part has all of `w_late`, which waits for what is of that part."""
    body = """
    e = L.exp(x)
    w_late = R.grad.delay(w, e)
    s = L.reduce_sum(e, axes=[0])
    r = L.reshape(s, new_sizes=[8, 1])
    y = L.dot_general(r, w_late, dimension_numbers=[[[1], [0]], [[], []]])
    return y
    """
    mod = parse_main("\n".join(map(str.strip, body.strip().splitlines())), x=(4, 8), w=(1, 8))
    split = SplitBatch("main", 2, {"x": 0})(mod)
    given = normal(4, 8), normal(1, 8, seed=1)
    before, after = (to_jax(one, "main")(*given) for one in (mod, split))
    chex.assert_trees_all_close(before, after, rtol=1e-5, atol=1e-6)


def test_data_are_there_anyway_and_no_rows_that_would_be_stored() -> None:
    """Rows of 192 bytes and as many of data make a matrix of 256."""
    step, rest = split_in(parse_main(PRODUCT, x=(6, 8)), 2, normal(6, 8))
    assert "L.dot_general(" not in step
    assert "L.dot_general(" in rest


def test_rows_that_are_added_to_a_table_are_added_in_the_loop() -> None:
    """Each part changes a few rows of the sum where it lies."""
    mod = relaxjax.value_and_grad(lambda table, x: (table[x] ** 2).sum()).module(
        normal(50, 3), np.arange(4)
    )
    script = SplitBatch(ADJOINT, 2, {"x": 0})(mod).script(show_all_types=False)
    step, _, rest = script.partition("R.scan(")
    assert "L.scatter_add(" in step
    assert "L.scatter_add(" not in rest
