"""What the operators of the dialect share: any number of arguments, and attributes by name."""

from collections.abc import Callable, Mapping
from typing import Any

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import GradientRule, NoGradient, Op, Param, register, typed
from relaxjax.ir.types import Type

from .costs import cost_of_primitive
from .facts import facts_of_primitive, fusion_of_primitive
from .layouts import layout_of_primitive


class LaxOp(Op):
    """An operator of the `lax` dialect: its arguments come by position, its attributes by name."""

    __slots__ = ()

    def __call__(self, *args: Any, **named: Any) -> Call:
        for index, arg in enumerate(args):
            if not isinstance(arg, Expr):
                raise TypeError(
                    f"{self.name}: argument {index + 1} must be a Relax expression, but `{arg!r}` "
                    f"of type {type(arg).__name__} was given; write R.const(value, dtype)"
                )
        call = Call(self, args, Attrs(named))
        return typed(call) if all(arg.ty is not None for arg in args) else call


def declare(
    name: str,
    doc: str,
    infer: Callable[[Call], Type],
    lower: Callable[..., Any],
    gradient: GradientRule | NoGradient | None = None,
    facts: Mapping[str, Any] | None = None,
    **more: Any,
) -> LaxOp:
    """Enter an operator of the dialect into the table."""
    operator = LaxOp(
        name=f"lax.{name}",
        params=(Param("args", True, tuple, (), variadic=True),),
        infer=infer,
        doc=doc,
        lower=lower,
        gradient=gradient,
        cost=cost_of_primitive(name),
        fusion=fusion_of_primitive(name),
        layout=layout_of_primitive(name),
        facts=Attrs(facts_of_primitive(name) if facts is None else facts),
        **more,
    )
    register(operator)
    return operator
