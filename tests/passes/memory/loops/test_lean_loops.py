"""Loops whose way back computes again what their steps would have saved."""

from collections.abc import Sequence
from typing import Any

import chex
import jax
import numpy as np
import pytest
from legal_adjoints import prepared
from parsing import parse_functions

from relaxjax import from_source, to_jax
from relaxjax.ir import IRModule, assert_structural_equal
from relaxjax.lowering.memory import temporary_bytes
from relaxjax.passes import Gradient, MemoryPlanError, Rematerialize
from relaxjax.passes.differentiation.gradient import function_of
from relaxjax.passes.memory.loops.lean_loops import with_lean_loops
from relaxjax.passes.memory.planning.planner import Planner
from relaxjax.passes.memory.program.program import Program
from relaxjax.testing.equations import run

ADJOINT = "main_adjoint"
LAYERS, ROWS, WIDTH = 16, 40, 32
BREAK = "\n" + 16 * " "  # between the lines of a loop's body


def adjoint(results: str = "(h, ())") -> IRModule:
    """The adjoint of a loop over layers with a GELU and a sum each."""
    lines = (
        "a = R.matmul(carry, w)",
        "b = R.nn.gelu(a)",
        "c = R.matmul(b, w)",
        "h = R.add(carry, R.tanh(c))",
        f"return {results}",
    )
    return layers(BREAK.join(lines))


def layers(step: str, start: str = "x", options: str = "", before: str = "") -> IRModule:
    """The adjoint of a loop of some body, over `w`, from a carry that is all `x` at the start."""
    carry = f"R.Tensor(({ROWS}, {WIDTH}), 'float32')"
    carry = carry if start == "x" else f"R.Tuple({carry}, {carry})"
    mod = parse_functions(f"""
        @R.function
        def main(
            x: R.Tensor(({ROWS}, {WIDTH}), "float32"),
            ws: R.Tensor(({LAYERS}, {WIDTH}, {WIDTH}), "float32"),
        ):
            {before}
            @R.function
            def step(carry: {carry}, w: R.Tensor(({WIDTH}, {WIDTH}), "float32")):
                {step}
            out = R.scan(step, {start}, ws{options})
            last = out[0]{"" if start == "x" else "[0]"}
            loss = R.sum(R.multiply(last, last))
            return loss
        """)
    return simple_adjoint(mod)


def simple_adjoint(mod: IRModule, wanted: Sequence[str] | None = None) -> IRModule:
    return prepared(Gradient("main", wanted, lazy=True)(mod))


def gradients(mod: IRModule) -> Any:
    """Computed one operation after the other: what XLA fuses it may round once or twice."""
    random = np.random.default_rng(0)
    x = random.normal(size=(ROWS, WIDTH)).astype("float32")
    ws = (random.normal(size=(LAYERS, WIDTH, WIDTH)) / 6).astype("float32")
    with jax.disable_jit():
        return to_jax(mod, ADJOINT)(x, ws)


STACK = LAYERS * ROWS * WIDTH * 4  # the bytes of one value for all steps


@pytest.mark.parametrize("results", ["(h, ())", "(h, b)"])
@pytest.mark.parametrize(
    ("rule", "stacks"), [("cheap", 3), ("all", 1)], ids=["what is cheap", "everything"]
)
def test_fewer_values_are_stacked(results: str, rule: str, stacks: int) -> None:
    """Of what four values need, two products and the carry suffice, or the carry alone."""
    mod = adjoint(results)
    given = STACK if results == "(h, b)" else 0
    found = with_lean_loops(mod, ADJOINT, lambda s: rule == "all" or s.fusible, 1e18)
    before, after = (temporary_bytes(m, ADJOINT) for m in (mod, found))
    assert before > 4 * STACK
    assert stacks * STACK < after < (stacks + 0.8) * STACK + given
    chex.assert_trees_all_equal(gradients(found), gradients(mod))


def test_only_so_much_is_computed_again() -> None:
    mod = adjoint()
    assert with_lean_loops(mod, ADJOINT, lambda s: True, 1000) is mod


def test_the_dearest_steps_are_spared() -> None:
    """Half of what both products take is enough for one of them."""
    mod = adjoint()
    both = LAYERS * 2 * 2 * ROWS * WIDTH * WIDTH
    found = with_lean_loops(mod, ADJOINT, lambda s: True, both * 0.75)
    assert 2 * STACK < temporary_bytes(found, ADJOINT) < 2.8 * STACK
    chex.assert_trees_all_equal(gradients(found), gradients(mod))


def test_what_loops_compute_counts() -> None:
    """The products alone of a step are six: two, each with two gradients."""
    mod = adjoint()
    total = Planner(Program.of(function_of(mod, ADJOINT), mod, ADJOINT)).total
    assert total > LAYERS * 6 * 2 * ROWS * WIDTH * WIDTH


def test_what_saves_nothing_stays() -> None:
    mod = adjoint()
    assert with_lean_loops(mod, ADJOINT, lambda s: False, 1e18) is mod


