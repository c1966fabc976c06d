"""Backward programs that compute forward values again rather than keep them."""

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from relaxjax.ir.expr import GlobalVar, Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import did_you_mean
from relaxjax.lowering.memory import temporary_bytes
from relaxjax.passes.base import pass_factory
from relaxjax.passes.differentiation.gradient import function_of

from .budget import Budget
from .choice import POLICIES, Chooser
from .ledger import Ledger
from .plan import Plan
from .planning import Planner
from .program import MemoryPlanError, Program
from .recompute import recomputed

# The temporary bytes of a function of a module.
Counted: TypeAlias = Callable[[IRModule, str], int]


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

    `func_name` is a function that Gradient has written. With `budget_bytes`, it needs at most so
    much beside its arguments and results, by XLA's own count, or a MemoryPlanError says what the
    least is: a number of bytes, "8GiB", or a share of what keeping everything takes, 0.5 or "50%".
    Else `policy` says what is computed again: "free" (the default) what costs about as much as
    reading it, "balanced" up to an eighth of the program, "minimal" whatever saves memory, "none"
    nothing. Variables in `must_keep` and `must_recompute` are decided by their names.

    Values are those of the program as it stands: after LegalizeOps and EliminateCommonSubexpr it
    shows what is really kept.

    Before:

        @R.function
        def main_adjoint(
            x: R.Tensor((3,), "float32"),
        ) -> R.Tuple(R.Tensor((), "float32"), R.Tuple(R.Tensor((3,), "float32"))):
            with R.dataflow():
                y = R.exp(x)
                z = R.sin(y)
                loss = R.sum(z)
                loss_adjoint = R.ones((), "float32")
                z_adjoint = R.broadcast_to(loss_adjoint, (3,))
                slope = R.cos(y)
                y_adjoint = R.multiply(z_adjoint, slope)
                x_adjoint = R.multiply(y_adjoint, y)
                R.output(loss, x_adjoint)
            return (loss, (x_adjoint,))

    After `Rematerialize("main_adjoint", must_recompute=["y"])`:

        @R.function
        def main_adjoint(
            x: R.Tensor((3,), "float32"),
        ) -> R.Tuple(R.Tensor((), "float32"), R.Tuple(R.Tensor((3,), "float32"))):
            with R.dataflow():
                y = R.exp(x)
                z = R.sin(y)
                loss = R.sum(z)
                loss_adjoint = R.ones((), dtype="float32")
                z_adjoint = R.broadcast_to(loss_adjoint, (3,))
                y_again = R.exp(x)
                slope = R.cos(y_again)
                y_adjoint = R.multiply(z_adjoint, slope)
                x_adjoint = R.multiply(y_adjoint, y_again)
                R.output(loss, x_adjoint)
            return (loss, (x_adjoint,))
    """
    name = func_name.name if isinstance(func_name, GlobalVar) else func_name
    ledger = ledger_of(mod, name, budget_bytes, policy, must_keep, must_recompute)
    return rematerialized(mod, name, ledger.plan)


def ledger_of(
    mod: IRModule,
    name: str,
    budget_bytes: Budget | None = None,
    policy: str | None = None,
    must_keep: Sequence[str] = (),
    must_recompute: Sequence[str] = (),
    counted: Counted = temporary_bytes,
) -> Ledger:
    """What Rematerialize decides with these options, value by value.

    `counted` gives the bytes that a function takes: the one that `name` says, unless it is asked
    by who knows better what is compiled.
    """
    if budget_bytes is not None and policy is not None:
        raise ValueError("Rematerialize: give `budget_bytes` or `policy`, not both")
    program = Program.of(function_of(mod, name), mod, name)
    keep, again = (_named(program, names, name) for names in (must_keep, must_recompute))
    planner = Planner(program, keep, again)
    chooser = Chooser(planner, lambda plan: counted(rematerialized(mod, name, plan), name))
    if budget_bytes is not None:
        return Ledger(planner, chooser.within(budget_bytes, name))
    return Ledger(planner, chooser.by_policy(_known(policy or "free")))


def rematerialized(mod: IRModule, name: str, plan: Plan) -> IRModule:
    """The module with a function that follows a plan."""
    if not plan.changes:
        return mod
    return mod.with_function(name, recomputed(plan.program, plan.tasks))


def _known(policy: str) -> str:
    if policy not in POLICIES:
        raise ValueError(
            f"Rematerialize: there is no policy `{policy}`{did_you_mean(policy, list(POLICIES))}; "
            f"the policies are {', '.join(POLICIES)}"
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
