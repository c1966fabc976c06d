"""A loss written in JAX together with the derivatives that functions in it have of their own."""

from collections.abc import Callable, Sequence
from typing import Any

from relaxjax.frontends import OwnRules
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import Type
from relaxjax.ops.lax import Found, whole_function


def with_rules_of_loss(
    mod: IRModule,
    loss: Callable[..., Function],
    loss_args: Sequence[Type | Var],
    reserved: Sequence[str],
) -> tuple[IRModule, Function]:
    """The function of a loss, and the module with the functions that have rules in it.

    Only losses written in JAX have such; none of them gets a name that is `reserved`.
    """
    keeping = getattr(loss, "with_own_rule", None)
    if keeping is None:
        return mod, loss(*loss_args)
    rules = OwnRules([*mod, *reserved])

    def own_rule(
        eqn: Any, args: list[Expr], found: Found, wanted: Sequence[bool]
    ) -> tuple[Call, Sequence[bool]] | None:
        whole = whole_function(eqn, args, found, wanted)
        return rules(eqn, args, found, wanted) if whole is None else whole

    function: Function = keeping(own_rule)(*loss_args)
    return mod.with_functions(rules.module.relax_functions()), function
