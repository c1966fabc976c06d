"""Backward programs that compute forward values again rather than keep them."""

import warnings
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import TypeAlias

from relaxjax.ir.expr import GlobalVar, Var
from relaxjax.ir.function import Function, If
from relaxjax.ir.module import IRModule, name_of
from relaxjax.ir.registry import did_you_mean
from relaxjax.lowering.memory import lowered_text, temporary_bytes
from relaxjax.ops.platform import chosen_platform, made_for
from relaxjax.passes.differentiation.gradient import function_of
from relaxjax.passes.infrastructure.base import pass_factory

from .loops.update_in_loops import UpdateInLoops
from .offload import offloaded, peak_as_written
from .parts_of_batch import InParts, in_parts, split_as
from .planning.budget import MEMORY_BUDGET, Budget, budget_in_bytes
from .planning.decisions import (
    Decided,
    OverBudgetError,
    by_default,
    by_policy,
    over_budget,
    within_budget,
)
from .planning.estimate import is_worth_a_plan
from .planning.forms import Forms
from .planning.kept_counts import KeptCounts
from .planning.kept_plans import KeptPlans
from .planning.plan import Plan
from .planning.planner import POLICIES, Planner
from .planning.planning_bar import planning_bar
from .planning.plans_by_count import Chooser, Figure
from .planning.recompute import rematerialized
from .planning.remembered import remembered
from .planning.turned_data import with_turned_data
from .program.caller import Caller, with_open_caller
from .program.program import Program, check_sizes
from .program.step import MemoryPlanError

# The policies whose plans take seconds to find, and are kept on disk, as those of budgets are.
_DEAR = ("balanced", "minimal")
# The policy of those who ask for none: "free", where that takes a step no longer.
AUTO = "auto"
# The policy that keeps on the host what "free" keeps.
OFFLOAD = "offload"


# A budget, a policy, and the names of what must be kept and computed again.
_Options: TypeAlias = tuple[Budget | None, str | None, Sequence[str], Sequence[str]]


@pass_factory(opt_level=0)
def Rematerialize(
    mod: IRModule,
    func_name: str | GlobalVar,
    budget_bytes: Budget | None = None,
    policy: str | None = None,
    must_keep: Sequence[str] = (),
    must_recompute: Sequence[str] = (),
) -> IRModule:
    """Compute forward values of an adjoint again where they are used, so that it needs less memory.

    `func_name` is a function that Gradient has written. `budget_bytes` limits what it needs beside
    its arguments and results, by XLA's own count: a number of bytes, "8GiB", or a share of what
    keeping everything takes, 0.5 or "50%". A budget that cannot be met is a MemoryPlanError, which
    says what the least is.

    Without a budget, `policy` says what is computed again: "free" (the default) what costs about as
    much as reading it, "balanced" up to an eighth of the program, "minimal" whatever saves memory,
    "none" nothing. All is kept where the peak is not predicted to fall by 15 %. `must_keep` and
    `must_recompute` decide for variables by their names.

    By "balanced" and "minimal", an adjoint on one CPU takes its batch in parts, as by SplitBatch,
    where that lowers the peak by 15 % more and a part is large enough to be computed in as little
    time. A budget has it do so where no plan of the whole batch keeps it.

    "auto" is what training steps and `value_and_grad` take unless told otherwise: "free" where that
    takes no longer. That is on CPUs, where the peak is predicted to be 28 MiB or more, because a
    step gets 32 MiB or more anew, page by page. It keeps what hardly raises the peak, which XLA
    takes less long to compile.

    From 2.75 MiB on, it keeps sums and functions such as exp as well, because caches are read
    sooner. Where "auto" or "free" keeps everything, what the gradients of kernels read in another
    order waits for them, so that it is there once. A plan may save enough once it does. Where that
    of "auto" is predicted to take less then, "free" is that.

    "offload" is for GPUs and TPUs: what "free" keeps goes to the memory of the host, by
    OffloadResiduals, within `budget_bytes` if that is given as well, by predicted bytes. On a CPU
    it warns, and is "free", or the budget alone.

    Values are those of the program as it stands: after LegalizeOps and EliminateCommonSubexpr it
    shows what is really kept. What is planned is made for one platform, as by LegalizeOps: that of
    the module, else JAX's default. XLA's count is that platform's: a device of it must be here.
    """
    name = name_of(func_name)
    if policy == AUTO and not (must_keep or must_recompute):
        return planned_by_itself(mod, name)
    return with_plan(mod, name, budget_bytes, policy, must_keep, must_recompute)


