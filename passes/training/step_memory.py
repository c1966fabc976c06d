"""A training step within a memory budget, or by a policy."""

from relaxjax.ir.module import IRModule
from relaxjax.lowering.memory import temporary_bytes
from relaxjax.passes.memory.budget import Budget
from relaxjax.passes.memory.rematerialize import ledger_of, rematerialized

from .fuse_train_step import ADJOINT, TRAIN_STEP
from .simple_adjoint import legalised

# What a step changes, its first parameters: their memory becomes that of their new values.
_STATE = (0, 1, 2)


def with_step_memory(mod: IRModule, budget: Budget | None, policy: str | None) -> IRModule:
    """The module whose adjoint computes values again, so that its training step fits.

    What counts is what XLA says of the whole step, update included, as the Trainer compiles it.
    """
    mod = legalised(mod)
    ledger = ledger_of(mod, ADJOINT, budget, policy, counted=_of_step)
    return rematerialized(mod, ADJOINT, ledger.plan)


def _of_step(mod: IRModule, name: str) -> int:
    return temporary_bytes(mod, TRAIN_STEP, donate=_STATE)
