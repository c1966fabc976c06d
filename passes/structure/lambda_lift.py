"""Closures as functions of the module."""

from relaxjax.ir.blocks import tidy_blocks
from relaxjax.ir.builder import Names
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Call, Expr, GlobalVar, Tuple, Var
from relaxjax.ir.function import Binding, Function, MatchCast, SeqExpr, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.renew import renew
from relaxjax.ir.retype import found_results
from relaxjax.ir.types import FuncType, ObjectType
from relaxjax.ir.walk import (
    definable_symbols,
    expr_symbols,
    free_vars,
    kept,
    map_bindings,
    map_children,
    nested_bindings,
    post_order,
    rewrite,
    substitute,
)
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.error_notes import in_function


@pass_factory(opt_level=1)
def LambdaLift(mod: IRModule) -> IRModule:
    """Turn closures into private functions of the module.

    What a closure uses from around it becomes further parameters, given by `R.make_closure`. A
    closure stays where it is if it uses something from around it and an operator such as a loop
    takes it, or if it uses a dimension that none of these parameters tells.
    """
    names = Names([var.name for var in mod.functions])
    changed: dict[str, Function] = {}
    for name, function in mod.relax_functions().items():
        with in_function(name, function):
            lifter = _Lifter(function, names)
            lifted = lifter.function(function, name)
            if lifter.functions:
                changed |= {name: lifted, **lifter.functions}
    return found_results(mod, mod.with_functions(changed))


class _Lifter:
    """Lifts the closures of one function; `given` says what stands for their variables."""

    def __init__(self, function: Function, names: Names) -> None:
        self.names = names
        self.functions: dict[str, Function] = {}
        self.given: dict[Var, Expr] = {}
        self.operands = {
            arg
            for call in post_order(function)
            if isinstance(call, Call) and isinstance(call.op, Op)
            for arg in call.args
        }

    def function(self, function: Function, name: str) -> Function:
        return replace(function, body=self.sequence(function.body, name))

    def sequence(self, seq: SeqExpr, name: str) -> SeqExpr:
        changed = map_bindings(seq, lambda binding: self.binding(binding, name))
        blocks = changed.blocks if changed is seq else tidy_blocks(changed.blocks)
        return replace(changed, blocks=blocks, body=self.expr(seq.body, name))

    def binding(self, binding: Binding, name: str) -> Binding | None:
        if isinstance(binding.value, Function):
            closure = self.function(binding.value, f"{name}_{binding.var.name}")
            return self.closure(replace(binding, value=closure), closure, name)
        value = self.expr(binding.value, name)
        if isinstance(binding.value, Var) and value is not binding.value:
            self.given[binding.var] = value
            return None
        if isinstance(value, Call) and isinstance(binding.var.ty, FuncType):
            self.given[binding.var] = binding.var  # what it is bound to is a closure by now
        return replace(binding, value=value)

    def closure(self, binding: Binding, closure: Function, name: str) -> Binding | None:
        """Lift one closure: what stands for its binding, None where nothing needs to."""
        var = binding.var
        captured = tuple(free for free in free_vars(closure) if free is not var)
        whole = replace(closure, params=(*closure.params, *captured))
        if _symbols_from_outside(whole) or (captured and var in self.operands):
            return binding
        function = GlobalVar(self.names.unique(f"{name}_{var.name}"), ty=whole.ty)
        calling = _calling_itself(whole, var, function, captured)
        if var in free_vars(calling):
            return binding
        ordinary = {free: Var(free.name, free.ty, span=free.span) for free in captured}
        params = tuple(ordinary.get(param, param) for param in calling.params)
        alone = replace(calling, params=params, body=substitute(calling.body, ordinary))
        self.functions[function.name], _ = renew(alone)
        if not captured:
            self.given[var] = function
            return None
        made = get_op("relax.make_closure")(function, Tuple(captured))
        new = type(var)(var.name, ObjectType(), span=var.span)
        self.given[var] = new
        return VarBinding(new, made, span=binding.span)

    def expr(self, expr: Expr, name: str) -> Expr:
        match expr:
            case Var():
                return self.given.get(expr, expr)
            case SeqExpr():
                return self.sequence(expr, name)
            case Call(op=Var() as var) if var in self.given:
                args = kept(expr.args, (self.expr(arg, name) for arg in expr.args))
                return self.call(expr, self.given[var], args)
            case _:
                return map_children(expr, lambda child: self.expr(child, name))

    def call(self, call: Call, callee: Expr, args: tuple[Expr, ...]) -> Call:
        """The call of a closure: of the function that it has become, or with what it captured."""
        if isinstance(callee, GlobalVar):
            return replace(call, op=callee, args=args)
        assert call.ty is not None
        pure = isinstance(call.op.ty, FuncType) and call.op.ty.pure
        invoke = get_op(f"relax.invoke_{'pure_' if pure else ''}closure")
        args = (callee, Tuple(args))
        return Call(invoke, args, ty_args=(call.ty,), ty=call.ty, span=call.span)


def _symbols_from_outside(function: Function) -> set[SymbolicVar]:
    """The symbolic dimensions that a function uses and does not define."""
    bindings = nested_bindings(function)
    inner = [f for f in post_order(function) if isinstance(f, Function)]
    types = [param.ty for f in inner for param in f.params]
    types += [binding.ty for binding in bindings if isinstance(binding, MatchCast)]
    return {*expr_symbols(function)} - {s for ty in types for s in definable_symbols(ty)}


def _calling_itself(
    closure: Function, var: Var, function: GlobalVar, captured: tuple[Var, ...]
) -> Function:
    """A closure that calls itself as the function that it becomes."""

    def rule(expr: Expr) -> Expr:
        if not isinstance(expr, Call) or expr.op is not var:
            return expr
        return replace(expr, op=function, args=(*expr.args, *captured))

    return rewrite(closure, rule)
