"""Loops of which the backward program keeps about 2 sqrt(n) steps, and runs the others again."""

import functools
import re
from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest
from adjoint_checks import signed_array
from parsing import parse_functions
from quickly_compiled_programs import QUICK

from relaxjax import from_source, to_jax
from relaxjax.ir import IRModule, assert_structural_equal, well_formed
from relaxjax.ops import OpError
from relaxjax.passes import Gradient, Jvp, SimplifyGradient

V = 'R.Tensor((3,), "float32")'


def run(function: Any, *args: Any) -> Any:
    return jax.jit(function, compiler_options=QUICK)(*args)


def recurrent(steps: int, checkpoint: bool, reverse: bool = False) -> IRModule:
    """A loop over pairs of a tensor and an integer, with weights from outside."""
    pair = f'R.Tuple({V}, R.Tensor((), "int32"))'
    return parse_functions(f"""
@R.function
def main(
    w: {V}, h0: {V}, xs: R.Tensor(({steps}, 3), "float32"), ks: R.Tensor(({steps},), "int32")
):
    @R.function
    def step(h: {V}, x: {pair}) -> R.Tuple({V}, R.Tuple({V}, R.Tensor((), "int32"))):
        z = R.sin(R.exp(R.tanh(R.multiply(R.cos(R.add(R.multiply(h, w), x[0])), w))))
        y = R.multiply(z, R.astype(x[1], "float32"))
        return (z, (y, x[1]))
    out = R.scan(step, h0, (xs, ks), reverse={reverse}, checkpoint={checkpoint})
    loss = R.add(R.sum(out[0]), R.sum(R.sin(out[1][0])))
    return loss
""")


def arguments(steps: int) -> tuple[Any, ...]:
    xs, ks = signed_array(steps, 3, seed=2), jnp.arange(steps, dtype=jnp.int32)
    return signed_array(3), signed_array(3, seed=1), xs, ks


@pytest.mark.parametrize(("steps", "reverse"), [(1, False), (7, True), (7, False), (9, True)])
def test_the_gradients_are_those_of_the_loop(steps: int, reverse: bool) -> None:
    module = recurrent(steps, True, reverse)
    adjoint = Gradient("main")(module)
    well_formed(adjoint)
    assert_structural_equal(from_source(adjoint.script()), adjoint)
    plain = recurrent(steps, False, reverse)
    args = arguments(steps)
    expected = run(jax.value_and_grad(to_jax(plain, "main"), (0, 1, 2)), *args)
    value, gradients = run(to_jax(adjoint, "main_adjoint"), *args)
    chex.assert_trees_all_close((value, gradients[:3]), expected, rtol=1e-4, atol=1e-6)
    simple = run(to_jax(SimplifyGradient()(adjoint), "main_adjoint"), *args)
    chex.assert_trees_all_close(simple[1][:3], expected[1], rtol=1e-4, atol=1e-6)


def test_forward_and_second_order() -> None:
    """Marks say nothing to tangents, and the backward program is a program like others."""
    module, plain, args = recurrent(7, True), recurrent(7, False), arguments(7)
    tangents = args[:3]

    def pushed(module: IRModule) -> Any:
        adjoint = Gradient("main", ["w", "h0", "xs"])(module)
        twice = Jvp("main_adjoint")(adjoint)
        return run(to_jax(twice, "main_adjoint_jvp"), *args, *tangents)

    chex.assert_trees_all_close(pushed(module), pushed(plain), rtol=1e-3, atol=1e-5)


def loop(steps: int, checkpoint: bool) -> IRModule:
    v = 'R.Tensor((256,), "float32")'
    return parse_functions(f"""
@R.function
def main(h: {v}, w: {v}):
    @R.function
    def step(h: {v}, n: R.Tuple()) -> R.Tuple({v}, R.Tuple()):
        z = R.sin(R.exp(R.tanh(R.multiply(R.cos(h), w))))
        return (z, R.tuple())
    out = R.scan(step, h, R.tuple(), length={steps}, checkpoint={checkpoint})
    loss = R.sum(out[0])
    return loss
""")


