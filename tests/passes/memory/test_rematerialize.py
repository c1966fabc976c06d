"""Backward programs that need less memory: the same numbers, a budget kept, and what is refused."""

from typing import Any

import chex
import jax
import numpy as np
import pytest
from differentiable_programs import LARGE, programs
from differentiable_programs import Program as RandomProgram
from full import how_many
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st
from legal_adjoints import prepared
from parsing import parse_flow, parse_functions
from pass_samples import Case, sample
from whole_image_models import unet

from relaxjax.ir import BlockBuilder, IRModule, TensorType, Var, assert_structural_equal
from relaxjax.lowering import to_jax
from relaxjax.lowering.memory import temporary_bytes
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes import Gradient, MemoryPlanError, Rematerialize
from relaxjax.passes.memory.planning.planner import Planner
from relaxjax.passes.memory.program.program import Program
from relaxjax.script import relax as R
from relaxjax.testing.equations import run

ADJOINT = "main_adjoint"
LAYERS, ROWS, WIDTH = 16, 256, 64


def layers() -> IRModule:
    """The adjoint of a chain of layers with a GELU each."""
    builder = BlockBuilder()
    x = Var("x", TensorType((ROWS, WIDTH), "float32"))
    weights = [Var(f"w{i}", TensorType((WIDTH, WIDTH), "float32")) for i in range(LAYERS)]
    with builder.function("main", [x, *weights]):
        with builder.dataflow():
            y = x
            for i, weight in enumerate(weights):
                z = builder.emit(R.matmul(y, weight), f"z{i}")
                y = builder.emit(R.nn.gelu(z), f"y{i}")
            loss = builder.emit_output(R.sum(y * y))
        builder.emit_func_output(loss)
    return prepared(Gradient("main")(builder.get()))


@pytest.fixture(scope="module")
def deep() -> IRModule:
    return layers()


@pytest.fixture(scope="module")
def everything_kept(deep: IRModule) -> int:
    return temporary_bytes(deep, ADJOINT)


def arguments() -> list[Any]:
    random = np.random.default_rng(0)
    x = random.normal(size=(ROWS, WIDTH)).astype("float32")
    return [x, *(random.normal(size=(LAYERS, WIDTH, WIDTH)) / 8).astype("float32")]


def test_what_is_cheap_is_computed_again() -> None:
    mod = parse_functions("""
        @R.function
        def main_adjoint(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.tanh(a)
                c = R.matmul(b, w)
                d = R.tanh(c)
                loss = R.sum(d)
                e = R.matmul(R.full((2, 3), loss), w)
                g = R.multiply(e, b)
                w_adjoint = R.matmul(R.permute_dims(b, [1, 0]), g)
                R.output(loss, w_adjoint)
            return (loss, (w_adjoint,))
        """)
    expected = parse_functions("""
        @R.function
        def main_adjoint(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.tanh(a)
                c = R.matmul(b, w)
                d = R.tanh(c)
                loss = R.sum(d)
                lv = R.full((2, 3), loss)
                e = R.matmul(lv, w)
                a_late = R.grad.delay(a, e)
                b_again = R.tanh(a_late)
                g = R.multiply(e, b_again)
                lv1 = R.permute_dims(b_again, [1, 0])
                w_adjoint = R.matmul(lv1, g)
                R.output(loss, w_adjoint)
            return (loss, (w_adjoint,))
        """)
    found = Rematerialize(ADJOINT, must_recompute=["b"], policy="none")(mod)
    assert found.attrs["platform"] == chosen_platform()
    assert_structural_equal(found.without_attr("platform"), expected, map_free_vars=True)


def test_what_divides_a_copy_waits() -> None:
    """Else XLA spreads the reciprocals of the sums over both quotients at once, and keeps those."""
    mod = parse_functions("""
        @R.function
        def main_adjoint(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                e = R.exp(a)
                s = R.sum(e, axis=[1], keepdims=True)
                p = L.div(e, s)
                loss = R.sum(R.matmul(p, w))
                g = R.matmul(R.full((2, 3), loss), w)
                w_adjoint = R.matmul(R.permute_dims(p, [1, 0]), g)
                R.output(loss, w_adjoint)
            return (loss, (w_adjoint,))
        """)
    written = Rematerialize(ADJOINT, must_keep=["a", "s"], must_recompute=["p"], policy="none")(mod)
    lines = [line.strip() for line in written.script().splitlines()]
    found = [line for line in lines if line.startswith(("e_again", "s_late", "p_again"))]
    assert [line.partition(" = ")[2] for line in found] == [
        "R.exp(a_late)",
        "R.grad.delay(s, g)",
        "L.div(e_again, s_late)",
    ]


@pytest.mark.parametrize(
    ("policy", "most"), [("none", 1.0), ("free", 0.5), ("balanced", 0.4), ("minimal", 0.4)]
)
def test_a_policy_saves_memory_and_keeps_every_number(
    deep: IRModule, everything_kept: int, policy: str, most: float
) -> None:
    found = Rematerialize(ADJOINT, policy=policy)(deep)
    assert temporary_bytes(found, ADJOINT) <= most * everything_kept
    args = arguments()
    one, other = (jax.jit(to_jax(mod, ADJOINT))(*args) for mod in (found, deep))
    chex.assert_trees_all_equal(one, other)


