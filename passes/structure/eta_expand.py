"""Functions as values, written as closures that call them."""

from relaxjax.ir.builder import Names, make_function
from relaxjax.ir.expr import Call, Expr, ExternFunc, GlobalVar, Var
from relaxjax.ir.function import BindingBlock, Function, SeqExpr, VarBinding
from relaxjax.ir.infer import infer
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.renew import fresh_symbols
from relaxjax.ir.types import FuncType
from relaxjax.ir.walk import definable_symbols, kept, map_children, substitute_type
from relaxjax.passes.infrastructure.base import pass_factory

from .normalize import normal_function


@pass_factory(opt_level=1, kind="function")
def EtaExpand(
    function: Function,
    mod: IRModule,
    expand_constructor: bool = False,
    expand_global_var: bool = False,
) -> Function:
    """Write a function that is used as a value as a closure that calls it.

    What is called where it stands is left alone, and so is a function whose parameters' types are
    unknown, or that each device of a mesh runs.

    Args:
        expand_constructor: whether this happens to functions from outside, `R.ExternFunc`, which
            are what comes nearest to Relay's constructors.
        expand_global_var: whether this happens to functions of the module.
    """
    kinds = (ExternFunc,) if expand_constructor else ()
    kinds = (*kinds, GlobalVar) if expand_global_var else kinds
    expanded = _expanded(function, kinds)
    if expanded is function:
        return function
    assert isinstance(expanded, Function)
    return normal_function(expanded, {var.name: var.ty for var in mod.functions})


def _expanded(expr: Expr, kinds: tuple[type[Expr], ...]) -> Expr:
    """`expr` with functions of some kinds, where they are values, as closures."""
    if isinstance(expr, kinds):
        return closure_calling(expr)
    if isinstance(expr, Call):
        # What each device of a mesh runs is a function of the module, and no closure.
        first = int(isinstance(expr.op, Op) and "local_view" in expr.op.facts)
        expanded = (_expanded(arg, kinds) for arg in expr.args[first:])
        return replace(expr, args=kept(expr.args, (*expr.args[:first], *expanded)))
    return map_children(expr, lambda child: _expanded(child, kinds))


def closure_calling(function: Expr) -> Expr:
    """A closure that calls a function, itself where its parameters are unknown."""
    ty = function.ty
    if not isinstance(ty, FuncType) or ty.params is None:
        return function
    fresh = fresh_symbols(symbol for param in ty.params for symbol in definable_symbols(param))
    names = Names()
    types = (substitute_type(param, fresh) for param in ty.params)
    params = [Var(names.unique("arg"), param) for param in types]
    value = infer(Call(function, tuple(params)))
    result = Var("result", value.ty)
    body = SeqExpr((BindingBlock((VarBinding(result, value),)),), result)
    return make_function(params, body, ret_ty=substitute_type(ty.ret, fresh), pure=ty.pure)
