"""Weight gradients of loops: where steps see few rows, one product after the loop."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_module

import relaxjax
from relaxjax import from_source, to_jax
from relaxjax.ir import Function, IRModule, assert_structural_equal, well_formed
from relaxjax.passes import Gradient

WIDTH, STEPS = 64, 3

# A weight of the carry, one of what is given, one of a value of the step, and a bias; `xs` is a
# tuple, of which each step's weight takes a part.
SOURCE = """
@I.ir_module
class Module:
    @R.function
    def main(
        w: R.Tensor((64, 64), "float32"),
        u: R.Tensor((64, 64), "float32"),
        v: R.Tensor((64, 64), "float32"),
        b: R.Tensor((64,), "float32"),
        h0: R.Tensor((ROWS, 64), "float32"),
        xs: R.Tuple(R.Tensor((3, ROWS, 64), "float32"), R.Tensor((3, ROWS, 64), "float32")),
    ) -> R.Tensor((), "float32"):
        @R.function
        def step(
            h: R.Tensor((ROWS, 64), "float32"),
            x: R.Tuple(R.Tensor((ROWS, 64), "float32"), R.Tensor((ROWS, 64), "float32")),
        ) -> R.Tuple(R.Tensor((ROWS, 64), "float32"), R.Tensor((ROWS, 64), "float32")):
            sums = R.add(R.add(R.matmul(h, w), R.matmul(x[0], u)), b)
            z = R.tanh(R.multiply(sums, x[1]))
            y = R.matmul(R.sin(z), v)
            return (z, y)
        out = R.scan(step, h0, xs, reverse=REVERSE)
        loss = R.add(R.sum(out[0]), R.sum(R.sin(out[1])))
        return loss
"""


def module(rows: int, reverse: bool = False) -> IRModule:
    return parse_module(SOURCE.replace("ROWS", str(rows)).replace("REVERSE", str(reverse)))


def arguments(rows: int) -> tuple[Any, ...]:
    random = np.random.default_rng(0)

    def array(*shape: int) -> Any:
        return jnp.asarray(random.uniform(-0.2, 0.2, shape), jnp.float32)

    xs = (array(STEPS, rows, WIDTH), array(STEPS, rows, WIDTH))
    return (*(array(WIDTH, WIDTH) for _ in "wuv"), array(WIDTH), array(rows, WIDTH), xs)


def products_by_place(adjoint: IRModule) -> tuple[int, int]:
    """How many products the steps of the way back have, and how many stand outside of loops."""
    bindings = list(adjoint["main_adjoint"].body.bindings())
    steps = [b.value for b in bindings if isinstance(b.value, Function)]
    inside = steps[-1].script().count("R.matmul")
    everywhere = adjoint["main_adjoint"].script().count("R.matmul")
    return inside, everywhere - sum(step.script().count("R.matmul") for step in steps)


@pytest.mark.parametrize("reverse", [False, True])
def test_steps_of_few_rows_are_multiplied_after_the_loop(reverse: bool) -> None:
    mod, args = module(2, reverse), arguments(2)
    adjoint = Gradient("main")(mod)
    well_formed(adjoint)
    assert_structural_equal(from_source(adjoint.script()), adjoint)
    assert products_by_place(adjoint) == (3, 3)
    totals = adjoint["main_adjoint"].script(show_all_types=False)
    assert "R.zeros(R.shape([64, 64])" not in totals  # where sums step by step would begin
    assert "R.zeros(R.shape([64])" not in totals
    by_jax = jax.value_and_grad(to_jax(mod, "main"), argnums=range(len(args)))
    found, expected = (jax.jit(f)(*args) for f in (to_jax(adjoint, "main_adjoint"), by_jax))
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-5)


def test_steps_of_many_rows_and_small_weights_are_summed_step_by_step() -> None:
    assert products_by_place(Gradient("main")(module(33))) == (6, 0)
    small = SOURCE.replace("ROWS", "2").replace("REVERSE", "False").replace("64", "63")
    mod = parse_module(small)
    assert products_by_place(Gradient("main")(mod)) == (6, 0)


def test_the_adjoint_of_weights_alone_needs_nothing_of_what_is_given() -> None:
    adjoint, args = Gradient("main", require_grads=["w", "b"])(module(2)), arguments(2)
    expected = jax.grad(to_jax(module(2), "main"), argnums=(0, 3))(*args)
    found = to_jax(adjoint, "main_adjoint")(*args)[1]
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_bias_of_one_element_is_summed_over_columns_too() -> None:
    source = SOURCE.replace("b: R.Tensor((64,)", "b: R.Tensor((1,)")
    mod, args = from_source(source.replace("ROWS", "2").replace("REVERSE", "False")), arguments(2)
    assert isinstance(mod, IRModule)
    args = (*args[:3], args[3][:1], *args[4:])
    expected = jax.grad(to_jax(mod, "main"), argnums=3)(*args)
    adjoint = Gradient("main", require_grads=["w", "b"])(mod)
    found = to_jax(adjoint, "main_adjoint")(*args)[1][1]
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-5)


LOOKUPS = """
@I.ir_module
class Module:
    @R.function
    def main(
        table: R.Tensor((LENGTH, 4), "float32"),
        start: R.Tensor((5, 4), "float32"),
        ids: R.Tensor((3, 5), "int32"),
    ) -> R.Tensor((), "float32"):
        @R.function
        def step(
            h: R.Tensor((5, 4), "float32"), at: R.Tensor((5,), "int32")
        ) -> R.Tuple(R.Tensor((5, 4), "float32"), R.Tensor((5, 4), "float32")):
            rows = R.take(table, at, axis=0, mode="MODE")
            new = R.tanh(R.multiply(h, rows))
            return (new, rows)
        out = R.scan(step, start, ids, reverse=REVERSE)
        loss = R.add(R.sum(out[0]), R.sum(R.sin(out[1])))
        return loss
