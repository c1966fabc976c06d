"""What no forward half has to save: what it makes of nothing, or at each step of a loop alike.

The mask of an attention, or the number that stands where it hides a score, is such. Saved with the
rest it would be stacked by the loop over the layers, as large as the scores, even between
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

from .parts import Halves

Made = Mapping[Var, Binding]


def with_own_fills(half: Halves) -> Halves:
    """The halves, of which the backward one makes the tensors itself that are made of nothing."""
    fills = _made(half.forward, lambda var: False, _is_cheap)
    return _making(half, fills)


def apart_from_steps(half: Halves, varying: Collection[Var]) -> tuple[list[Binding], Halves]:
    """The halves of a step without what each step makes alike, and what is made before the loop.

    What only fills, repeats or counts is made in each step of both loops: that costs less than its
    room. `varying` is what a step is given.
    """
    inside = {*bound_vars(half.forward), *varying}
    alike = _made(half.forward, lambda var: var not in inside, _is_computed)
    half = _making(half, {var: made for var, made in alike.items() if _is_cheap(made.value)})
    wanted = [var for var in free_vars(half.backward) if var in alike]
    before = _with_needs(alike, wanted)
    repeated = [b.var for b in before if _is_cheap(b.value)]  # the steps make these too
    own = {var: _copy(var) for var in repeated}
    made = [b.var for b in before if b.var not in own]
    return [_renamed(b, own) for b in before], _without(half, made, made)


def _made(
    forward: SeqExpr, is_there: Callable[[Var], bool], is_able: Callable[[Expr], bool]
) -> Made:
    """The bindings that need nothing but what is there, and one another."""
    found: dict[Var, Binding] = {}
    for binding in forward.bindings():
        if isinstance(binding, VarBinding) and is_able(binding.value):
            needs = free_vars(binding.value)
            found |= {binding.var: binding} if all(v in found or is_there(v) for v in needs) else {}
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


def _with_needs(made: Made, wanted: Collection[Var]) -> list[Binding]:
    """The bindings of variables and of what they need, in order."""
    needed = set(wanted)
    for binding in reversed(list(made.values())):
        if binding.var in needed:
            needed.update(free_vars(binding.value))
    return [binding for var, binding in made.items() if var in needed]


def _making(half: Halves, made: Made) -> Halves:
    """The halves, of which the backward one makes what is saved of these bindings."""
    first = _with_needs(made, [var for var in half.saved if var in made])
    own = {binding.var: _copy(binding.var) for binding in first}
    backward = substitute(half.backward, own)
    assert isinstance(backward, SeqExpr)
    bindings = (*(_renamed(binding, own) for binding in first), *backward.bindings())
    backward = SeqExpr((BindingBlock(bindings),), backward.body) if first else backward
    return _without(dataclasses.replace(half, backward=backward), own, ())


def _without(half: Halves, unsaved: Collection[Var], unmade: Collection[Var]) -> Halves:
    """The halves, some variables not saved by the forward one, and some not made there either."""
    saved = tuple(var for var in half.saved if var not in unsaved)
    assert isinstance(half.forward.body, Tuple)
    body = Tuple((half.forward.body.fields[0], Tuple(saved)))
    bindings = tuple(b for b in half.forward.bindings() if b.var not in unmade)
    forward = SeqExpr((BindingBlock(bindings),) if bindings else (), body)
    return dataclasses.replace(half, forward=forward, saved=saved)


def _copy(var: Var) -> Var:
    return Var(var.name, var.ty)


def _renamed(binding: Binding, own: Mapping[Var, Var]) -> Binding:
    value = substitute(binding.value, own)
    return replace(binding, var=own.get(binding.var, binding.var), value=value)
