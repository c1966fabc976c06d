"""Gradients that are derived from tangent rules, linearised: residuals first, then the transpose.

So JAX differentiates by `jax.custom_jvp`. In loops and branches, what a rule computes of the
arguments would otherwise be computed in the backward program, though most of it was there before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expr import Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, VarBinding
from relaxjax.ir.renew import renew
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import free_vars, used_vars

from .vjp import is_flat


@dataclass(frozen=True)
class Linearized:
    """`residuals(*params) -> saved` and `transposed(*params, saved, cotangent) -> gradients`."""

    residuals: Function
    transposed: Function


def linearize(rule: Function) -> Linearized | None:
    """A gradient in two; None where all of it needs the cotangent."""
    bindings = list(rule.body.bindings())
    if not is_flat(rule) or not all(isinstance(one, VarBinding) for one in bindings):
        return None
    *params, cotangent = rule.params
    known, constant = _known(bindings, params)
    late = [one for one in bindings if one.var in constant or one.var not in known]
    needed = {var for one in late for var in free_vars(one.value)} | {*used_vars(rule.body.body)}
    saved = [var for var in known if var in needed and var not in constant]
    if not saved or not all(isinstance(var.ty, TensorType) for var in saved):
        return None
    held = Var("saved", Tuple(tuple(saved)).ty)
    parts = [VarBinding(var, TupleGetItem(held, index)) for index, var in enumerate(saved)]
    first = [one for one in bindings if one.var in known]
    return Linearized(
        _made(rule, params, first, Tuple(tuple(saved))),
        _made(rule, [*params, held, cotangent], [*parts, *late], rule.body.body),
    )


def _known(bindings: Sequence[Binding], params: Sequence[Var]) -> tuple[dict[Var, None], set[Var]]:
    """The variables that need no cotangent, in order, and those that need no argument either."""
    known: dict[Var, None] = {}
    constant: set[Var] = set()
    for one in bindings:
        needed = free_vars(one.value)
        if all(var in params or var in known for var in needed):
            known[one.var] = None
            if constant.issuperset(needed):
                constant.add(one.var)
    return known, constant


def _made(
    rule: Function, params: Sequence[Var], bindings: Sequence[Binding], result: Expr
) -> Function:
    """A private function of some of a rule's bindings."""
    builder = BlockBuilder()
    with builder.scope(taken=[param.name for param in params]):
        for binding in bindings:
            builder.emit_binding(binding)
        body = builder.sequence(result)
    made, _ = renew(make_function(params, body, span=rule.span), visible=True)
    return remove_all_unused(made)
