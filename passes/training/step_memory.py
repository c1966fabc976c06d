"""A training step within a memory budget, or by a policy, or planned where that makes it faster."""

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes.differentiation.gradient import function_of
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

from .fuse_train_step import ADJOINT, TRAIN_STEP
from .simple_adjoint import legalised

# What a step changes, its first parameters: their memory becomes that of their new values.
_STATE = (0, 1, 2)
# Bytes that are worth a plan that nobody asked for, and the share of them that may be left. The
# suite's ResNet-50, of 355 MiB, takes 0.8 to 0.95 of the time a step then, and 1.35 times that to
# compile.
_LARGE = 256 * 2**20
_LESS = 0.5


def with_step_memory(mod: IRModule, budget: Budget | None, policy: str | None) -> IRModule:
    """The module whose adjoint computes values again, so that its training step fits.

    What counts is what XLA says of the whole step, update included, as the Trainer compiles it.
    """
    mod = legalised(mod)
    try:
        found = decided(mod, ADJOINT, budget, policy, caller=_caller(mod))
    except MemoryPlanError:
        if policy == "none":
            return mod  # which is for any size of batches
        raise
    return planned(mod, ADJOINT, found.plan, budget)


def with_fast_step(mod: IRModule) -> IRModule:
    """The legalised module with its step planned as far as that makes it faster."""
    return planned_for_speed(mod, ADJOINT, _caller(mod))


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


def _caller(mod: IRModule) -> Caller:
    """The training step, which calls the adjoint."""
    inputs, params = (mod.attrs[f"{name}_num"] for name in ("input", "param"))
    return Caller(TRAIN_STEP, _STATE, tuple(range(inputs, inputs + params)))
