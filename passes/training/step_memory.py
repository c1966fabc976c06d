"""A training step within a memory budget, or by a policy."""

from relaxjax.ir.module import IRModule
from relaxjax.passes.memory.budget import Budget
from relaxjax.passes.memory.caller import Caller
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
    inputs, params = (mod.attrs[f"{name}_num"] for name in ("input", "param"))
    caller = Caller(TRAIN_STEP, _STATE, tuple(range(inputs, inputs + params)))
    ledger = ledger_of(mod, ADJOINT, budget, policy, caller=caller)
    return rematerialized(mod, ADJOINT, ledger.plan)
