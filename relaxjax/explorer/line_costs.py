"""What each binding of a function costs, those inside its loops too."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Binding, Function, If, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ops.cost import cost_of


@dataclass(slots=True)
class LineCost:
    """The FLOPs and the bytes of a binding; they need not be whole while they are divided."""

    flops: float = 0
    bytes: float = 0


def line_costs(function: Function, mod: IRModule) -> dict[int, LineCost]:
    """The cost of each binding by its `id`, where it is known and no symbolic number.

    A call of a closure, such as a loop, is divided among the bindings of its body, each in the
    share that it has of one step: the sum over all bindings is the cost of the function.
    """
    costing = _Costing(mod)
    costing.sequence(function.body, 1, 1)
    return costing.found


@dataclass(slots=True)
class _Costing:
    mod: IRModule
    closures: dict[Var, Function] = field(default_factory=dict)
    found: dict[int, LineCost] = field(default_factory=dict)

    def sequence(self, seq: SeqExpr, flops: float, bytes_: float) -> None:
        """Add what a sequence costs that runs so often."""
        for binding in seq.bindings():
            self._binding(binding, flops, bytes_)

    def _binding(self, binding: Binding, flops: float, bytes_: float) -> None:
        match binding.value:
            case Function() as closure:
                self.closures[binding.var] = closure
            case If() as choice:
                self.sequence(choice.true_branch, flops, bytes_)
                self.sequence(choice.false_branch, flops, bytes_)
            case SeqExpr() as seq:
                self.sequence(seq, flops, bytes_)
            case Call() as call:
                self._call(binding, call, flops, bytes_)

    def _call(self, binding: Binding, call: Call, flops: float, bytes_: float) -> None:
        cost = cost_of(call, self.mod, self.closures)
        if cost is None or not (isinstance(cost.flops, int) and isinstance(cost.bytes, int)):
            return
        whole = LineCost(cost.flops * flops, cost.bytes * bytes_)
        bodies = list(_bodies(call, self.closures))
        inner = [_step(body, self.mod, self.closures) for body in bodies]
        of_step = LineCost(sum(one.flops for one in inner), sum(one.bytes for one in inner))
        if not of_step.flops and not of_step.bytes:
            known = self.found.setdefault(id(binding), LineCost())
            known.flops += whole.flops
            known.bytes += whole.bytes
            return
        for body in bodies:
            self.sequence(
                body.body,
                whole.flops / of_step.flops if of_step.flops else 0,
                whole.bytes / of_step.bytes if of_step.bytes else 0,
            )


def _bodies(call: Call, closures: Mapping[Var, Function]) -> list[Function]:
    """The closures that a call runs."""
    given: list[Expr] = [call.op, *call.args]
    found = [closures.get(one) if isinstance(one, Var) else one for one in given]
    return [one for one in found if isinstance(one, Function)]


def _step(body: Function, mod: IRModule, closures: Mapping[Var, Function]) -> LineCost:
    """What one run of a closure costs."""
    costing = _Costing(mod, dict(closures))
    costing.sequence(body.body, 1, 1)
    return LineCost(
        sum(cost.flops for cost in costing.found.values()),
        sum(cost.bytes for cost in costing.found.values()),
    )
