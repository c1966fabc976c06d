"""Closures as values: a function with some of its arguments, to be called with the others later."""

from collections.abc import Callable
from typing import Any

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.ir.expr import Call, Expr, GlobalVar, Var
from relaxjax.ir.infer import unify
from relaxjax.ir.op import Op
from relaxjax.ir.renew import fresh_symbols
from relaxjax.ir.types import FuncType, ObjectType, TupleType, Type
from relaxjax.ir.walk import definable_symbols, substitute_type

from .cost_rules import UNKNOWN, VIEWS
from .declare import OpError, op
from .packed import own

_HIGHER_ORDER = {"higher_order": True}


def _make_closure(func: Any, args: Any) -> Callable[..., Any]:
    return own(lambda *first: func(*first, *args))


def _as_function(func: Expr, args: Expr) -> Expr | None:
    """The closure written out, as it is differentiated: a function that calls `func`."""
    ty = func.ty
    if not isinstance(ty, FuncType) or ty.params is None or not isinstance(args.ty, TupleType):
        return None
    first = len(ty.params) - len(args.ty.fields)
    known = fresh_symbols(
        symbol for param in ty.params[:first] for symbol in definable_symbols(param)
    )
    for param, given in zip(ty.params[first:], args.ty.fields, strict=True):
        own: dict[SymbolicVar, Dim] = {}
        unify(param, given, own)
        known |= own
    params = [
        Var(f"arg{index}", substitute_type(param, known))
        for index, param in enumerate(ty.params[:first])
    ]
    builder = BlockBuilder()
    with builder.scope(taken=[param.name for param in params]):
        body = builder.sequence(builder.emit(Call(func, (*params, *args)), "result"))
    return make_function(params, body, pure=ty.pure)


def _as_call(closure: Expr, args: Expr) -> Expr | None:
    """The call of a closure that is written out."""
    return Call(closure, tuple(args)) if isinstance(closure, Var) else None


@op(
    "relax.make_closure",
    lower=_make_closure,
    training_form=_as_function,
    facts=_HIGHER_ORDER,
    cost=VIEWS,
)
def make_closure(func: Expr, args: TupleType) -> ObjectType:
    """`func` with its last arguments given: calling it later takes the others."""
    if not isinstance(func, GlobalVar) and not isinstance(func.ty, FuncType | ObjectType):
        raise OpError(f"`func` must be a function, but `{func}` is of type {func.ty}")
    return ObjectType()


def _invoke(name: str, pure: bool) -> Op:
    """The operator that calls a closure; its call says the type of the result."""

    def result_type(closure: Expr, args: TupleType) -> Type:
        return ObjectType()

    result_type.__doc__ = (
        f"Call a closure{'' if pure else ' that may have effects'} with the arguments it lacks.\n\n"
        "`ty_args` says the type of the result."
    )
    declare = op(
        name,
        lower=lambda closure, args: closure(*args),
        training_form=_as_call,
        pure=pure,
        cost=UNKNOWN,
        facts=_HIGHER_ORDER,
    )
    return declare(result_type)


invoke_closure = _invoke("relax.invoke_closure", pure=False)
invoke_pure_closure = _invoke("relax.invoke_pure_closure", pure=True)
