"""Residuals that need not be saved: cheap to make again, or the same at each step of a loop.

The mask of an attention, or the number that stands where it hides a score, is such. Saved with the
others it would be stacked by the loop over the layers, as large as the scores, even between
checkpoint marks: it depends on nothing that they mark.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping

from relaxjax.ir.expr import Call, Expr, Tuple, Var
from relaxjax.ir.function import Binding, BindingBlock, SeqExpr, VarBinding
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import bound_vars, expr_symbols, free_vars, substitute
from relaxjax.ops.cost_rules import FILLS, MOVES, VIEWS
from relaxjax.ops.decisions import has_floats

from .vjp import Vjp

Bindings = Mapping[Var, Binding]


def without_fills(vjp: Vjp) -> Vjp:
    """The programs, the backward one of which fills tensors itself that depend on no variable."""
    fills = _computed(vjp.forward, lambda var: False, _is_cheap)
    return _recomputing(vjp, fills)


def hoisted(vjp: Vjp, varying: Collection[Var]) -> tuple[list[Binding], Vjp]:
    """The loop-invariant residuals of a step, computed before the loop, and the step without them.

    What only fills, repeats or counts is computed in each step of both loops: that costs less than
    its memory. `varying` are the variables that a step is given.
    """
    inside = {*bound_vars(vjp.forward), *varying}
    invariant = _computed(vjp.forward, lambda var: var not in inside, _is_computed)
    vjp = _recomputing(vjp, {var: b for var, b in invariant.items() if _is_cheap(b.value)})
    wanted = [var for var in free_vars(vjp.backward) if var in invariant]
    before = _with_needs(invariant, wanted)
    repeated = [b.var for b in before if _is_cheap(b.value)]  # the steps compute these too
    own = {var: _copy(var) for var in repeated}
    moved = [b.var for b in before if b.var not in own]
    return [_renamed(b, own) for b in before], _without(vjp, moved, moved)


def _computed(
    forward: SeqExpr, is_known: Callable[[Var], bool], is_able: Callable[[Expr], bool]
) -> Bindings:
    """The bindings that need nothing but known variables, and one another."""
    found: dict[Var, Binding] = {}
    for binding in forward.bindings():
        if isinstance(binding, VarBinding) and is_able(binding.value):
            needs = free_vars(binding.value)
            found |= {binding.var: binding} if all(v in found or is_known(v) for v in needs) else {}
    return found


def _is_computed(value: Expr) -> bool:
    """Whether a value is an operator's tensor, of a size that is known wherever it stands."""
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return False
    op = value.op
    functions = {"loop", "branches", "higher_order", "fold"} & set(op.facts)
    is_plain = op.pure and op.training_form is None and not functions
    return is_plain and isinstance(value.ty, TensorType) and not expr_symbols(value)


def _is_cheap(value: Expr) -> bool:
    """Whether numbers are filled in or moved, or integers computed: alike wherever that is done."""
    if not isinstance(value, Call) or not isinstance(value.op, Op) or not _is_computed(value):
        return False
    is_whole = not any(has_floats(expr.ty) for expr in (value, *value.args))
    elementwise = value.op.fusion in ("elementwise", "broadcast")
    return value.op.cost in (FILLS, MOVES, VIEWS) or (elementwise and is_whole)


def _with_needs(known: Bindings, wanted: Collection[Var]) -> list[Binding]:
    """The bindings of variables and of what they need, in order."""
    needed = set(wanted)
    for binding in reversed(list(known.values())):
        if binding.var in needed:
            needed.update(free_vars(binding.value))
    return [binding for var, binding in known.items() if var in needed]


def _recomputing(vjp: Vjp, bindings: Bindings) -> Vjp:
    """The programs, the backward one of which computes the residuals among these bindings again."""
    first = _with_needs(bindings, [var for var in vjp.residuals if var in bindings])
    own = {binding.var: _copy(binding.var) for binding in first}
    backward = substitute(vjp.backward, own)
    whole = (*(_renamed(binding, own) for binding in first), *backward.bindings())
    backward = SeqExpr((BindingBlock(whole),), backward.body) if first else backward
    return _without(dataclasses.replace(vjp, backward=backward), own, ())


def _without(vjp: Vjp, unsaved: Collection[Var], uncomputed: Collection[Var]) -> Vjp:
    """The programs without some residuals, and some variables not computed forward at all."""
    residuals = tuple(var for var in vjp.residuals if var not in unsaved)
    body = Tuple((vjp.result, Tuple(residuals)))
    bindings = tuple(b for b in vjp.forward.bindings() if b.var not in uncomputed)
    forward = SeqExpr((BindingBlock(bindings),) if bindings else (), body)
    return dataclasses.replace(vjp, forward=forward, residuals=residuals)


def _copy(var: Var) -> Var:
    return Var(var.name, var.ty)


def _renamed(binding: Binding, own: Mapping[Var, Var]) -> Binding:
    value = substitute(binding.value, own)
    return replace(binding, var=own.get(binding.var, binding.var), value=value)
