"""Values that wait until others are gone: less memory, and the same numbers."""

import chex
import jax
import numpy as np
import pytest
from legal_adjoints import prepared
from parsing import parse_functions
from whole_image_models import unet

from relaxjax.ir import IRModule, assert_structural_equal
from relaxjax.lowering import to_jax
from relaxjax.lowering.memory import temporary_bytes
from relaxjax.passes import ChannelsLast, Gradient, Rematerialize
from relaxjax.passes.differentiation.gradient import function_of
from relaxjax.passes.memory.planning.ordering import ordered
from relaxjax.passes.memory.planning.planner import Planner, in_order
from relaxjax.passes.memory.planning.recompute import rematerialized
from relaxjax.passes.memory.program.program import Program
from relaxjax.passes.memory.program.schedule import Order, schedule

ADJOINT = "main_adjoint"
TWO_PRODUCTS = """
@R.function
def main_adjoint(
    x: R.Tensor((256, 64), "float32"),
    v: R.Tensor((64, 256), "float32"),
    w: R.Tensor((64, 256), "float32"),
    u: R.Tensor((4, 256), "float32"),
):
    with R.dataflow():
        loss = R.max(x)
        a = R.matmul(x, v)
        b = R.matmul(x, w)
        less_a = R.matmul(u, a)
        less_b = R.matmul(u, b)
        R.output(loss, less_a, less_b)
    return (loss, (less_a, less_b))
"""
IN_TURN = TWO_PRODUCTS.replace(
    """
        a = R.matmul(x, v)
        b = R.matmul(x, w)
        less_a = R.matmul(u, a)
        less_b = R.matmul(u, b)
""",
    """
        b = R.matmul(x, w)
        less_b = R.matmul(u, b)
        x_late = R.grad.delay(x, less_b)
        a = R.matmul(x_late, v)
        less_a = R.matmul(u, a)
""",
)


def program_of(mod: IRModule) -> Program:
    return Program.of(function_of(mod, ADJOINT), mod, ADJOINT)


def assert_alike(one: IRModule, other: IRModule, args: list[chex.Array]) -> None:
    results = [jax.jit(to_jax(mod, ADJOINT))(*args) for mod in (one, other)]
    chex.assert_trees_all_equal(*results)


def assert_in_turn(found: IRModule) -> None:
    wanted = parse_functions(IN_TURN)
    assert_structural_equal(found[ADJOINT], wanted[ADJOINT], map_free_vars=True)


def test_large_values_come_one_after_the_other() -> None:
    before = parse_functions(TWO_PRODUCTS)
    plan = Planner(program_of(before)).none
    found = ordered(plan)
    assert found.peak <= 0.7 * plan.peak
    mod = rematerialized(before, ADJOINT, found)
    assert_structural_equal(mod, parse_functions(IN_TURN), map_free_vars=True)
    taken = [temporary_bytes(one, ADJOINT) for one in (mod, before)]
    assert taken[0] <= 0.7 * taken[1]
    random = np.random.default_rng(0)
    shapes = [(256, 64), (64, 256), (64, 256), (4, 256)]
    assert_alike(mod, before, [random.normal(size=s).astype("float32") for s in shapes])


@pytest.mark.parametrize("large", [1024, 2**40])
def test_they_do_so_by_default(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory is planned, be it lightly or by "free"."""
    monkeypatch.setattr("relaxjax.passes.memory.planning.estimate.SMALL", 1024)
    monkeypatch.setattr("relaxjax.passes.memory.planning.decisions.SMALL", 1024)
    monkeypatch.setattr("relaxjax.passes.memory.planning.decisions.LARGE", large)
    found = Rematerialize(ADJOINT, policy="auto")(parse_functions(TWO_PRODUCTS))
    assert_in_turn(found)


@pytest.mark.parametrize("policy", ["free", "balanced"])
def test_they_do_so_by_policy(policy: str) -> None:
    assert_in_turn(Rematerialize(ADJOINT, policy=policy)(parse_functions(TWO_PRODUCTS)))


def test_a_wait_that_saves_little_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prediction errs by as much."""
    plan = Planner(program_of(parse_functions(TWO_PRODUCTS))).none
    assert in_order(plan).peak < plan.peak
    monkeypatch.setattr("relaxjax.passes.memory.planning.planner._BY_WAITING", 0.1)
    assert in_order(plan) is plan


def test_what_is_in_turn_stays_as_it_is() -> None:
    mod = parse_functions(IN_TURN)
    plan = Planner(program_of(mod)).none
    assert ordered(plan) is plan


def test_nothing_waits_for_what_needs_it() -> None:
    program = program_of(parse_functions(TWO_PRODUCTS))
    named = {step.var.name: step.var for step in program.steps}
    kept = [step.var for step in program.residuals]
    order = Order((named["a"], False), None, named["less_a"])
    tasks = schedule(program, kept, orders=[order])
    assert [task.waits for task in tasks] == [()] * len(program.steps)


def test_budgets_are_kept_by_what_waits() -> None:
    """Nothing is computed again in these programs: there is little that could be."""
    before = parse_functions(TWO_PRODUCTS)
    mod = Rematerialize(ADJOINT, budget_bytes="70%")(before)
    assert temporary_bytes(mod, ADJOINT) <= 0.7 * temporary_bytes(before, ADJOINT)
    assert mod.script().count("R.grad.delay") == 1


def test_the_way_back_through_a_model() -> None:
    """Copies of what is computed again wait as well, each in the layout of its convolution."""
    model = unet("float32", batch=4, size=32, few=8, classes=4)
    wanted = [param.name for param in model.module["main"].params[: len(model.params)]]
    mod = prepared(Gradient("main", require_grads=wanted, lazy=True)(ChannelsLast()(model.module)))
    plan = Planner(program_of(mod)).minimal
    assert plan.orders
    found = rematerialized(mod, ADJOINT, plan)
    assert temporary_bytes(found, ADJOINT) <= 0.7 * temporary_bytes(mod, ADJOINT)
    assert_alike(found, mod, [*model.params, *model.inputs])