"""
TABLES = ("table", "start")


def lookups(length: int, mode: str, reverse: bool = False) -> IRModule:
    text = LOOKUPS.replace("LENGTH", str(length)).replace("MODE", mode)
    return parse_module(text.replace("REVERSE", str(reverse)))


def drawn(length: int) -> tuple[Any, ...]:
    """A table, a start, and places of which some come twice, in one step and in several."""
    random = np.random.default_rng(1)
    table, start = (random.normal(size=(n, 4)).astype("float32") for n in (length, 5))
    ids = random.integers(0, length, (STEPS, 5)).astype("int32")
    ids[0, 1] = ids[0, 0] = ids[2, 3]
    return table, start, ids


@pytest.mark.parametrize(
    ("mode", "reverse"),
    [("fast", False), ("fast", True), ("clip", False), ("wrap", False), ("nan", True)],
)
def test_rows_that_steps_look_up_are_added_up_after_the_loop(mode: str, reverse: bool) -> None:
    mod, args = lookups(15, mode, reverse), drawn(15)
    adjoint = Gradient("main", TABLES)(mod)
    well_formed(adjoint)
    body = adjoint["main_adjoint"].body
    steps = [b.value for b in body.bindings() if isinstance(b.value, Function)]
    assert "take_backward" not in steps[-1].script()
    _, found = to_jax(adjoint, "main_adjoint")(*args)
    expected = jax.grad(to_jax(mod, "main"), (0, 1))(*args)
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-6)
    pairs = Gradient("main", TABLES, lazy=True, sparse=True)(mod)
    _, ((rows, places), _) = to_jax(pairs, "main_adjoint")(*args)
    whole = jnp.zeros((15, 4)).at[places].add(rows)
    chex.assert_trees_all_close(whole, expected[0], rtol=1e-5, atol=1e-6)


def test_where_steps_look_up_more_rows_than_there_are_they_are_added_up_in_the_loop() -> None:
    mod, args = lookups(14, "fast"), drawn(14)
    adjoint = Gradient("main", TABLES, sparse=True)(mod)
    _, found = to_jax(adjoint, "main_adjoint")(*args)
    expected = jax.grad(to_jax(mod, "main"), (0, 1))(*args)
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["promise_in_bounds", "clip", "drop"])
def test_rows_that_a_loop_in_jax_looks_up(mode: str) -> None:
    """Places outside count for nothing, or for the nearest row, as the lookup has it."""

    def loss(table: Any, start: Any, ids: Any) -> Any:
        def step(h: Any, at: Any) -> tuple[Any, Any]:
            places = at if mode == "promise_in_bounds" else at * 2 - 3
            rows = table.at[places].get(mode=mode, fill_value=0, wrap_negative_indices=False)
            return jnp.tanh(h * rows), rows

        last, rows = jax.lax.scan(step, start, ids)
        return jnp.sum(last) + jnp.sum(jnp.sin(rows))

    found = relaxjax.value_and_grad(loss, argnums=(0, 1))(*drawn(15))
    expected = jax.value_and_grad(loss, argnums=(0, 1))(*drawn(15))
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-6)
    module = relaxjax.value_and_grad(loss, argnums=(0, 1)).module(*drawn(15))
    (function,) = module.relax_functions().values()
    steps = [b.value for b in function.body.bindings() if isinstance(b.value, Function)]
    assert steps
    assert module.script().count("scatter_add(") == 1
    assert not any("scatter_add(" in step.script() for step in steps)
