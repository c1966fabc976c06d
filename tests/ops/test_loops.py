"""The scan operator: its values, its types, and what it refuses."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions, parse_module

from relaxjax.ir import IRModule, well_formed
from relaxjax.lowering import to_jax
from relaxjax.script import ScriptError


def parse(step: str, loop: str) -> IRModule:
    return parse_module(
        "@I.ir_module\nclass Module:\n    @R.function\n"
        '    def main(h: R.Tensor((3,), "float32"), xs: R.Tensor((5, 3), "float32")):\n'
        f"        @R.function\n        def step{step}\n        out = {loop}\n        return out\n"
    )


CARRY = 'R.Tensor((3,), "float32")'
STEP = f"""(c: {CARRY}, x: {CARRY}) -> R.Tuple({CARRY}, R.Tensor((), "float32")):
            s = R.add(R.multiply(c, h), x)
            y = R.sum(s)
            return (s, y)"""


def arrays() -> tuple[jax.Array, jax.Array]:
    random = np.random.default_rng(0)
    h, xs = (jnp.asarray(random.normal(size=s), jnp.float32) for s in ((3,), (5, 3)))
    return h, xs


@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_over_the_leading_dimension(reverse: bool) -> None:
    """The body sees the variables around it."""
    module = parse(STEP, f"R.scan(step, h, xs, reverse={reverse})")
    h, xs = arrays()
    expected = jax.lax.scan(lambda c, x: (c * h + x, jnp.sum(c * h + x)), h, xs, reverse=reverse)
    chex.assert_trees_all_close(to_jax(module, "main")(h, xs), expected, rtol=1e-5)
    chex.assert_trees_all_close(jax.jit(to_jax(module, "main"))(h, xs), expected, rtol=1e-5)


def test_steps_that_are_compiled_one_after_another() -> None:
    module = parse(STEP, "R.scan(step, h, xs, unroll=2)")
    values = to_jax(module, "main")(*arrays())
    expected = to_jax(parse(STEP, "R.scan(step, h, xs)"), "main")(*arrays())
    chex.assert_trees_all_close(values, expected, rtol=1e-6)
    assert "unroll=2" in str(jax.make_jaxpr(to_jax(module, "main"))(*arrays()))
    with pytest.raises(ScriptError, match="`unroll` must be a positive number of steps, found 0"):
        parse(STEP, "R.scan(step, h, xs, unroll=0)")


def test_its_type_is_the_last_carry_and_the_stacked_results() -> None:
    module = parse(STEP, "R.scan(step, h, xs)")
    assert str(module["main"].ret_ty) == (
        'R.Tuple(R.Tensor((3,), dtype="float32"), R.Tensor((5,), dtype="float32"))'
    )


def test_a_loop_without_tensors_to_run_over_needs_its_length() -> None:
    step = (
        f"(c: {CARRY}, x: R.Tuple()) -> R.Tuple({CARRY}, R.Tuple()):\n"
        "            r = R.add(c, c)\n            return (r, R.tuple())"
    )
    module = parse(step, "R.scan(step, h, R.tuple(), length=3)")
    chex.assert_trees_all_close(to_jax(module, "main")(*arrays())[0], 8 * arrays()[0])
    with pytest.raises(ScriptError, match="give the number of steps as `length`"):
        parse(step, "R.scan(step, h, R.tuple())")


@pytest.mark.parametrize(
    ("step", "loop", "message"),
    [
        (STEP, "R.scan(step, h, xs, length=4)", "number of steps must be the same, found 4 and 5"),
        (STEP, "R.scan(step, xs, xs)", r"`init` must be of type .*\(3,\).*found .*\(5, 3\)"),
        (STEP, "R.scan(step, h, h)", r"each step of `xs` must be of type .*\(3,\).* found .*\(\)"),
        (STEP, 'R.scan(step, h, R.const(1, "float32"))', "`xs` must be of tensors with a leading"),
        (
            f"(c: {CARRY}) -> {CARRY}:\n            return c",
            "R.scan(step, h, xs)",
            "`body` must take a carry and an x",
        ),
        (
            f"(c: {CARRY}, x: {CARRY}) -> {CARRY}:\n            return c",
            "R.scan(step, h, xs)",
            "`body` must return a carry and a y",
        ),
        (
            STEP.replace("return (s, y)", "return (y, s)").replace(
                f'{CARRY}, R.Tensor((), "float32")', f'R.Tensor((), "float32"), {CARRY}'
            ),
            "R.scan(step, h, xs)",
            "the carry that `body` returns must be of type",
        ),
        (STEP, "R.scan(h, h, xs)", "`body` must be a function"),
    ],
)
def test_what_cannot_be_looped(step: str, loop: str, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        parse(step, loop)


WHILE = """
    @R.function
    def main(x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
        @R.function
        def small(c: R.Tensor((), "float32")) -> R.Tensor((), "bool"):
            r = R.less(c, R.const(100.0, "float32"))
            return r
        @R.function
        def grown(c: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
            r = R.multiply(c, R.add(x, R.const(2.0, "float32")))
            return r
        out = LOOP
        return out
"""


def looping(loop: str) -> IRModule:
    return parse_functions(WHILE.replace("LOOP", loop))


@pytest.mark.parametrize(("bound", "expected"), [(20, 243.0), (3, 27.0), (0, 1.0)])
def test_a_loop_ends_when_its_condition_fails_or_at_its_bound(bound: int, expected: float) -> None:
    module = looping(f"R.while_loop(small, grown, x, max_iter={bound})")
    chex.assert_trees_all_close(to_jax(module, "main")(jnp.float32(1)), jnp.float32(expected))


@pytest.mark.parametrize(
    ("loop", "message"),
    [
        ("R.while_loop(small, grown, x, max_iter=-1)", "`max_iter` must not be negative, found -1"),
        ("R.while_loop(small, grown, x)", "the argument `max_iter` is missing"),
        ("R.while_loop(x, grown, x, 3)", "`cond` must be a function"),
        ("R.while_loop(grown, grown, x, 3)", "`cond` must return a scalar of dtype bool"),
        ("R.while_loop(small, small, x, 3)", "`body` must return a carry of type"),
        ('R.while_loop(small, grown, R.const([1.0], "float32"), 3)', "`init` must be of type"),
    ],
)
def test_what_is_no_loop(loop: str, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        looping(loop)


def test_a_body_may_have_dimensions_of_its_own() -> None:
    """They are those of what it is given, in the type of the result too."""
    module = parse_functions("""
@R.function(private=True)
def step(c: R.Tensor(("k",), "float32"), x: R.Tensor(("m",), "float32")):
    k, m = T.int64(), T.int64()
    d = R.multiply(c, R.sum(x))
    y = R.concat([d, x])
    return (d, y)

@R.function(private=True)
def half(c: R.Tensor(("k",), "float32")):
    k = T.int64()
    d = R.multiply(c, R.const(0.5, "float32"))
    return d

@R.function(private=True)
def large(c: R.Tensor(("k",), "float32")):
    k = T.int64()
    d = R.greater(R.sum(c), R.const(1.0, "float32"))
    return d

@R.function
def main(c: R.Tensor(("n",), "float32"), xs: R.Tensor((4, 2), "float32")):
    n = T.int64()
    out = R.scan(Module.step, c, xs)
    h = R.while_loop(Module.large, Module.half, out[0], max_iter=3)
    return (out, h)
""")
    well_formed(module)
    (out, h) = to_jax(module, "main")(jnp.ones(3), jnp.ones((4, 2)))
    assert (out[0].shape, out[1].shape, h.shape) == ((3,), (4, 5), (3,))
    assert 'R.Tensor((4, n + 2), dtype="float32")' in module["main"].script()
