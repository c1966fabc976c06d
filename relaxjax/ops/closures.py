"""Closures as values: a function with some of its arguments, to be called with the others later."""

from collections.abc import Callable
from typing import Any

from relaxjax.ir.expr import Expr, GlobalVar
from relaxjax.ir.layout import OPAQUE
from relaxjax.ir.op import Op
from relaxjax.ir.types import FuncType, ObjectType, TupleType, Type

from .cost_rules import UNKNOWN, VIEWS
from .declare import OpError, op

_RULES: dict[str, Any] = {
    "precision": "never",
    "fusion": "opaque",
    "facts": {"higher_order": True},
}


def _make_closure(func: Any, args: Any) -> Callable[..., Any]:
    return lambda *first: func(*first, *args)


@op("relax.make_closure", layout=OPAQUE, lower=_make_closure, **_RULES, cost=VIEWS)
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
        layout=OPAQUE,
        lower=lambda closure, args: closure(*args),
        pure=pure,
        cost=UNKNOWN,
        **_RULES,
    )
    return declare(result_type)


invoke_closure = _invoke("relax.invoke_closure", pure=False)
invoke_pure_closure = _invoke("relax.invoke_pure_closure", pure=True)
