"""Decisions: values that jump where the floats that they are computed of move a little.

A comparison, a place among floats, a number rounded to an integer. Computed a second time, of
floats that were rounded otherwise, a decision may be another one: the backward program would then
go back on a way that the forward program did not take.
"""

from collections.abc import Collection, Iterable

from relaxjax.ir.expr import Call, Constant, TupleGetItem, Var
from relaxjax.ir.function import Binding
from relaxjax.ir.op import Op
from relaxjax.ir.tuples import tensors_in
from relaxjax.ir.types import Type, is_smooth
from relaxjax.ir.walk import used_vars

from .cost_rules import MOVES, VIEWS

# What rounds each element in one way wherever it is computed, beside what only moves elements.
_EXACT = frozenset({"lax.convert_element_type", "relax.astype"})


def decisions(bindings: Iterable[Binding], given: Collection[Var]) -> frozenset[Var]:
    """The variables of bindings that hold decisions by floats whose bits may be others next time.

    The bits of what is `given` stay, and so do those of random numbers, which are made of integers.
    """
    steady, drawn = set(given), set[Var]()
    found: set[Var] = set()
    for binding in bindings:
        var, value = binding.var, binding.value
        floats = [v for v in used_vars(value) if has_floats(v.ty)]
        if all(v in drawn for v in floats):
            drawn.add(var)
        elif all(v in steady or v in drawn for v in floats):
            if not computes(value):
                steady.add(var)
        elif _jumps(value, var.ty):
            found.add(var)
    return frozenset(found)


def has_floats(ty: Type | None) -> bool:
    """Whether there are numbers that are rounded in a value."""
    return any(is_smooth(leaf.dtype) for _, leaf in tensors_in(ty))


def computes(value: object) -> bool:
    """Whether numbers are computed that a kernel may round in its own way."""
    if not isinstance(value, Call):
        return not isinstance(value, Var | Constant | TupleGetItem)
    op = value.op
    if not isinstance(op, Op):
        return True
    return op.cost not in (VIEWS, MOVES) and op.name not in _EXACT


def _jumps(value: object, ty: Type | None) -> bool:
    """Whether what a binding holds jumps where floats move. What runs functions is no decision."""
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return False
    facts = value.op.facts
    if {"loop", "branches", "higher_order", "value"} & set(facts):
        return False
    found = (leaf.dtype for _, leaf in tensors_in(ty))
    return bool(facts.get("jumps")) or any(d is not None and not is_smooth(d) for d in found)
