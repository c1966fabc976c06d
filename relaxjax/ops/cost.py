"""What calls and functions cost to run, by the rules of their operators."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from relaxjax.ir.dim_variables import substitute_dim
from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.ir.expr import Call, Expr, ExternFunc, GlobalVar, Var
from relaxjax.ir.function import Function, If, SeqExpr
from relaxjax.ir.infer import dims_told
from relaxjax.ir.module import IRModule, check_function
from relaxjax.ir.op import Op

from .cost_rules import Cost as Cost
from .cost_rules import UnknownCostError


def cost_of(
    value: Expr, mod: IRModule | None = None, closures: Mapping[Var, Function] | None = None
) -> Cost | None:
    """The cost of a call: `cost_of(matmul(x, y)).flops`. None where it cannot be known.

    The functions of `mod` are those that it may call, and so are `closures`, by their names. What
    computes nothing, such as a tuple or a part of one, costs nothing.
    """
    if isinstance(value, Function) or not isinstance(value, Expr):
        raise TypeError(
            "`cost_of` takes a call, or another value of a binding, found "
            f"{type(value).__name__}: `function_cost` counts a function"
        )
    try:
        return _Costing(mod, dict(closures or {})).value(value)
    except UnknownCostError:
        return None


def function_cost(function: Function, mod: IRModule | None = None) -> Cost | None:
    """The cost of calling a function once, in its own dimensions; None where it cannot be known.

    Of the two branches of a choice the dearer one counts. Of a loop that runs as long as something
    holds, the steps that it can make count, or one step where there is no such bound.
    """
    check_function(function, "`function_cost`")
    try:
        return _Costing(mod).body(function)
    except UnknownCostError:
        return None


@dataclass(frozen=True, slots=True)
class _Costing:
    """The functions that may be called, and those whose cost is being counted."""

    mod: IRModule | None
    closures: dict[Var, Function] = field(default_factory=dict)
    active: list[Function] = field(default_factory=list)

    def call(self, call: Call) -> Cost:
        if not isinstance(call.op, Op):
            return self._called(call)
        if call.op.cost is None:
            raise UnknownCostError
        cost: Cost = call.op.cost(call, self.function)
        return cost

    def function(self, callee: Expr) -> Cost:
        """The cost of calling a function once."""
        return self.body(self._resolved(callee))

    def body(self, function: Function) -> Cost:
        if any(other is function for other in self.active):
            raise UnknownCostError  # how deep it calls itself is not known
        self.active.append(function)
        try:
            return self._sequence(function.body)
        finally:
            self.active.pop()

    def _sequence(self, seq: SeqExpr) -> Cost:
        costs = []
        for binding in seq.bindings():
            if isinstance(binding.value, Function):
                self.closures[binding.var] = binding.value
            else:
                costs.append(self.value(binding.value))
        return Cost.sum_of([*costs, self.value(seq.body)])

    def value(self, value: Expr) -> Cost:
        match value:
            case Call():
                return self.call(value)
            case If():
                return self._sequence(value.true_branch).or_else(self._sequence(value.false_branch))
            case SeqExpr():
                return self._sequence(value)
            case _:
                return Cost()

    def _called(self, call: Call) -> Cost:
        """The cost of a function's body, in the dimensions of the call."""
        function = self._resolved(call.op)
        return _in_dims(self.body(function), dims_told(function.params, call.args))

    def _resolved(self, callee: Expr) -> Function:
        found: object = callee
        if isinstance(callee, GlobalVar) and self.mod is not None and callee.name in self.mod:
            found = self.mod[callee.name]
        elif isinstance(callee, Var):
            found = self.closures.get(callee)
        if isinstance(found, ExternFunc) or not isinstance(found, Function):
            raise UnknownCostError
        return found


def _in_dims(cost: Cost, mapping: Mapping[SymbolicVar, Dim]) -> Cost:
    return Cost(substitute_dim(cost.flops, mapping), substitute_dim(cost.bytes, mapping))