def test_nothing_changes_where_everything_may_be_kept(deep: IRModule) -> None:
    assert Rematerialize(ADJOINT, policy="none")(deep) is deep
    found = Rematerialize(ADJOINT, budget_bytes=2**40)(deep)
    assert found[ADJOINT].body is deep[ADJOINT].body
    assert found[ADJOINT].attrs["memory_budget"] == 2**40
    assert found.attrs["platform"] == chosen_platform()  # whose compiler says that it fits


def test_budgets_hold_and_a_smaller_one_never_takes_more(
    deep: IRModule, everything_kept: int
) -> None:
    taken = []
    for share in (0.8, 0.4, 0.3):
        found = Rematerialize(ADJOINT, budget_bytes=share)(deep)
        taken.append(temporary_bytes(found, ADJOINT))
        assert taken[-1] <= share * everything_kept
    assert taken == sorted(taken, reverse=True)


def test_a_budget_that_cannot_hold_is_an_error_with_one_that_can(deep: IRModule) -> None:
    match = r"within 1,000 bytes, in whatever order: [\d,]+ bytes"
    with pytest.raises(MemoryPlanError, match=match):
        Rematerialize(ADJOINT, budget_bytes=1000)(deep)


@pytest.mark.parametrize("policy", ["free", "balanced"])
def test_policies_compile_nothing(
    deep: IRModule, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    def never(*args: Any, **options: Any) -> int:
        raise AssertionError("compiled")

    monkeypatch.setattr("relaxjax.passes.memory.rematerialize.temporary_bytes", never)
    assert "_again" in Rematerialize(ADJOINT, policy=policy)(deep).script()


@pytest.mark.parametrize("sign", [1, -1])
def test_minimal_takes_no_more_than_balanced_whatever_is_predicted(
    deep: IRModule, monkeypatch: pytest.MonkeyPatch, sign: int
) -> None:
    """XLA is asked, which here counts what waits for, or against, a program."""

    def counted(mod: IRModule, name: str) -> int:
        return sign * mod.script().count("R.grad.delay(")

    monkeypatch.setattr("relaxjax.passes.memory.rematerialize.temporary_bytes", counted)
    balanced, minimal = (
        counted(Rematerialize(ADJOINT, policy=policy)(deep), ADJOINT)
        for policy in ("balanced", "minimal")
    )
    assert (minimal == 0 < balanced) if sign == 1 else (minimal < balanced)


def of_unet(**sizes: int) -> IRModule:
    model = unet("float32", **sizes)
    names = [param.name for param in model.module["main"].params[: len(model.params)]]
    return prepared(Gradient("main", require_grads=names, lazy=True)(model.module))


def test_what_would_save_little_stays_as_it_is() -> None:
    """A plan is there, and would take less: by a hundredth of what is needed, and no more."""
    mod = of_unet()
    planner = Planner(Program.of(mod[ADJOINT], mod, ADJOINT))
    assert 0.99 * planner.none.peak < planner.free.peak < planner.none.peak
    assert Rematerialize(ADJOINT, policy="free")(mod) is mod


def test_what_would_save_a_fifth_is_computed_again() -> None:
    mod = of_unet(batch=4, size=16, few=4)
    planned = Rematerialize(ADJOINT, policy="free")(mod)
    # XLA's own count depends on the CPU that it compiles for: on one it is 0.82.
    assert temporary_bytes(planned, ADJOINT) < 0.85 * temporary_bytes(mod, ADJOINT)


def test_small_sums_are_kept() -> None:
    """All of a tensor is not read again for a number a row."""
    builder = BlockBuilder()
    x = Var("x", TensorType((1024, 128), "float32"))
    w = Var("w", TensorType((128, 128), "float32"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            y = x
            for _ in range(8):
                z = builder.emit(R.matmul(y, w))
                y = builder.emit(R.sin(z * R.mean(z * z, axis=1, keepdims=True)))
            loss = builder.emit_output(R.sum(y))
        builder.emit_func_output(loss)
    mod = prepared(Gradient("main")(builder.get()))
    plan = Planner(Program.of(mod[ADJOINT], mod, ADJOINT)).free
    again = [task.step for task in plan.tasks if task.again]
    assert again
    assert not any(step.is_reduction for step in again)


def test_random_numbers_are_drawn_alike() -> None:
    """What a dropout drew for the forward part is drawn again, bit for bit."""
    body = """
        y = R.tanh(x)
        noise = R.random.uniform(R.random.key(7), (64, 64))
        z = R.multiply(y, noise)
        gv = R.sum(R.exp(R.sin(z)))
    """
    mod = parse_flow(body, x=(64, 64))
    kept = prepared(Gradient("main")(mod))
    found = Rematerialize(ADJOINT, policy="none", must_recompute=["noise"])(kept)
    assert "noise_again" in found.script()
    x = np.linspace(-1, 1, 4096, dtype="float32").reshape(64, 64)
    one, other = (jax.jit(to_jax(m, ADJOINT))(x) for m in (found, kept))
    chex.assert_trees_all_equal(one, other)


def test_names_decide(deep: IRModule) -> None:
    found = Rematerialize(ADJOINT, policy="free", must_keep=["y3"])(deep)
    assert "y3_again" not in found.script()
    assert "y4_again" in found.script()
    with pytest.raises(MemoryPlanError, match="no forward value `y99`; did you mean `y9`"):
        Rematerialize(ADJOINT, must_keep=["y99"])(deep)
    with pytest.raises(MemoryPlanError, match="`y3` is to be kept and to be computed again: say"):
        Rematerialize(ADJOINT, must_keep=["y3", "y4"], must_recompute=["y3"])(deep)


@pytest.mark.parametrize(
    ("body", "name", "reason"),
    [
        ("if flag:\n    y = R.sin(x)\nelse:\n    y = R.exp(x)", "y_kept", "is chosen by an `if`"),
        (
            (
                "@R.function\ndef step(carry: R.Tensor((4,), 'float32'), _: R.Tuple()):\n"
                "    return (R.sin(carry), ())\ny = R.scan(step, x, (), length=3)[0]"
            ),
            "step",
            "is a function",
        ),
        (
            "z = R.sin(x)\nfirst = R.argmax(z)\ny = R.take(z, first)",
            "first",
            "decides by numbers that may be rounded otherwise",
        ),
    ],
)
def test_what_is_kept_whole_is_not_computed_again(body: str, name: str, reason: str) -> None:
    lines = body.replace("\n", "\n    ")
    mod = parse_functions(
        "@R.function\ndef main(x: R.Tensor((4,), 'float32'), flag: R.Tensor((), 'bool')):\n"
        f"    {lines}\n    loss = R.sum(y * y)\n    return loss"
    )
    adjoint = Gradient("main", ["x"])(mod)
    names = [b.var.name for b in adjoint[ADJOINT].body.bindings()]
    (found,) = (other for other in names if other.endswith(name))
    message = f"`{found}` cannot be computed again, because it {reason}: take it from what is to be"
    with pytest.raises(MemoryPlanError, match=message):
        Rematerialize(ADJOINT, policy="none", must_recompute=[found])(adjoint)


def test_one_wish_at_a_time(deep: IRModule) -> None:
    with pytest.raises(ValueError, match="leave the budget or the policy out"):
        Rematerialize(ADJOINT, budget_bytes=10, policy="free")(deep)
    match = r"no memory policy `fre`: the policies .*; did you mean `free`"
    with pytest.raises(ValueError, match=match):
        Rematerialize(ADJOINT, policy="fre")(deep)
    with pytest.raises(ValueError, match="no memory policy ``: the policies"):
        Rematerialize(ADJOINT, policy="")(deep)


def test_only_an_adjoint_has_a_backward_part() -> None:
    mod = parse_functions("@R.function\ndef main(x: R.Tensor((2,), 'float32')):\n    return x")
    with pytest.raises(MemoryPlanError, match="not what an adjoint returns: a result and a tuple"):
        Rematerialize("main")(mod)


def test_one_shape_is_planned_for() -> None:
    mod = parse_flow("gv = R.sum(R.exp(x))\nreturn gv", x=("n",))
    message = (
        r"planned for one size of arguments, but `main_adjoint` takes `x` of type R.Tensor\(\(n,\)"
        r'.*: give symbolic dimensions their values .* by BindSymbolicVars\({"n": 32}\)'
    )
    with pytest.raises(MemoryPlanError, match=message):
        Rematerialize(ADJOINT)(Gradient("main")(mod))


@pytest.mark.usefixtures("kept_on_disk")
def test_random_programs_keep_their_results() -> None:
    """Whatever can be computed again is, branches and loops being kept; and so by a kept plan."""

    @settings(
        phases=[Phase.explicit, Phase.generate],
        max_examples=how_many(6, 500),
        suppress_health_check=LARGE,
    )
    @given(programs(["float64"]), st.sampled_from(["free", "minimal"]))
    def one(program: RandomProgram, policy: str) -> None:
        index, cotangent = program.target_index, program.cotangent
        if cotangent:
            return
        with jax.enable_x64(True):
            fixed = sample("BindSymbolicVars", Case(program.module, "main", program.args))[0]
            adjoint = Gradient("main", target_index=index)(fixed(program.module))
            try:
                found = Rematerialize(ADJOINT, policy=policy)(adjoint)
            except MemoryPlanError:
                reject()  # a value's shape depends on what a match_cast finds
            assert_structural_equal(Rematerialize(ADJOINT, policy=policy)(adjoint), found)
            expected = run(to_jax(adjoint, ADJOINT), *program.args)
            chex.assert_trees_all_equal(run(to_jax(found, ADJOINT), *program.args), expected)

    one()
