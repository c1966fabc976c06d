"""Tuples that functions take, as parameters of their own."""

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr, GlobalVar, Tuple, Var
from relaxjax.ir.function import BindingBlock, Function, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.tuples import leaves_by_type
from relaxjax.ir.types import TupleType
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings

from .callers import called_only


@pass_factory(opt_level=0)
def ExpandTupleArguments(mod: IRModule) -> IRModule:
    """Let private functions take the fields of a tuple instead of the tuple."""
    expanded: dict[str, Function] = {}
    for name, calls in called_only(mod).items():
        function = mod[name]
        has_tuples = any(isinstance(param.ty, TupleType) for param in function.params)
        if has_tuples and all(_tells_fields(call, function) for call in calls):
            expanded[name] = with_expanded_tuples(function)
    if not expanded:
        return mod

    def with_fields(call: Call) -> Expr | None:
        if not isinstance(call.op, GlobalVar) or call.op.name not in expanded:
            return None
        args = tuple(field for arg in call.args for field in leaves_by_type(arg))
        return replace(call, op=replace(call.op, ty=expanded[call.op.name].ty), args=args)

    functions = {**mod.relax_functions(), **expanded}
    changed = {name: expand_calls(function, with_fields) for name, function in functions.items()}
    return mod.with_functions(
        {n: f if f is functions[n] else canonical_bindings(f) for n, f in changed.items()}
    )


def with_expanded_tuples(function: Function) -> Function:
    """The function with a parameter for each field, of which it makes the tuples that it uses."""
    bindings: list[VarBinding] = []
    params: list[Var] = []
    for param in function.params:
        if isinstance(param.ty, TupleType):
            value, fields = _parameters(param)
            bindings.append(VarBinding(param, value))
            params += fields
        else:
            params.append(param)
    blocks = (BindingBlock(tuple(bindings)), *function.body.blocks)
    body = replace(function.body, blocks=blocks)
    return remove_all_unused(canonical_bindings(replace(function, params=tuple(params), body=body)))


def _parameters(param: Var) -> tuple[Tuple, list[Var]]:
    """A parameter as a tuple of others, nested where its type is, and those others."""
    assert isinstance(param.ty, TupleType)
    values: list[Expr] = []
    params: list[Var] = []
    for index, ty in enumerate(param.ty.fields):
        field = Var(f"{param.name}_{index}", ty, span=param.span)
        value, inner = _parameters(field) if isinstance(ty, TupleType) else (field, [field])
        values.append(value)
        params += inner
    return Tuple(tuple(values)), params


def _tells_fields(call: Call, function: Function) -> bool:
    """Whether the arguments of a call are known to be tuples where the parameters are."""
    pairs = zip(call.args, function.params, strict=True)
    return all(len([*leaves_by_type(arg)]) == len([*leaves_by_type(param)]) for arg, param in pairs)