LAYER = "a = R.matmul(carry, w)\n                return (R.nn.gelu(a), ())"
# The second part of the carry is needed for the first, which follows from it and the product.
PAIR = """before = carry[0]
                side = carry[1]
                a = R.matmul(before, w)
                b = R.multiply(R.tanh(a), side)
                return ((R.add(R.nn.gelu(a), side), b), ())"""


@pytest.mark.parametrize(
    ("step", "start", "stacks"), [(LAYER, "x", 1), (PAIR, "(x, x)", 2)], ids=["one", "a pair"]
)
def test_what_a_step_got_follows_from_the_step_before(step: str, start: str, stacks: int) -> None:
    """So it is not stacked, and the first step got what the loop did."""
    mod = layers(step, start)
    found = with_lean_loops(mod, ADJOINT, lambda s: s.fusible, 1e18)
    assert temporary_bytes(mod, ADJOINT) > (stacks + 1) * STACK
    assert stacks * STACK < temporary_bytes(found, ADJOINT) < (stacks + 0.8) * STACK
    chex.assert_trees_all_equal(gradients(found), gradients(mod))


def test_what_a_step_got_is_of_outside_the_loop() -> None:
    """All steps but the first got it, so none of it is stacked."""
    lines = (
        "before = carry[0]",
        "side = R.tanh(carry[1])",
        "return ((R.matmul(R.multiply(before, side), w), outside), ())",
    )
    mod = layers(BREAK.join(lines), "(x, x)", before="outside = R.sin(x)")
    found = with_lean_loops(mod, ADJOINT, lambda s: s.fusible, 1e18)
    assert temporary_bytes(found, ADJOINT) < temporary_bytes(mod, ADJOINT) - 0.8 * STACK
    chex.assert_trees_all_equal(gradients(found), gradients(mod))


def test_one_loop_after_the_other() -> None:
    """The second starts with what the first gives, and each stacks one value."""
    mod = parse_functions(f"""
        @R.function
        def main(
            x: R.Tensor(({ROWS}, {WIDTH}), "float32"),
            ws: R.Tensor(({LAYERS}, {WIDTH}, {WIDTH}), "float32"),
        ):
            @R.function
            def first(carry: R.Tensor(({ROWS}, {WIDTH}), "float32"),
                      w: R.Tensor(({WIDTH}, {WIDTH}), "float32")):
                return (R.nn.gelu(R.matmul(carry, w)), ())
            @R.function
            def second(carry: R.Tensor(({ROWS}, {WIDTH}), "float32"),
                       w: R.Tensor(({WIDTH}, {WIDTH}), "float32")):
                return (R.nn.silu(R.matmul(carry, w)), ())
            half = R.scan(first, x, ws)
            whole = R.scan(second, half[0], ws)
            loss = R.sum(whole[0])
            return loss
        """)
    mod = simple_adjoint(mod)
    found = with_lean_loops(mod, ADJOINT, lambda s: s.fusible, 1e18)
    assert found.script().count("R.scan") == 4 + mod["main"].script().count("R.scan")
    assert temporary_bytes(found, ADJOINT) <= 0.75 * temporary_bytes(mod, ADJOINT)
    chex.assert_trees_all_equal(gradients(found), gradients(mod))


def recurrent(gates: str) -> IRModule:
    """The adjoint of a loop over data, whose steps have few rows: their products come after it."""
    mod = parse_functions(f"""
        @R.function
        def main(
            w: R.Tensor((64, 64), "float32"), start: R.Tensor((8, 64), "float32"),
            xs: R.Tensor(({LAYERS}, 8, 64), "float32"),
        ):
            @R.function
            def step(h: R.Tensor((8, 64), "float32"), x: R.Tensor((8, 64), "float32")):
                z = R.add(R.matmul(h, w), x)
                {gates}
            out = R.scan(step, start, xs)
            loss = R.sum(R.multiply(out[0], out[0]))
            return loss
        """)
    return simple_adjoint(mod, ["w", "start"])


@pytest.mark.parametrize(
    ("gates", "before"),
    [
        ("return (R.tanh(z), ())", 3),
        (
            "kept = R.sigmoid(z)\n"
            + 16 * " "
            + "return (R.add(R.multiply(kept, h), R.tanh(z)), ())",
            4,
        ),
    ],
    ids=["tanh", "gated"],
)
def test_the_way_back_writes_over_what_it_has_read(gates: str, before: int) -> None:
    """The adjoints of z take the memory of what they follow from; h is read after the loop."""
    mod = recurrent(gates)
    found = with_lean_loops(mod, ADJOINT, lambda s: s.fusible, 1e18)
    stack = LAYERS * 8 * 64 * 4
    assert before * stack < temporary_bytes(mod, ADJOINT) < (before + 0.8) * stack
    assert 2 * stack < temporary_bytes(found, ADJOINT) < 2.8 * stack
    random = np.random.default_rng(0)
    shapes = ((64, 64), (8, 64), (LAYERS, 8, 64))
    args = [random.normal(size=shape, scale=0.1).astype("float32") for shape in shapes]
    results = [to_jax(m, ADJOINT)(*args) for m in (found, mod)]
    chex.assert_trees_all_close(*results, rtol=1e-6, atol=2e-4)  # of sums of up to 200


