"""A training step within a memory budget, or by a policy, or planned where that makes it faster."""

from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.memory.planning.budget import Budget
from relaxjax.passes.memory.program.caller import Caller
from relaxjax.passes.memory.program.step import MemoryPlanError
from relaxjax.passes.memory.rematerialize import AUTO, OFFLOAD, planned_by_itself, with_plan
from relaxjax.passes.memory.report.memory_report import MemoryReport, report_as_written
from relaxjax.trainable.arguments import count_of, required_function
from relaxjax.trainable.names import ADJOINT, INPUT_NUM, PARAM_NUM, TRAIN_STEP
from relaxjax.trainable.sharding import Distribution

from .fuse_train_step import with_calls

# What a step changes, its first parameters: their memory becomes that of their new values.
_STATE = (0, 1, 2)


@pass_factory(opt_level=0)
def PlanStepMemory(
    mod: IRModule, memory_budget: Budget | None = None, memory_policy: str | None = None
) -> IRModule:
    """Let the adjoint compute values again rather than keep them, so that its training step fits.

    Rematerialize explains how. The budget is for what a training step needs beside its arguments
    and results, as XLA says of the whole step, update included, as the Trainer compiles it: a
    number of bytes, "8GiB", or a share of what keeping everything takes. `memory_policy="none"`
    keeps everything. XLA's count is of the step with what UpdateInLoops then changes; peaks that
    are predicted are of the step without it.

    With neither, the policy is "auto": "free" where that takes no longer. In any case, large
    gradients of tables come one after the other, if the optimizer takes each separately: each is
    gone before the next is there. The module is to be legalised.
    """
    if memory_budget is None and memory_policy in (None, AUTO):
        return planned_by_itself(mod, ADJOINT, caller_of_step(mod))
    if memory_policy == OFFLOAD and memory_budget is not None and Distribution.of(mod) is not None:
        raise MemoryPlanError(
            "with the memory policy `offload`, a budget is kept by bytes that are predicted for "
            "one device, but the training is on several: leave out `memory_budget`, or the policy"
        )
    caller = caller_of_step(mod)
    try:
        return with_plan(mod, ADJOINT, memory_budget, memory_policy, caller=caller)
    except MemoryPlanError:
        if memory_policy == "none":
            return mod  # which is for any size of batches
        raise


def memory_of_step(mod: IRModule) -> MemoryReport:
    """Where the bytes of a module's training step go, as it stands."""
    return report_as_written(with_calls(mod), ADJOINT, caller_of_step(mod))


def caller_of_step(mod: IRModule) -> Caller:
    """The training step, which calls the adjoint."""
    required_function(mod, ADJOINT)
    inputs, params = count_of(mod, INPUT_NUM), count_of(mod, PARAM_NUM)
    differentiated = tuple(range(inputs, inputs + params))
    return Caller(TRAIN_STEP, _STATE, differentiated, updates_in_loops=True)
