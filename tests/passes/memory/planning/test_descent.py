"""Plans in which one value after another is computed again, because it is there at the peak."""

from collections.abc import Sequence

import pytest
from parsing import parse_flow

from relaxjax.ir import Var
from relaxjax.passes import EliminateCommonSubexpr, Gradient, LegalizeOps, Sequential
from relaxjax.passes.memory.planning.descent import lowered
from relaxjax.passes.memory.planning.plan import Plan
from relaxjax.passes.memory.planning.planner import BALANCED, Planner
from relaxjax.passes.memory.program.program import Program

ROWS = 2048
# The first layer has few inputs, so it costs little to compute it again. A cut between segments
# goes where few bytes cross, which is nowhere in particular.
LAYERS = """
    a = R.tanh(R.matmul(x, first))
    b = R.tanh(R.matmul(a, second))
    c = R.tanh(R.matmul(b, third))
    d = R.matmul(c, head)
    loss = R.sum(R.multiply(d, d))
"""


def planner_of(layers: str, **shapes: Sequence[int]) -> Planner:
    mod = parse_flow(layers, **shapes)
    params = [param for param in mod["main"].params if param.name != "x"]
    made = Sequential([Gradient("main", params), LegalizeOps(), EliminateCommonSubexpr()])(mod)
    return Planner(Program.of(made["main_adjoint"], made, "main_adjoint"))


@pytest.fixture(scope="module", name="planner")
def planner_of_layers() -> Planner:
    shapes = {"x": (ROWS, 32), "first": (32, 128), "second": (128, 128)}
    shapes |= {"third": (128, 128), "head": (128, 8)}
    return planner_of(LAYERS, **shapes)


def again(plan: Plan) -> set[str]:
    return {task.step.var.name for task in plan.tasks if task.again and task.step.size}


def test_balanced_computes_the_one_value_again_that_lowers_the_peak(planner: Planner) -> None:
    balanced = planner.balanced
    assert "a" in again(balanced)
    assert {"b", "c"}.isdisjoint(again(balanced))
    assert balanced.peak < 0.85 * planner.none.peak
    assert balanced.extra <= BALANCED * planner.total


def without(planner: Planner, plan: Plan, var: Var) -> Plan | None:
    return planner.plan_of(plan.kept - {var}) if var in plan.kept else None


def test_no_plan_is_taken_that_is_not_allowed(planner: Planner) -> None:
    def one_less(plan: Plan, var: Var) -> Plan | None:
        return without(planner, plan, var)

    assert lowered(planner.none, one_less, lambda plan: False, 100) == planner.none
    assert lowered(planner.none, one_less, lambda plan: True, 100).peak < planner.none.peak


@pytest.mark.parametrize("tries", [0, 1, 3])
def test_no_more_plans_are_tried_than_may_be(planner: Planner, tries: int) -> None:
    tried = list[Plan]()

    def one_less(plan: Plan, var: Var) -> Plan | None:
        found = without(planner, plan, var)
        tried.extend([found] if found is not None else [])
        return found

    lowered(planner.none, one_less, lambda plan: True, tries)
    assert len(tried) <= tries
