"""Backward programs that compute forward values again rather than keep them."""

from collections.abc import Collection, Sequence

from relaxjax.ir.expr import GlobalVar, Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import did_you_mean
from relaxjax.lowering.memory import temporary_bytes
from relaxjax.passes.base import pass_factory
from relaxjax.passes.differentiation.gradient import function_of

from .ledger import Ledger
from .planning import Plan, Planner
from .program import MemoryPlanError, Program
from .recompute import recomputed

POLICIES = ("none", "free", "balanced", "minimal")
# How often a plan is corrected by what XLA says of it.
_CORRECTIONS = 6


@pass_factory(opt_level=0)
def Rematerialize(
    mod: IRModule,
    func_name: str | GlobalVar,
    budget_bytes: int | None = None,
    policy: str | None = None,
    must_keep: Sequence[str] = (),
    must_recompute: Sequence[str] = (),
) -> IRModule:
    """Compute forward values of an adjoint again where they are used, so that it needs less memory.

    `func_name` is a function that Gradient has written. With `budget_bytes`, it needs at most so
    much beside its arguments and results, by XLA's own count, or a MemoryPlanError says what the
    least is. Else `policy` says what is computed again: "free" (the default) what costs about as
    much as reading it, "balanced" up to an eighth of the program, "minimal" whatever saves memory,
    "none" nothing. Variables in `must_keep` and `must_recompute` are decided by their names.

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
    return _written(mod, name, ledger.plan)


def ledger_of(
    mod: IRModule,
    name: str,
    budget_bytes: int | None = None,
    policy: str | None = None,
    must_keep: Sequence[str] = (),
    must_recompute: Sequence[str] = (),
) -> Ledger:
    """What Rematerialize decides with these options, value by value."""
    if budget_bytes is not None and policy is not None:
        raise ValueError("Rematerialize: give `budget_bytes` or `policy`, not both")
    program = Program.of(function_of(mod, name), mod, name)
    keep, again = (_named(program, names, name) for names in (must_keep, must_recompute))
    planner = Planner(program, keep, again)
    if budget_bytes is not None:
        return Ledger(planner, _within_budget(mod, name, planner, budget_bytes))
    return Ledger(planner, _by_policy(planner, policy or "free"))


def _by_policy(planner: Planner, policy: str) -> Plan:
    if policy not in POLICIES:
        raise ValueError(
            f"Rematerialize: there is no policy `{policy}`{did_you_mean(policy, list(POLICIES))}; "
            f"the policies are {', '.join(POLICIES)}"
        )
    plan: Plan = getattr(planner, policy)
    return plan


def _named(program: Program, names: Collection[str], function: str) -> frozenset[Var]:
    """The forward values of some names."""
    known = {step.var.name: step.var for step in program.forward}
    for name in names:
        if name not in known:
            raise MemoryPlanError(
                f"`{function}` has no forward value `{name}`{did_you_mean(name, list(known))}"
            )
    return frozenset(known[name] for name in names)


def _written(mod: IRModule, name: str, plan: Plan) -> IRModule:
    if not plan.computes_again:
        return mod
    return mod.with_function(name, recomputed(plan.program, plan.tasks))


def _within_budget(mod: IRModule, name: str, planner: Planner, budget: int) -> Plan:
    """The plan whose function keeps the budget when it is compiled.

    What XLA stores differs from what is planned for, so the plan is made for less until it fits.
    """
    target, least = budget, planner.none.peak
    for _ in range(_CORRECTIONS):
        plan = planner.within(target) or planner.minimal
        used = temporary_bytes(_written(mod, name, plan), name)
        if used <= budget:
            return plan
        least = min(least, used)
        if plan is planner.minimal:
            break
        target = min(target, plan.peak) - max(used - budget, budget // 64)
    raise MemoryPlanError(
        f"`{name}` cannot be computed within {budget:,} bytes: the least that was found is "
        f"{least:,} bytes beside arguments and results; give at least that, or a smaller batch"
    )
