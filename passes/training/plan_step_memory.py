"""A training step within a memory budget, or by a policy, or planned where that makes it faster."""

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes.differentiation.gradient import function_of
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.memory.budget import Budget
from relaxjax.passes.memory.caller import Caller, with_open_caller
from relaxjax.passes.memory.estimate import most_at_a_time
from relaxjax.passes.memory.loop_pairs import has_loops
from relaxjax.passes.memory.moments import has_large_writes
from relaxjax.passes.memory.rematerialize import (
    decided,
    decided_for_speed,
    planned,
    planner_of,
)
from relaxjax.passes.memory.step import MemoryPlanError
from relaxjax.trainable.names import ADJOINT, INPUT_NUM, PARAM_NUM, TRAIN_STEP

# What a step changes, its first parameters: their memory becomes that of their new values.
_STATE = (0, 1, 2)
# Bytes that are worth a plan that nobody asked for, and the share of them that may be left. The
# suite's ResNet-50, of 355 MiB, takes 0.8 to 0.95 of the time a step then, and 1.35 times that to
# compile.
_LARGE = 256 * 2**20
_LESS = 0.5


@pass_factory(opt_level=0)
def PlanStepMemory(
    mod: IRModule, memory_budget: Budget | None = None, memory_policy: str | None = None
) -> IRModule:
    """Let the adjoint compute values again rather than keep them, so that its training step fits.

    Rematerialize explains how. The budget is for what a training step needs beside its arguments
    and results, as XLA says of the whole step, update included, as the Trainer compiles it: a
    number of bytes, "8GiB", or a share of what keeping everything takes. `memory_policy="none"`
    keeps everything.

    With neither, a step for a CPU is planned by "free" where it is predicted to need 256 MiB or
    more, and at most half of that by the plan: there it is faster, too, because to get memory takes
    a step longer than to compute such values. In any case, large gradients of tables come one after
    the other, if the optimizer takes each separately: each is gone before the next is there.
    The module is to be legalised.
    """
    if memory_budget is None and memory_policy is None:
        return planned_for_speed(mod, ADJOINT, caller_of_step(mod))
    try:
        found = decided(mod, ADJOINT, memory_budget, memory_policy, caller=caller_of_step(mod))
    except MemoryPlanError:
        if memory_policy == "none":
            return mod  # which is for any size of batches
        raise
    return planned(mod, ADJOINT, found.plan, memory_budget)


def planned_for_speed(mod: IRModule, name: str, caller: Caller) -> IRModule:
    """The module with the adjoint `name` planned where that makes `caller` faster.

    On a CPU each step gets its temporary memory anew, page by page, which takes longer than to
    compute again what is free, where it is many pages. Else all is kept but what loops can do
    without, and large gradients of few numbers come one after the other.
    """
    if chosen_platform() != "cpu" or not is_worth_a_plan(function_of(mod, name)):
        return mod
    opened = with_open_caller(mod, name, caller)
    try:
        everything = planner_of(opened, name, caller)
        plan = decided_for_speed(opened, name, caller, everything).plan
        if plan.peak >= _LARGE:
            free = decided(opened, name, policy="free", caller=caller, everything=everything).plan
            plan = free if free.peak <= _LESS * plan.peak else plan
    except MemoryPlanError:  # it is for no one shape
        return mod
    return planned(mod, name, plan)


def is_worth_a_plan(adjoint: Function) -> bool:
    """Whether it has loops, gradients that had better come one after the other, or large values."""
    if has_loops(adjoint) or has_large_writes(adjoint):
        return True
    return most_at_a_time(adjoint) >= _LARGE


def caller_of_step(mod: IRModule) -> Caller:
    """The training step, which calls the adjoint."""
    inputs, params = mod.attrs[INPUT_NUM], mod.attrs[PARAM_NUM]
    return Caller(TRAIN_STEP, _STATE, tuple(range(inputs, inputs + params)))