def planned_by_itself(mod: IRModule, name: str, caller: Caller | None = None) -> IRModule:
    """The module with an adjoint planned by "auto", if it may be worth it and is of one size."""
    adjoint = mod[name]  # which is checked where it is planned
    if chosen_platform() != "cpu" or not isinstance(adjoint, Function):
        return mod
    if not is_worth_a_plan(adjoint):
        return with_turned_data(mod, name)
    try:
        found = decided(mod, name, policy=AUTO, caller=caller)
    except MemoryPlanError:
        return mod
    return planned(mod, name, found)


def with_plan(
    mod: IRModule,
    name: str,
    budget_bytes: Budget | None = None,
    policy: str | None = None,
    must_keep: Sequence[str] = (),
    must_recompute: Sequence[str] = (),
    caller: Caller | None = None,
) -> IRModule:
    """The module with an adjoint that follows what Rematerialize decides with these options."""
    asked = must_keep, must_recompute, caller
    if policy != OFFLOAD:
        return planned(mod, name, decided(mod, name, budget_bytes, policy, *asked))
    if chosen_platform() == "cpu":
        warnings.warn(
            "the memory policy `offload` moves nothing on a CPU, whose memory is the host's: "
            + ("`free` is taken" if budget_bytes is None else "the budget is kept without it"),
            stacklevel=2,
        )
        found = decided(mod, name, budget_bytes, "free" if budget_bytes is None else None, *asked)
        return made_for(planned(mod, name, found), [chosen_platform()])
    limit = None
    if budget_bytes is not None:
        limit = budget_in_bytes(budget_bytes, lambda: peak_as_written(mod, name, caller))
    kept = planned(mod, name, decided(mod, name, None, policy, *asked))
    return offloaded(kept, name, limit, caller)


def decided(
    mod: IRModule,
    name: str,
    budget_bytes: Budget | None = None,
    policy: str | None = None,
    must_keep: Sequence[str] = (),
    must_recompute: Sequence[str] = (),
    caller: Caller | None = None,
) -> Decided:
    """What Rematerialize decides with these options.

    With a `caller`, its memory is what counts, not that of the adjoint alone.
    """
    if budget_bytes is not None and policy is not None:
        raise ValueError(
            "a memory budget and a memory policy are given, but a plan goes by one of them: leave "
            'the budget or the policy out, unless that is "offload"'
        )
    options = budget_bytes, policy, tuple(must_keep), tuple(must_recompute)

    def find() -> Decided:
        # Once, for all programs.
        whole = mod if caller is None else with_open_caller(mod, name, caller)
        with planning_bar(_figure(whole, name, caller), name) as figure:
            return _decided(whole, name, options, caller, figure)

    return remembered(mod, (name, options, caller, chosen_platform()), find)


def _decided(
    mod: IRModule, name: str, options: _Options, caller: Caller | None, figure: Figure
) -> Decided:
    """What is decided where `figure` counts what plans take."""
    budget, policy, must_keep, must_recompute = options
    first = planner_of(mod, name, caller)
    counted: dict[Plan, int] = {}

    def chooser(whole: IRModule) -> Chooser:
        planner = first if whole is mod else planner_of(whole, name, caller, first.program)
        if must_keep or must_recompute:
            program = planner.program
            keep, again = (_named(program, names, name) for names in (must_keep, must_recompute))
            _check_parted(keep, again)
            _check_pure(program, again)
            planner = Planner(program, keep, again)
        return Chooser(planner, figure, counted)

    asked = {*must_keep, *must_recompute}
    forms = Forms(mod, name, caller, first.program, first.total, asked, chooser)
    if policy == AUTO:
        return by_default(forms)
    if policy == OFFLOAD:
        planner = forms.chooser(forms.with_own_rows).planner
        return Decided(planner, planner.free)
    level = "free" if policy is None else policy
    if budget is None and _known(level) not in _DEAR:
        return by_policy(forms, level)
    plans = KeptPlans(mod, (name, *options, caller))
    kept = plans.read(lambda number: forms.chooser(forms.module(number)).planner)
    if kept is not None:
        return Decided(*kept)
    if asked:  # for values as they are
        found = by_policy(forms, level) if budget is None else within_budget(forms, budget)
    elif budget is None:
        found = in_parts(mod, name, caller, [by_default(forms), by_policy(forms, level)])
    else:
        found = _within_budget(forms, budget)
    form = forms.number(found.planner.program)
    if form is not None:
        plans.write(found.plan, form, found.limit, found.parts)
    return found


