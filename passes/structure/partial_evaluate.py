"""Computing at compile time whatever needs nothing that is known only at run time."""

from collections.abc import Mapping

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.derivatives import own_derivatives
from relaxjax.ir.expr import Call, Constant, GlobalVar, Var
from relaxjax.ir.function import Binding, Function, If, SeqExpr, VarBinding
from relaxjax.ir.inline import callees_first, inlined_into, open_calls, recursive
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.types import Type
from relaxjax.ir.uses import values_of_kind
from relaxjax.ir.walk import map_bindings, map_sequences, nested_bindings, used_vars
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.error_notes import in_function
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings
from relaxjax.passes.simplification.fold_constant import FoldConstant

from .inline import binding_count
from .normalize import normal_function


@pass_factory(opt_level=1)
def PartialEvaluate(mod: IRModule, max_bindings: int = 1000) -> IRModule:
    """Open calls, choose branches and fold constants until only what needs the arguments is left.

    A function that calls itself is opened as long as it is given constants, so that recursion over
    a known number unrolls. Calls of functions with derivatives of their own stay. Constants are
    folded as FoldConstant does.

    Args:
        max_bindings: calls are opened only as long as the function holds no more bindings.
    """
    functions = mod.relax_functions()
    types = {var.name: var.ty for var in mod.functions}
    circles = set(recursive(functions))
    finite = {n: f for n, f in functions.items() if n not in circles and not own_derivatives(f)}
    bodies: dict[str, Function] = {}
    for name in callees_first(finite):
        with in_function(name, finite[name]):
            bodies[name] = inlined_into(finite[name], bodies)
    changed: dict[str, Function] = {}
    for name, function in functions.items():
        with in_function(name, function):
            start = function
            if binding_count(function) <= max_bindings:
                start = bodies[name] if name in bodies else inlined_into(function, bodies)
            changed[name] = _evaluated(start, mod, types, max_bindings)
    return mod.with_functions(changed)


def _evaluated(
    function: Function, mod: IRModule, types: Mapping[str, Type | None], max_bindings: int
) -> Function:
    while True:
        simpler = _one_round(function, mod, types, max_bindings)
        if simpler is function:
            return function
        function = simpler


def _one_round(
    function: Function, mod: IRModule, types: Mapping[str, Type | None], max_bindings: int
) -> Function:
    opened = function
    if binding_count(function) <= max_bindings:
        opened = _opened(function, mod)
    chosen = map_sequences(opened, _chosen)
    flat = chosen if chosen is opened else normal_function(chosen, types)
    folded = FoldConstant.function(flat, mod)
    assert isinstance(folded, Function)
    return folded if folded is function else remove_all_unused(canonical_bindings(folded))


def _opened(function: Function, mod: IRModule) -> Function:
    """One level of the calls of closures, and of functions that are given a constant."""
    closures = {
        var: closure
        for var, closure in values_of_kind(nested_bindings(function), Function).items()
        if var not in used_vars(closure)
    }
    functions = mod.relax_functions()

    def callee(call: Call) -> Function | None:
        match call.op:
            case Var() as var:
                return closures.get(var)
            case GlobalVar(name=name) if any(isinstance(arg, Constant) for arg in call.args):
                called = functions.get(name)
                return None if called is None or own_derivatives(called) else called
            case _:
                return None

    return open_calls(function, callee)


def _chosen(seq: SeqExpr) -> SeqExpr:
    """A sequence in which the choices by a constant are made."""
    return map_bindings(seq, _binding)


def _binding(binding: Binding) -> Binding:
    match binding:
        case VarBinding(value=If(cond=Constant(data=data)) as choice):
            branch = choice.true_branch if data.item() else choice.false_branch
            return replace(binding, value=branch)
        case _:
            return binding
