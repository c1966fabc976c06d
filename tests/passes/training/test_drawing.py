"""Random numbers that closures draw in training: in each call, and in each step, others."""

import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions

from relaxjax import from_source, to_jax
from relaxjax.ir import IRModule, well_formed
from relaxjax.passes import (
    CanonicalizeBindings,
    DecomposeOpsForTraining,
    Gradient,
    MutateOpsForTraining,
)


def module(body: str, xs: str = "(4, 16)") -> IRModule:
    """A function of a start `h` and of `xs`."""
    return parse_functions(f"""
    @R.function(private=True)
    def thin(x: R.Tensor((16,), "float32")):
        with R.dataflow():
            pair = R.nn.dropout(x, rate=0.5)
            y = pair[0]
            R.output(y)
        return y

    @R.function
    def main(h: R.Tensor((16,), "float32"), xs: R.Tensor({xs}, "float32")):
{body}
""")


STEP = """
        @R.function
        def step(c: R.Tensor((16,), "float32"), x: R.Tensor((16,), "float32")):
            pair = R.nn.dropout(x, rate=0.5)
            y = pair[0]
            d = R.add(c, y)
            return (d, y)
"""
LOOP = f"""{STEP}
        out = R.scan(step, h, xs)
        ys = out[1]
        return ys
"""
CHECKPOINTED = LOOP.replace("h, xs)", "h, xs, checkpoint=True)")
CALLS_OF_FUNCTION = """
        @R.function
        def step(c: R.Tensor((16,), "float32"), x: R.Tensor((16,), "float32")):
            y = Module.thin(x)
            d = R.add(c, y)
            return (d, y)

        out = R.scan(step, h, xs, reverse=True)
        ys = out[1]
        return ys
"""
NESTED = """
        @R.function
        def outer(c: R.Tensor((16,), "float32"), x: R.Tensor((16,), "float32")):
            @R.function
            def inner(d: R.Tensor((16,), "float32"), nothing: R.Tuple()):
                pair = R.nn.dropout(x, rate=0.5)
                y = pair[0]
                return (d, y)

            done = R.scan(inner, c, R.tuple(), length=2)
            ys = done[1]
            return (c, ys)

        out = R.scan(outer, h, xs)
        ys = out[1]
        yss = R.reshape(ys, (8, 16))
        return yss
"""
CALLED = """
        @R.function
        def thinned(x: R.Tensor((16,), "float32")):
            @R.function
            def one(z: R.Tensor((16,), "float32")):
                pair = R.nn.dropout(z, rate=0.5)
                y = pair[0]
                return y

            y = one(x)
            z = one(y)
            w = R.where(R.equal(z, y), y, z)
            return y

        a = thinned(h)
        b = thinned(h)
        c = R.stack([a, b], axis=0)
        return c
"""


def rows(mod: IRModule, key: int = 0) -> np.ndarray:
    """What the function gives of ones: the rows are the masks, twice what is kept."""
    args = jnp.ones(16), jnp.ones((4, 16)), jax.random.key(key)
    return np.asarray(to_jax(mod, "main")(*args)[0])


@pytest.mark.parametrize("body", [LOOP, CHECKPOINTED, CALLS_OF_FUNCTION, NESTED, CALLED])
def test_masks_are_others_in_each_step_and_each_call(body: str) -> None:
    mod = MutateOpsForTraining()(module(body))
    well_formed(mod)
    assert "dropout" not in mod.script()
    text = CanonicalizeBindings()(mod).script()
    assert from_source(text).script() == text
    masks = rows(mod)
    assert set(np.unique(masks)) == {0.0, 2.0}
    assert len(np.unique(masks, axis=0)) == len(masks)
    np.testing.assert_array_equal(masks, rows(mod))
    assert (masks != rows(mod, key=1)).any()


def test_masks_are_others_in_each_step_of_a_while_loop() -> None:
    sums = rows(MutateOpsForTraining()(module(WHILE)))
    assert {2.0, 4.0} <= set(sums) <= {0.0, 2.0, 4.0, 6.0}


def test_what_loops_become() -> None:
    mod = CanonicalizeBindings()(MutateOpsForTraining()(module(LOOP)))
    text = re.sub(
        r": R\.Tuple\(.*?\) =|: R\.Tensor\(\S+ dtype=\"\S+\"\) =", " =", mod["main"].script()
    )
    assert "R.arange(R.prim_value(0), R.prim_value(4), R.prim_value(1)" in text
    assert text.count("R.random.fold_in(key, R.prim_value(0))") == 1  # of the loop
    assert text.count("R.random.fold_in(") == 4  # of the step, of its draw, and the key returned


@pytest.mark.parametrize("body", [LOOP, CHECKPOINTED, NESTED])
def test_the_way_back_has_the_masks_of_the_way_forth(body: str) -> None:
    summed = re.sub(
        r"return (\w+)$", r"total = R.sum(R.multiply(\1, \1))\n        return total", body.rstrip()
    )
    mod = DecomposeOpsForTraining()(module(summed))
    adjoint = to_jax(Gradient("main", require_grads="xs")(mod), "main_adjoint")
    args = jnp.ones(16), jnp.asarray(np.random.default_rng(0).normal(size=(4, 16)), "float32")
    _, (found,) = jax.jit(adjoint)(*args, jax.random.key(3))
    run = to_jax(mod, "main")
    total = jax.grad(lambda xs: run(args[0], xs, jax.random.key(3))[0])
    expected = jax.jit(total)(args[1])
    chex.assert_trees_all_close(found, expected, rtol=1e-6)


def test_the_number_of_steps_may_be_a_symbol() -> None:
    mod = MutateOpsForTraining()(module(LOOP, xs='("n", 16)'))
    run = to_jax(mod, "main")
    masks = np.asarray(run(jnp.ones(16), jnp.ones((9, 16)), jax.random.key(0))[0])
    assert len(np.unique(masks, axis=0)) == 9


def test_functions_whose_closures_do_not_draw_stay() -> None:
    mod = module(LOOP.replace("R.nn.dropout(x, rate=0.5)", "(x, x)"))
    assert MutateOpsForTraining()(mod)["main"] is mod["main"]


WHILE = """
        @R.function
        def goes_on(c: R.Tensor((16,), "float32")):
            b = R.less(R.max(c), R.const(50, "float32"))
            return b

        @R.function
        def step(c: R.Tensor((16,), "float32")):
            pair = R.nn.dropout(h, rate=0.5)
            y = R.add(c, pair[0])
            return y

        out = R.while_loop(goes_on, step, R.zeros_like(h), max_iter=3)
        return out
"""
OF_JAX = WHILE.replace("R.zeros_like(h), max_iter=3", "h, cond_nconsts=0, body_nconsts=0").replace(
    "R.while_loop", "L.while_loop"
)
AS_VALUE = f"""{STEP}
        other = step
        out = R.scan(other, h, xs)
        ys = out[1]
        return ys
"""
RECURSIVE = """
        @R.function
        def again(c: R.Tensor((16,), "float32")) -> R.Tensor((16,), "float32"):
            pair = R.nn.dropout(c, rate=0.5)
            y = pair[0]
            z = again(y)
            return z

        out = again(h)
        return out
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (OF_JAX, "`step` draws random numbers in training, and is handed to lax.while_loop"),
        (AS_VALUE, "`step` draws random numbers in training and is a value"),
        (RECURSIVE, "`again` draws random numbers in training and calls itself"),
    ],
)
def test_closures_that_can_be_given_no_key_are_refused(body: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        MutateOpsForTraining()(module(body))
