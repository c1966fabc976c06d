"""Which plan is followed: by default, by a policy, or within a budget."""

from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from relaxjax.ir.module import IRModule
from relaxjax.ir.wording import counted
from relaxjax.lowering.interpreter import NoCompilerError
from relaxjax.ops.platform import chosen_platform

from ..batch.choosing import Parts
from ..program.step import MemoryPlanError
from .bound import Bound, least_bytes
from .budget import Budget, budget_in_bytes
from .estimate import LARGE, SMALL
from .forms import Forms
from .plan import Plan
from .planner import WORTH, Planner, in_order
from .plans_by_count import Chooser, try_smallest
from .turned_data import with_turned_data

# As WORTH, for loops that save less though nobody asked, which the suite's GPTs of 4 and 8 layers
# lose: their loops take 0.8 of the memory, and 1.06 to 1.11 of the time.
_FASTER = 0.7
# How much more what is done by default may be predicted to take, and be preferred to the plan of a
# policy all the same: what is computed again is predicted worse than what is kept.
_AS_GOOD = 1.02


class OverBudgetError(MemoryPlanError):
    """A limit that a batch cannot keep as a whole, which takes so many bytes at `least`."""

    def __init__(self, message: str, least: int, limit: int) -> None:
        super().__init__(message)
        self.least, self.limit = least, limit


class Decided(NamedTuple):
    """The plan that is followed, and the planner that knows the one which keeps everything."""

    planner: Planner
    plan: Plan
    limit: int | None = None  # the bytes of the budget
    parts: Parts | None = None  # in which the batch is taken


def by_default(forms: Forms) -> Decided:
    """About the plan of "free" where that takes no longer, else one that keeps all.

    What hardly lowers the peak is not computed again. What is there at the peak waits for other
    values where that saves much. Also where all is kept, loops that would stack much in vain do
    not, large gradients of few numbers come one after the other, and data that the gradients of
    kernels turn waits for them.
    """
    if forms.default is None:
        forms.default = _by_default(forms)
    default: Decided = forms.default
    return default


def _by_default(forms: Forms) -> Decided:
    mod, chooser = forms.mod, forms.chooser(forms.mod)
    if chosen_platform() != "cpu":
        return Decided(chooser.planner, chooser.planner.none)
    for _, lean in forms.lean(mod, to="free"):
        lean_chooser = forms.chooser(lean)
        if lean_chooser.planner.none.peak <= _FASTER * chooser.planner.none.peak:
            mod, chooser = lean, lean_chooser
            break
    everything = chooser.planner.none
    if everything.peak < SMALL:
        return with_late_data(forms, mod, chooser, "none")
    planner, plan = _plan_without_cost(forms, everything, chooser)
    most = int(WORTH * everything.peak)
    if plan.peak <= most:
        plan = in_order(plan)
    else:
        policy = "free" if everything.peak >= LARGE else "light"
        late = with_late_data(forms, mod, chooser, policy)
        planner, plan = late.planner, late.plan
    if plan is not planner.none:
        plan = planner.with_spare_room(plan, most)
    return Decided(planner, plan)


def with_late_data(forms: Forms, mod: IRModule, chooser: Chooser, policy: str) -> Decided:
    """The plan that keeps everything, but data that the gradients of kernels turn waits for them.

    The plan of a policy that did not save enough before may do so then.
    """
    late = with_turned_data(mod, forms.name)
    if late is mod:
        return Decided(chooser.planner, chooser.planner.none)
    planner = forms.chooser(late).planner
    plan = planner.by_policy(policy)
    if plan.peak > WORTH * chooser.planner.none.peak:
        plan = planner.none
    return Decided(planner, plan if plan is planner.none else in_order(plan))


def _plan_without_cost(forms: Forms, everything: Plan, chooser: Chooser) -> tuple[Planner, Plan]:
    """The plan that costs no time: of what lies in caches, little is computed again."""
    if everything.peak >= LARGE:
        way, plan = _followed(forms, "free", forms.chooser(forms.mod))
        return way.planner, plan
    is_lean = everything.program.function is not forms.mod[forms.name]
    planner = (chooser if is_lean else forms.chooser(forms.tied)).planner
    return planner, planner.light


