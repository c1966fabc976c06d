"""The planner against the best plans there are, on programs of up to 40 steps."""

from itertools import chain, combinations

import pytest
from exact_plans import least_recomputation, random_program
from parsing import parse_flow

from relaxjax.passes import CanonicalizeBindings, EliminateCommonSubexpr, Gradient, LegalizeOps
from relaxjax.passes.memory.planning.planner import Planner
from relaxjax.passes.memory.program.program import Program

# The scalars beside the values, which the integer program leaves out.
SCALARS = 64


@pytest.mark.parametrize(("seed", "length"), [(1, 10), (2, 12), (3, 14), (9, 18)])
def test_recomputation_is_within_5_percent_of_the_least(seed: int, length: int) -> None:
    program = random_program(seed, length, length)
    assert len(program.steps) <= 40
    planner = Planner(program)
    most, least = planner.none.peak, planner.minimal.peak
    for share in (0.8, 0.5, 0.2):
        budget = int(least + share * (most - least))
        best = least_recomputation(program, budget)
        plan = planner.within(budget + SCALARS)
        assert best is not None
        assert plan is not None
        assert plan.extra <= 1.05 * best + SCALARS


def test_what_cannot_be_is_not_found() -> None:
    program = random_program(3, 8, 8)
    largest = max(step.size for step in program.steps)
    assert least_recomputation(program, largest) is None
    assert Planner(program).within(largest) is None


def test_a_real_program_is_planned_as_well_as_can_be() -> None:
    """All choices of what to keep are tried, under the model of XLA that the planner goes by."""
    body = """
        a = R.tanh(R.matmul(x, w0))
        b = R.tanh(R.matmul(a, w1))
        c = R.tanh(R.matmul(b, w2))
        loss = R.sum(R.multiply(c, c))
    """
    mod = parse_flow(body, x=(256, 16), w0=(16, 32), w1=(32, 8), w2=(8, 32))
    adjoint = Gradient("main", ["w0", "w1", "w2"])(mod)
    for one in (LegalizeOps(), EliminateCommonSubexpr(), CanonicalizeBindings()):
        adjoint = one(adjoint)
    program = Program.of(adjoint["main_adjoint"], adjoint, "main_adjoint")
    assert len(program.steps) <= 40
    planner = Planner(program)
    values = [step.var for step in program.forward]
    choices = chain.from_iterable(combinations(values, n) for n in range(len(values) + 1))
    plans = [planner.plan_of(frozenset(kept)) for kept in choices]
    peaks = sorted({plan.peak for plan in plans if plan.peak < planner.none.peak})
    assert peaks
    for budget in peaks:
        best = min(plan.extra for plan in plans if plan.peak <= budget)
        found = planner.within(budget)
        assert found is not None
        assert found.peak <= budget
        assert found.extra <= 1.05 * best