@functools.cache
def temporary_bytes(steps: int, checkpoint: bool) -> int:
    """What the compiled adjoint of a loop needs beside its arguments and results."""
    module = loop(steps, checkpoint)
    lowered = jax.jit(to_jax(Gradient("main")(module), "main_adjoint")).lower(
        signed_array(256), signed_array(256)
    )
    analysis = lowered.compile().memory_analysis()
    assert analysis is not None
    return int(analysis.temp_size_in_bytes)


def test_memory_grows_with_the_square_root_of_the_steps() -> None:
    """From 64 steps to 1024: 16 times as many, of which 4 times as many are kept."""
    assert temporary_bytes(1024, False) > 10 * temporary_bytes(64, False)
    assert temporary_bytes(1024, True) < 5 * temporary_bytes(64, True)
    assert temporary_bytes(1024, True) < temporary_bytes(1024, False) / 10


@pytest.mark.parametrize(("steps", "lengths"), [(9, {3}), (10, {4, 2}), (1, {1})])
def test_segments_are_about_as_long_as_there_are_many(steps: int, lengths: set[int]) -> None:
    adjoint = Gradient("main")(loop(steps, True))["main_adjoint"].script()
    assert set(map(int, re.findall(r"length=(\d+)", adjoint))) == lengths


@pytest.mark.parametrize("bound", [1, 5, 12])
def test_a_bounded_loop(bound: int) -> None:
    text = """
@R.function
def main(x: R.Tensor((), "float32"), a: R.Tensor((), "float32")):
    @R.function
    def large(c: R.Tensor((), "float32")) -> R.Tensor((), "bool"):
        r = R.greater(c, R.const(0.1, "float32"))
        return r
    @R.function
    def root(c: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
        r = R.multiply(a, R.sqrt(R.subtract(c, R.const(0.05, "float32"))))
        return r
    out = R.while_loop(large, root, x, max_iter=BOUND, checkpoint=MARKED)
    loss = R.sin(out)
    return loss
"""
    found, plain = (
        to_jax(
            Gradient("main")(
                parse_functions(text.replace("BOUND", str(bound)).replace("MARKED", str(marked)))
            ),
            "main_adjoint",
        )(jnp.float32(0.9), jnp.float32(0.5))
        for marked in (True, False)
    )
    chex.assert_trees_all_close(found, plain, rtol=1e-5)


def test_a_checkpointed_loop_that_has_no_gradient_reads_back() -> None:
    """It stands in the adjoint as it was taken apart for differentiation."""
    module = parse_functions(f"""
@R.function
def main(x: {V}, c: R.Tensor((), "bool")):
    if c:
        @R.function
        def large(a: {V}) -> R.Tensor((), "bool"):
            r = R.greater(R.sum(a), R.const(0.1, "float32"))
            return r
        @R.function
        def half(a: {V}) -> {V}:
            r = R.multiply(a, R.const(0.5, "float32"))
            return r
        z = R.while_loop(large, half, x, max_iter=5, checkpoint=True)
        y = R.multiply(x, R.sign(z))
    else:
        y = x
    loss = R.sum(y)
    return loss
""")
    adjoint = Gradient("main", "x")(module)
    well_formed(adjoint)
    assert_structural_equal(from_source(adjoint.script()), adjoint)
    _, (gradient,) = to_jax(adjoint, "main_adjoint")(jnp.ones(3), jnp.asarray(True))
    chex.assert_trees_all_close(gradient, jnp.ones(3))


def test_a_number_of_steps_that_is_not_known() -> None:
    module = parse_functions(f"""
@R.function
def main(c: {V}, xs: R.Tensor(("n", 3), "float32")):
    @R.function
    def step(c: {V}, x: {V}) -> R.Tuple({V}, {V}):
        r = R.multiply(R.sin(c), x)
        return (r, r)
    out = R.scan(step, c, xs, checkpoint=True)
    loss = R.sum(out[0])
    return loss
""")
    with pytest.raises(
        OpError, match="`checkpoint` needs a number of steps that is known, f"
    ) as caught:
        Gradient("main")(module)
    assert any("out = R.scan(step" in note for note in caught.value.__notes__)