@pytest.mark.parametrize(
    ("step", "options"),
    [(LAYER, ", reverse=True"), ("return (carry + R.nn.gelu(R.matmul(carry, w)), ())", "")],
    ids=["the last comes first", "it is needed itself"],
)
def test_what_a_step_got_is_stacked_else(step: str, options: str) -> None:
    mod = layers(step, options=options)
    found = with_lean_loops(mod, ADJOINT, lambda s: s.fusible, 1e18)
    assert "dynamic_slice" not in found.script()
    chex.assert_trees_all_equal(gradients(found), gradients(mod))


def test_a_loop_without_steps() -> None:
    """There is no row that a step could read of the stacks."""
    mod = parse_functions("""
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), ws: R.Tensor((0, 3, 3), "float32")):
            @R.function
            def step(carry: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 3), "float32")):
                return (R.nn.gelu(R.matmul(carry, w)), ())
            out = R.scan(step, x, ws)
            loss = R.sum(out[0])
            return loss
        """)
    mod = simple_adjoint(mod)
    found = with_lean_loops(mod, ADJOINT, lambda s: s.fusible, 1e18)
    assert "dynamic_slice" not in found.script()
    x, ws = np.ones((2, 3), "float32"), np.ones((0, 3, 3), "float32")
    loss, gradients = to_jax(found, ADJOINT)(x, ws)
    chex.assert_trees_all_equal((loss, gradients), (np.float32(6), (x, ws)))


def test_policies_and_budgets_reach_into_loops() -> None:
    mod = adjoint()
    whole = temporary_bytes(mod, ADJOINT)
    taken = [
        temporary_bytes(Rematerialize(ADJOINT, policy=policy)(mod), ADJOINT)
        for policy in ("none", "free", "balanced", "minimal")
    ]
    assert taken == sorted(taken, reverse=True)
    assert taken[0] == whole
    assert taken[-1] <= 0.45 * whole
    small = Rematerialize(ADJOINT, budget_bytes=0.5)(mod)
    assert temporary_bytes(small, ADJOINT) <= 0.5 * whole
    chex.assert_trees_all_equal(gradients(small), gradients(mod))
    with pytest.raises(MemoryPlanError, match="cannot be computed within 10 bytes"):
        Rematerialize(ADJOINT, budget_bytes=10)(mod)


def test_a_loop_that_may_end_early() -> None:
    """Whether it goes on is kept: by numbers rounded otherwise it might end at another step."""
    mod = parse_functions("""
        @R.function
        def main(x: R.Tensor((8, 8), "float32")):
            @R.function
            def goes_on(c: R.Tensor((8, 8), "float32")):
                return R.less(R.sum(c), R.const(30.0, "float32"))
            @R.function
            def body(c: R.Tensor((8, 8), "float32")):
                return R.add(c, R.tanh(R.matmul(c, c)))
            last = R.while_loop(goes_on, body, x, max_iter=6)
            loss = R.sum(R.multiply(last, last))
            return loss
        """)
    mod = Gradient("main", lazy=True)(mod)
    assert with_lean_loops(mod, ADJOINT, lambda step: True, 1e9) is mod


def test_a_loop_inside_a_step_is_computed_again_with_its_own_steps() -> None:
    """What they are is code, which is written into the way back: no stack could hold it."""
    mod = parse_functions("""
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), ws: R.Tensor((4, 3, 3), "float32")):
            @R.function
            def step(carry: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 3), "float32")):
                a = R.matmul(carry, w)
                @R.function
                def inner(c: R.Tensor((2, 3), "float32"), u: R.Tensor((3,), "float32")):
                    d = R.tanh(R.add(R.multiply(c, u), a))
                    return (d, d)
                found = R.scan(inner, a, w)
                return (R.tanh(found[0]), ())
            out = R.scan(step, x, ws)
            loss = R.sum(R.multiply(out[0], out[0]))
            return loss
        """)
    mod = simple_adjoint(mod)
    lean = with_lean_loops(mod, ADJOINT, lambda step: step.pure, 1e18)
    assert "found_kept_again = R.scan(" in lean.script(show_all_types=False)
    assert_structural_equal(from_source(lean.script()), lean)
    random = np.random.default_rng(0)
    args = [random.normal(size=shape).astype("float32") for shape in ((2, 3), (4, 3, 3))]
    found, expected = (run(to_jax(m, ADJOINT), *args) for m in (lean, mod))
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("policy", ["free", "minimal"])
def test_a_value_that_is_told_to_be_kept_is_there_as_it_was(policy: str) -> None:
    """Loops that would stack less, or drop a name of it, are not taken."""
    deep = adjoint()
    assert "_again" in Rematerialize(ADJOINT, policy=policy)(deep).script()
    stacks = next(b.var for b in deep[ADJOINT].body.bindings() if b.var.name.endswith("_stacked"))
    kept = Rematerialize(ADJOINT, policy=policy, must_keep=[stacks.name])(deep)
    types = {b.var.name: b.var.ty for b in kept[ADJOINT].body.bindings()}
    assert types[stacks.name] == stacks.ty