def _within_budget(forms: Forms, budget: Budget) -> Decided:
    """What keeps a budget, with the batch in parts where no plan of it all is likely to."""
    mod, name, caller = forms.mod, forms.name, forms.caller
    tried: list[InParts] = []

    def plans() -> Iterator[Decided]:
        yield by_default(forms)
        yield by_policy(forms, "balanced")

    def taken(split: IRModule) -> int:
        return temporary_bytes_of(split, name, caller)

    def in_parts(limit: int) -> Decided | None:
        tried.append(InParts(mod, name, caller, plans(), limit, taken))
        return tried[0].likely()

    try:
        return within_budget(forms, budget, in_parts)
    except OverBudgetError as whole:
        found = None if tried else in_parts(whole.limit)
        found = found or tried[0].unlikely()
        if found is not None:
            return found
        least = min(tried[0].sizes, default=whole.least)
        if least >= whole.least:
            raise
        told = over_budget(name, whole.limit, least, ", with the batch in parts")
        raise MemoryPlanError(told) from None


def planner_of(
    mod: IRModule, name: str, caller: Caller | None = None, like: Program | None = None
) -> Planner:
    """Of a function as it stands. What a program `like` it knows is not found out again.

    A form of what was read before is sound, as that was.
    """
    function = function_of(mod, name) if like is None else mod[name]
    check_sizes(function, name)
    return Planner(Program.of(function, mod, name, caller, like))


def planned(mod: IRModule, name: str, found: Decided) -> IRModule:
    """`rematerialized`, as a program for the platform whose forms it was planned by.

    That a budget is kept was counted there, whether anything is computed again or not. The function
    tells the budget.
    """
    is_planned = found.plan.changes or found.limit is not None or found.parts is not None
    goes_by = [chosen_platform()] if is_planned else []
    changed = rematerialized(mod, name, found.plan)
    if found.parts is not None:
        changed = split_as(changed, name, found.parts)
    if found.limit is not None:
        function = changed[name].with_attr(MEMORY_BUDGET, found.limit)
        changed = changed.with_function(name, function)
    return made_for(changed, goes_by)


def _figure(mod: IRModule, name: str, caller: Caller | None) -> Figure:
    """What plans take by XLA's count, which is kept on disk, because to ask it is to compile."""
    counted = name if caller is None else caller.name
    donate = () if caller is None else caller.donate
    kept = cache(lambda: KeptCounts(lambda: lowered_text(_as_run(mod, caller), counted, donate)))

    def figure(plan: Plan) -> int:
        whole = rematerialized(mod, name, plan)
        return kept().of(whole[name], lambda: temporary_bytes_of(whole, name, caller))

    return figure


def bytes_by_xla(mod: IRModule, name: str, plan: Plan, caller: Caller | None = None) -> int:
    """The temporary bytes of a function that follows a plan, or of its caller, by XLA's count."""
    return temporary_bytes_of(rematerialized(mod, name, plan), name, caller)


def temporary_bytes_of(mod: IRModule, name: str, caller: Caller | None = None) -> int:
    """The temporary bytes of a function, or of its caller."""
    if caller is None:
        return temporary_bytes(mod, name)
    return temporary_bytes(_as_run(mod, caller), caller.name, donate=caller.donate)


def _as_run(mod: IRModule, caller: Caller | None) -> IRModule:
    """The module as it is once its adjoint is planned."""
    return UpdateInLoops()(mod) if caller is not None and caller.updates_in_loops else mod


def _known(policy: str) -> str:
    known = [AUTO, *POLICIES, OFFLOAD]
    if policy not in POLICIES:
        raise ValueError(
            f"there is no memory policy `{policy}`: the policies are "
            f"{', '.join(known)}{did_you_mean(policy, known)}"
        )
    return policy


def _named(program: Program, names: Collection[str], function: str) -> frozenset[Var]:
    """The forward values of some names."""
    known = {step.var.name: step.var for step in program.forward}
    for name in names:
        if name not in known:
            raise MemoryPlanError(
                f"`{function}` has no forward value `{name}`{did_you_mean(name, list(known))}"
            )
    return frozenset(known[name] for name in names)


def _check_pure(program: Program, again: frozenset[Var]) -> None:
    """Raise for what is kept whole, what may do more than give a value, and for decisions."""
    for step in program.forward:
        if step.var in again & program.not_again:
            kinds = {Function: "is a function", If: "is chosen by an `if`"}
            other = "decides by numbers that may be rounded otherwise" if step.pure else ""
            reason = kinds.get(type(step.binding.value), other or "may have effects")
            raise MemoryPlanError(
                f"`{step.var.name}` cannot be computed again, because it {reason}: take it from "
                "what is to be computed again"
            )


def _check_parted(keep: frozenset[Var], again: frozenset[Var]) -> None:
    for var in sorted(keep & again, key=lambda var: var.name):
        raise MemoryPlanError(f"`{var.name}` is to be kept and to be computed again: say one")
