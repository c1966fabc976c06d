"""What a plan need not compute again: it fits below the peak."""

from collections.abc import Mapping

import chex
import numpy as np
import pytest

from relaxjax import BlockBuilder, IRModule, TensorType, Var, to_jax
from relaxjax.ir import assert_structural_equal
from relaxjax.passes import EliminateCommonSubexpr, Gradient, LegalizeOps, Rematerialize, Sequential
from relaxjax.passes.memory.planning.plan import Plan
from relaxjax.passes.memory.planning.planner import Planner
from relaxjax.passes.memory.planning.spare_room import fitting
from relaxjax.passes.memory.program.program import Program
from relaxjax.script import relax as R

ROWS, WIDTHS = 512, (256, 256, 256, 64, 64, 64)


def narrowing() -> IRModule:
    """The adjoint of layers of which the last ones are narrow: the peak is that of the first."""
    builder = BlockBuilder()
    x = Var("x", TensorType((ROWS, 32), "float32"))
    sizes = zip((32, *WIDTHS), WIDTHS, strict=False)
    weights = [Var(f"w{i}", TensorType(size, "float32")) for i, size in enumerate(sizes)]
    with builder.function("main", [x, *weights]):
        with builder.dataflow():
            h = x
            for weight in weights:
                h = builder.emit(R.tanh(R.tanh(builder.emit(R.matmul(h, weight)))))
            loss = builder.emit_output(R.sum(R.multiply(h, h)))
        builder.emit_func_output(loss)
    made = Sequential([Gradient("main", weights), LegalizeOps(), EliminateCommonSubexpr()])
    return made(builder.get())


@pytest.fixture(scope="module", name="planner")
def planner_of_layers() -> Planner:
    mod = narrowing()
    return Planner(Program.of(mod["main_adjoint"], mod, "main_adjoint"))


def again(plan: Plan) -> Mapping[str, int]:
    """What is computed again, by name, and its bytes."""
    return {task.step.var.name: task.step.size for task in plan.tasks if task.again}


def test_what_fits_below_the_peak_is_kept(planner: Planner) -> None:
    free = planner.free
    assert {4 * ROWS * 64, 4 * ROWS * 256} == set(again(free).values())
    plan = planner.with_spare_room(free, planner.none.peak)
    assert again(plan).items() < again(free).items()
    assert free.peak <= plan.peak <= 1.05 * free.peak < planner.none.peak


def test_no_peak_is_higher_than_was_asked_for(planner: Planner) -> None:
    most = planner.free.peak - 1
    assert planner.with_spare_room(planner.free, most) == planner.free


def test_the_smallest_come_first(planner: Planner) -> None:
    free = planner.free
    for most in np.linspace(free.peak, planner.none.peak, 9, dtype=int):
        kept = {var.name for var in fitting(free, int(most))}
        sizes = {name: size for name, size in again(free).items() if size}
        assert max((sizes[name] for name in kept), default=0) <= max(
            (size for name, size in sizes.items() if name not in kept), default=2**40
        )


def test_nothing_small_is_looked_at(planner: Planner) -> None:
    free = planner.free
    assert all(1024 * planner.program.step_of[v].size > free.peak for v in fitting(free, 2**40))


def test_the_default_computes_less_again_and_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relaxjax.passes.memory.planning.estimate.SMALL", 1024)
    for limit in ("SMALL", "LARGE"):
        monkeypatch.setattr(f"relaxjax.passes.memory.planning.decisions.{limit}", 1024)
    mod = narrowing()
    default = Rematerialize("main_adjoint", policy="auto")(mod)
    # As it hardly takes more, the default is "free", too.
    assert_structural_equal(Rematerialize("main_adjoint", policy="free")(mod), default)
    monkeypatch.setattr("relaxjax.passes.memory.planning.decisions._AS_GOOD", 0.0)
    free = Rematerialize("main_adjoint", policy="free")(mod)
    texts = [made.script().count("_again") for made in (mod, default, free)]
    assert texts == sorted(set(texts))
    rng = np.random.default_rng(0)
    args = [
        rng.normal(0, 0.2, [int(dim) for dim in param.ty.dims]).astype(np.float32)
        for param in mod["main_adjoint"].params
    ]
    found, wanted = (to_jax(made, "main_adjoint")(*args) for made in (default, mod))
    chex.assert_trees_all_close(found, wanted, rtol=1e-6)
