"""Folding factors into the weights behind them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Axis, Op
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.layout.planning import size
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings

from .factors import MOST_PASSED, Factor, Weighed, factors, with_args


@pass_factory(opt_level=3, kind="function")
def ForwardFoldScaleAxis(function: Function, mod: IRModule) -> Function:
    """Fold the scale of an axis into the weights of the convolutions or matmuls behind it.

    It passes through pooling, and where it is known not to be negative through relu and the like,
    to all that read the scaled tensor: operators say by their scaling rules what they let pass.
    That is done where fewer elements are multiplied than before; those of a constant weight count
    for nothing, because FoldConstant multiplies them ahead.
    """
    while changes := _folds(Weighed.of(function)):
        changed = expand_bindings(function, lambda binding, _: changes.get(binding.var))
        function = remove_all_unused(canonical_bindings(changed))
    return function


@dataclass
class _Fold:
    """What becomes of the readers of a scaled tensor, and how many elements are multiplied.

    `seen` are all that the factor goes through on the way.
    """

    cost: int = 0
    changes: dict[Var, Expr] = field(default_factory=dict)
    seen: set[Var] = field(default_factory=set)


def _folds(known: Weighed) -> dict[Var, Expr]:
    """What becomes of bindings by the folds that have none of them in common, the first first."""
    changes: dict[Var, Expr] = {}
    seen: set[Var] = set()
    for var, value in known.values.items():
        fold = _fold(var, value, known) if isinstance(value, Call) and var not in seen else None
        if fold is not None and seen.isdisjoint(fold.seen):
            changes |= fold.changes
            seen |= fold.seen
    return changes


def _fold(var: Var, value: Call, known: Weighed) -> _Fold | None:
    """How the factor of a product is brought into what reads it, if that takes less."""
    for factor in factors(value, known):
        fold = _Fold(seen={var})
        if _pushed(var, factor, factor.axis, known, fold) and fold.cost < size(var):
            fold.changes[var] = factor.tensor
            return fold
    return None


def _pushed(var: Var, factor: Factor, axis: Axis, known: Weighed, fold: _Fold) -> bool:
    """Whether all that reads a scaled tensor can take the factor over; how, goes into `fold`."""
    waiting: list[tuple[Var, Axis]] = [(var, axis)]
    while waiting:
        var, axis = waiting.pop()
        readers = known.users_of(var)
        if not readers or known.count(var) != len(readers):
            return False
        for reader in readers:
            if reader in fold.seen or len(fold.seen) == MOST_PASSED:
                return False  # where both its arguments are scaled, it would need the factor twice
            fold.seen.add(reader)
            left = _taken_over(reader, var, factor, axis, known, fold)
            if left is None:
                return False
            waiting += ((reader, axis) for axis in left)
    return True


def _taken_over(
    reader: Var, var: Var, factor: Factor, axis: Axis, known: Weighed, fold: _Fold
) -> Sequence[Axis] | None:
    """Along which axis the result is scaled where a reader lets the factor pass.

    Nothing where it takes the factor over, None where it can do neither.
    """
    call = known.value(reader)
    if not isinstance(call, Call) or not isinstance(call.op, Op) or call.op.scaling is None:
        return None
    rule = call.op.scaling
    if var not in call.args or not known.share_block(reader, var):
        return None
    place = call.args.index(var)
    if rule.nonnegative and not factor.nonnegative:
        return None
    partner = rule.to_partner(call, place, axis)
    if partner is not None and factor.fits(call.args[partner[0]]):
        other, other_axis = partner
        weight = call.args[other]
        fold.cost += factor.cost(weight, other_axis)
        fold.changes[reader] = with_args(call, {other: factor.given(weight, other_axis)})
        return ()
    return rule.to_result(call, place, axis)