def by_policy(forms: Forms, policy: str) -> Decided:
    """The plan of a policy, with loops that save less where that takes less memory.

    Peaks are as predicted, and nothing is compiled, but for "minimal": whoever asks for the least
    memory gets no more than by "balanced", or by keeping everything. What is done by default is
    preferred where it takes as little, because it computes fewer operations again.
    """
    everything = forms.chooser(forms.mod)
    if policy == "none":
        return Decided(everything.planner, everything.planner.none)
    way, plan = _followed(forms, policy, everything)
    is_as_written = plan is everything.planner.none
    if policy == "minimal" and not is_as_written:
        return _least_by_count(forms, everything, Decided(way.planner, plan))
    if is_as_written and not forms.decided:
        found = with_late_data(forms, forms.mod, everything, "free")
    else:
        found = Decided(way.planner, in_order(plan) if plan.changes else plan)
    if forms.decided:  # which no default knows
        return found
    default = by_default(forms)
    return default if default.plan.peak <= _AS_GOOD * found.plan.peak else found


def _followed(forms: Forms, policy: str, everything: Chooser) -> tuple[Chooser, Plan]:
    """The plan of a policy where it saves enough, else that which keeps everything."""
    none = everything.planner.none
    choosers = [forms.chooser(forms.tied)]
    choosers += [forms.chooser(mod) for _, mod in forms.lean(forms.tied, to=policy)]
    best = min(choosers, key=lambda way: way.planner.by_policy(policy).peak)
    plan = best.planner.by_policy(policy)
    if policy == "balanced":  # in which nothing waits yet
        plan = min(plan, best.planner.free, key=lambda plan: plan.peak)
    return (best, plan) if plan.peak <= WORTH * none.peak else (everything, none)


def _least_by_count(forms: Forms, everything: Chooser, found: Decided) -> Decided:
    """What takes the least by XLA's count: what was found, "balanced", or keeping everything."""
    known = [Decided(everything.planner, everything.planner.none), by_policy(forms, "balanced")]
    with suppress(NoCompilerError):  # then what is predicted is all that is known
        return min(*known, found, key=lambda one: everything.bytes_of(one.plan))
    return found


def within_budget(
    forms: Forms, budget: Budget, otherwise: Callable[[int], Decided | None] = lambda _: None
) -> Decided:
    """The first plan that keeps a budget, of loops that save all first, then ever less.

    What keeps its bytes `otherwise` goes before plans that are not expected to.
    """
    found, name = forms.chooser(forms.mod), forms.name
    none = found.planner.none
    limit = budget_in_bytes(budget, lambda: found.bytes_of(none))
    if found.bytes_of(none) <= limit:
        return Decided(found.planner, none, limit)
    least = least_bytes(found.planner.program) if chosen_platform() == "cpu" else Bound()
    if least.bytes > found.bytes_of(none):  # such as of a loop that XLA knows to run once
        least = Bound()
    if least.bytes > limit:
        raise OverBudgetError(
            f"`{name}` cannot be computed within {counted(limit, 'byte')}, in whatever order: "
            f"{least}; give at least that, or a smaller batch",
            least.bytes,
            limit,
        )
    choosers = []
    for other in chain([forms.tied], (leaner for _, leaner in forms.lean(forms.tied))):
        one = found if other is forms.mod else forms.chooser(other)
        plan = one.within(limit)
        if plan is not None:
            return Decided(one.planner, plan, limit)
        choosers.append(one)
    if (instead := otherwise(limit)) is not None:
        return instead
    try_smallest(choosers, limit)
    if found.least <= limit:
        plan = min(found.known, key=found.bytes_of)
        planner = next(one.planner for one in choosers if one.planner.program is plan.program)
        return Decided(planner, plan, limit)
    proof = f". No plan can need less than is needed at once: {least}" if least.bytes else ""
    raise OverBudgetError(f"{over_budget(name, limit, found.least)}{proof}", found.least, limit)


def over_budget(name: str, limit: int, least: int, how: str = "") -> str:
    """That what was found keeps no budget, and which one it keeps."""
    return (
        f"`{name}` cannot be computed within {counted(limit, 'byte')}: the least that was found is "
        f"{counted(least, 'byte')} beside arguments and results{how}; give at least that, or a "
        "smaller batch"
    )
