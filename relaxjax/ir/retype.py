"""Giving parameters of a function another type or a value, and inferring all other types anew."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, TypeAlias

from .builder import BlockBuilder, make_function
from .dims import Dim, SymbolicVar
from .expr import Call, Expr, GlobalVar, Tuple, TupleGetItem, Var
from .function import Binding, BindingBlock, DataflowBlock, Function, If, MatchCast, SeqExpr
from .infer import dims_told, unify
from .lattice import Fit, fits
from .module import IRModule
from .node import replace
from .renew import Renewal
from .span import located
from .types import ObjectType, Type, same_type
from .walk import all_vars, global_vars, kept, substitute_type, used_vars

Arguments: TypeAlias = Callable[[Call, tuple[Expr, ...]], tuple[Expr, ...]]


def retyped(
    function: Function,
    values: Mapping[Var, Expr] | None = None,
    types: Mapping[str, Type | None] | None = None,
    arguments: Arguments = lambda call, args: args,
) -> Function:
    """`function` with parameters replaced, and the types of all that follows inferred anew.

    A variable takes the place of the parameter; any other value is put where the parameter is used,
    and the parameter goes. Symbolic dimensions that the old types have and the new ones tell are
    replaced everywhere. `types` are new types of functions of the module, by their names.
    `arguments` is given each call as it was and its new arguments, and may change those.
    """
    given = dict(values or {})
    found = dims_told(given, given.values())
    told = {symbol: dim for symbol, dim in found.items() if symbol != dim}
    renewal = Renewal(told)
    renewed = renewal.expr(function)
    assert isinstance(renewed, Function)
    env = {renewal.var(param): value for param, value in given.items()}
    return _Retyper(renewed, env, types or {}, arguments).whole(renewed)


def found_result(function: Function) -> Function:
    """`function` with the result type that its body has, where that says more than the declared."""
    found = make_function(function.params, function.body).ret_ty
    if found == function.ret_ty or fits(found, function.ret_ty) is not Fit.ALWAYS:
        return function
    return replace(function, ret_ty=found)


def found_results(before: IRModule, after: IRModule) -> IRModule:
    """`after` with the result types that the bodies of changed functions have.

    A function that others call keeps its declared type, which theirs follow from.
    """
    old, functions = before.relax_functions(), after.relax_functions()
    more = {
        name: found
        for name, function in functions.items()
        if function is not old.get(name) and (found := found_result(function)) is not function
    }
    if not more:
        return after
    called = {var.name for function in functions.values() for var in global_vars(function)}
    return after.with_functions({n: found for n, found in more.items() if n not in called})


def check_value(param: Var, value: Expr) -> None:
    """Raise an error where a value can never be of a parameter's type."""
    found: dict[SymbolicVar, Dim] = {}
    expected = param.ty or ObjectType()
    unify(expected, value.ty, found)
    if fits(value.ty, substitute_type(expected, found)) is Fit.NEVER:
        raise TypeError(
            f"the parameter `{param.name}` is of type {param.ty}, "
            f"but the value given for it is of type {value.ty}"
        )


class _Retyper:
    """Emits a function again; `env` leads from variables to what stands in their place."""

    def __init__(
        self,
        function: Function,
        env: dict[Var, Expr],
        types: Mapping[str, Type | None],
        arguments: Arguments,
    ) -> None:
        self.builder = BlockBuilder()
        self.names = [var.name for var in all_vars(function)]
        self.env = env
        self.types = types
        self.arguments = arguments

    def whole(self, function: Function) -> Function:
        places = [self.env.get(param, param) for param in function.params]
        params = [place for place in places if isinstance(place, Var)]
        body = self.sequence(function.body)
        result = make_function(params, body).ret_ty
        kept_params = kept(function.params, params)
        return replace(function, params=kept_params, body=body, ret_ty=result)

    def sequence(self, seq: SeqExpr) -> SeqExpr:
        with self.builder.scope(self.names):
            for block in seq.blocks:
                self.block(block)
            return replace(self.builder.sequence(self.expr(seq.body)), span=seq.span)

    def block(self, block: BindingBlock) -> None:
        dataflow = isinstance(block, DataflowBlock)
        with self.builder.dataflow(block.span) if dataflow else nullcontext():
            for binding in block.bindings:
                with located(binding.span), self.builder.origin(binding.span, binding.derived_from):
                    self.binding(binding)

    def binding(self, binding: Binding) -> None:
        value = self.builder.normalize(self.expr(binding.value))
        var = binding.var
        recursive = isinstance(value, Function) and var in used_vars(value)
        if not isinstance(binding, MatchCast) and not recursive:
            ty = var.ty if isinstance(value.ty, ObjectType) else value.ty
            var = var if same_type(ty, var.ty) else type(var)(var.name, ty, span=var.span)
            self.env[binding.var] = var
        self.builder.emit_binding(replace(binding, var=var, value=value))

    def expr(self, expr: Expr) -> Expr:
        """`expr` over what stands for its variables, its own type to be inferred."""
        match expr:
            case Var():
                return self.env.get(expr, expr)
            case GlobalVar():
                return replace(expr, ty=self.types.get(expr.name, expr.ty))
            case Call():
                args = self.arguments(expr, tuple(map(self.expr, expr.args)))
                return replace(expr, op=self.expr(expr.op), args=args, ty=None)
            case Tuple():
                return replace(expr, fields=tuple(map(self.expr, expr.fields)), ty=None)
            case TupleGetItem():
                return self.field(expr)
            case If():
                branches: dict[str, Any] = {
                    "true_branch": self.sequence(expr.true_branch),
                    "false_branch": self.sequence(expr.false_branch),
                }
                return replace(expr, cond=self.expr(expr.cond), ty=None, **branches)
            case Function():
                return self.whole(expr)
            case _:
                return expr

    def field(self, expr: TupleGetItem) -> Expr:
        value = self.expr(expr.tuple_value)
        if isinstance(value, Tuple):
            return value.fields[expr.index]
        return replace(expr, tuple_value=value, ty=None)
