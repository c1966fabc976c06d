"""What is computed before a loop over parts, and in it again, decides alike in both places."""

from collections.abc import Collection, Sequence

from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Binding, If
from relaxjax.ir.op import Op, operator_name
from relaxjax.ir.walk import free_vars
from relaxjax.ops.decisions import computes, decisions, has_floats

from .kinds import AFTER, TOTAL, WHOLE, MixedError, has
from .reading import LOOPS, Reading, without_delay

# Of the same floats, these have the same bits in each kernel. A product has not: XLA may add it to
# another number before it is rounded.
_SAME = frozenset(
    {"lax.add", "lax.sub", "lax.neg", "lax.abs", "lax.max", "lax.min"}
    | {"lax.select_n", "lax.slice", "lax.concatenate"}
)
_RUNS_FUNCTIONS = frozenset({"loop", "branches", "higher_order"})


def check_same_decisions(
    reading: Reading, bindings: Sequence[Binding], given: Collection[Var]
) -> None:
    """Raise a MixedError for a decision that may be another one in the loop than before it.

    Floats that are computed in both places may be rounded otherwise. So none decides both times,
    and none is compared with what is known of all samples, such as the largest of them, which it
    would equal no longer. What runs functions is not looked into, so it counts as a decision.
    """
    decided = decisions(bindings, given)
    same = {*given, *reading.known}  # floats that have the same bits in both places
    of_all = set(reading.known)  # what depends on a number that all samples make
    twice = set[Var]()  # what depends on floats that are computed in both places
    for binding in bindings:
        var, value = binding.var, binding.value
        is_early, kind = var in reading.early, reading.kind(var)
        if is_early and operator_name(value) in LOOPS:
            raise MixedError(binding)
        if var in reading.known:
            continue
        is_in_loop = var in reading.inside and kind is not WHOLE
        is_again = is_early and is_in_loop and not (has(kind, TOTAL) or has(kind, AFTER))
        read = free_vars(without_delay(value))
        if not of_all.isdisjoint(read):
            of_all.add(var)
        if _is_same(value) and all(one in same for one in read if has_floats(one.ty)):
            same.add(var)
        elif (is_again and has_floats(var.ty)) or not twice.isdisjoint(read):
            twice.add(var)
        is_compared = var in of_all and var in twice
        may_differ = var in decided and (is_early or is_compared)
        if is_in_loop and (may_differ or (is_compared and _runs(value))):
            raise MixedError(binding)


def _is_same(value: Expr) -> bool:
    """Whether what is computed of the same floats has the same bits wherever that is."""
    return operator_name(value) in _SAME or not computes(value)


def _runs(value: Expr) -> bool:
    """Whether a value is found by running functions, which may decide."""
    if not isinstance(value, Call):
        return isinstance(value, If)
    return not isinstance(value.op, Op) or not _RUNS_FUNCTIONS.isdisjoint(value.op.facts)
