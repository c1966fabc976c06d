"""Which plans are compiled for a budget, by what XLA has counted of others."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from relaxjax.ops.platform import lowering_for
from relaxjax.passes.memory.planning.decisions import within_budget
from relaxjax.passes.memory.planning.plans_by_count import Chooser, try_smallest
from relaxjax.passes.memory.program.step import MemoryPlanError


@dataclass(frozen=True)
class Plan:
    peak: int
    program: Any = None
    size: int = 0
    extra: int = 0


@dataclass(frozen=True)
class Planner:
    """One that keeps everything, one at half of it, and the smallest ones."""

    none: Plan
    half: Plan
    smallest: list[Plan]
    program: Any = None
    is_large: bool = False

    @property
    def waiting(self) -> Plan:
        return self.none

    @property
    def free(self) -> Plan:
        return self.half

    def within(self, target: int) -> Plan | None:
        return next((plan for plan in (self.half, *self.smallest) if plan.peak <= target), None)


def tried(planner: Planner, limit: int, beyond: int, known: dict[Any, int]) -> list[int]:
    """The peaks of the plans that are compiled, which take so many bytes beyond them."""
    made: Any = planner
    chooser = Chooser(made, lambda plan: plan.peak + beyond, known)
    before = len(known)
    found = chooser.within(limit)
    assert found is None or found.peak + beyond <= limit
    return [plan.peak for plan in list(known)[before:]]


PLANNER = Planner(Plan(1000), Plan(500), [Plan(300), Plan(400)])


@pytest.mark.parametrize(
    ("limit", "peaks"),
    [
        (700, [1000, 500]),  # the second one takes 600
        (580, [1000, 300]),  # one of 500 is expected to take 600 there, and is not compiled
        (350, [1000]),  # nor is anything else
    ],
)
def test_what_is_expected_to_be_too_much_is_not_compiled(limit: int, peaks: list[int]) -> None:
    assert tried(PLANNER, limit, 100, {}) == peaks


def test_the_least_of_a_large_program_is_not_looked_for() -> None:
    """That takes seconds. Each plan on the way is smaller by a share."""
    asked: list[int] = []

    class Large(Planner):
        def within(self, target: int) -> Plan | None:
            asked.append(target)
            return Plan(target) if target > 500 else None

    planner = Large(Plan(1000), Plan(990), smallest=[], is_large=True)
    assert tried(planner, 800, 100, {}) == [1000, 681]
    assert asked == [681]  # of 880, 774 and 681, the first that may take 800 with the 100 beyond


class Forms:
    """A program of one form, whose smallest plan takes far more than it is predicted to."""

    name, mod, tied = "loss_adjoint", None, None

    def chooser(self, mod: Any) -> Chooser:
        planner: Any = PLANNER
        counts = {1000: 1100, 500: 650, 300: 700, 400: 450}
        return Chooser(planner, lambda plan: counts[plan.peak])

    def lean(self, mod: Any) -> Iterator[Any]:
        return iter(())


def smallest_tried(limit: int, counts: dict[int, int]) -> list[int]:
    """The peaks of the plans of two forms that are compiled when nothing is expected to fit."""
    known: dict[Any, int] = {Plan(1000): 1000}
    forms: list[Any] = [Planner(Plan(1000), Plan(500), [Plan(320), Plan(340)])]
    forms.append(Planner(Plan(990), Plan(510), [Plan(300), Plan(310)]))
    choosers = [Chooser(form, lambda plan: counts[plan.peak], known) for form in forms]
    try_smallest(choosers, limit)
    return [plan.peak for plan in known][1:]


@pytest.mark.parametrize(
    ("limit", "counts", "peaks"),
    [
        (280, {300: 400, 310: 390}, [300, 310]),  # which tell how little there is
        (400, {300: 400}, [300]),
        (280, {300: 310}, [300]),  # another one is expected to take as much
    ],
)
def test_what_is_smallest_of_all_forms_is_compiled(
    limit: int, counts: dict[int, int], peaks: list[int]
) -> None:
    assert smallest_tried(limit, counts) == peaks


def test_plans_of_two_forms_that_are_predicted_alike_are_compiled_once() -> None:
    whole, other = Plan(300, program="as it is"), Plan(300, program="with lean loops")
    known: dict[Any, int] = {Plan(1000): 1000}
    forms: list[Any] = [Planner(Plan(1000), Plan(500), [one, Plan(310)]) for one in (whole, other)]
    counts = {300: 390, 310: 390}
    try_smallest([Chooser(form, lambda plan: counts[plan.peak], known) for form in forms], 280)
    assert list(known)[1:] == [whole, Plan(310)]


def test_what_keeps_a_budget_otherwise_goes_before_what_is_not_expected_to() -> None:
    forms: Any = Forms()
    asked: list[int] = []

    def otherwise(limit: int) -> Any:
        asked.append(limit)
        return "in parts" if limit > 280 else None

    with lowering_for("cuda"):
        found: Any = within_budget(forms, 700, otherwise)
        assert found.plan == Plan(500)
        assert not asked
        for limit in (450, 290):
            found = within_budget(forms, limit, otherwise)
            assert found == "in parts"
        with pytest.raises(MemoryPlanError, match="the least that was found is 450 bytes"):
            within_budget(forms, 270, otherwise)
    assert asked == [450, 290, 270]


def test_no_budget_is_refused_that_another_small_plan_keeps() -> None:
    """By what was not predicted of the smallest plan, no other one is expected to fit."""
    forms: Any = Forms()
    with lowering_for("cuda"):
        found: Any = within_budget(forms, 460)
        assert found.plan == Plan(400)
        with pytest.raises(MemoryPlanError, match="the least that was found is 450 bytes"):
            within_budget(forms, 440)
