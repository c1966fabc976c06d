"""Folding factors into the weights behind them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op
from relaxjax.ir.scaling import Axis
from relaxjax.passes.base import pass_factory
from relaxjax.passes.layout.planning import size
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings

from .factors import Bindings, Factor, factors, with_args


@pass_factory(opt_level=3, kind="function")
def ForwardFoldScaleAxis(function: Function, mod: IRModule) -> Function:
    """Fold the scale of an axis into the weights of the convolutions or matmuls behind it.

    It passes through pooling, and where it is known not to be negative through relu and the like,
    to all that read the scaled tensor: operators say by their scaling rules what they let pass.
    That is done where fewer elements are multiplied than before; those of a constant weight count
    for nothing, because FoldConstant multiplies them ahead.

    Before:

        @R.function
        def main(
            x: R.Tensor((8, 3), "float32"),
            w: R.Tensor((3, 5), "float32"),
            scale: R.Tensor((3,), "float32"),
        ) -> R.Tensor((8, 5), "float32"):
            scaled = R.multiply(x, scale)
            out = R.matmul(scaled, w)
            return out

    After `ForwardFoldScaleAxis()`:

        @R.function
        def main(
            x: R.Tensor((8, 3), "float32"),
            w: R.Tensor((3, 5), "float32"),
            scale: R.Tensor((3,), "float32"),
        ) -> R.Tensor((8, 5), "float32"):
            gv = R.reshape(scale, (3, 1))
            gv1 = R.multiply(w, gv)
            out = R.matmul(x, gv1)
            return out
    """
    while (found := _first_fold(Bindings.of(function))) is not None:
        function = _with_changes(function, found.changes)
    return function


def _with_changes(function: Function, changes: Mapping[Var, Expr]) -> Function:
    changed = expand_bindings(function, lambda binding, _: changes.get(binding.var))
    return remove_all_unused(canonical_bindings(changed))


@dataclass
class _Fold:
    """What becomes of the readers of a scaled tensor, and how many elements are multiplied."""

    cost: int = 0
    changes: dict[Var, Expr] = field(default_factory=dict)


def _first_fold(known: Bindings) -> _Fold | None:
    for var, value in known.values.items():
        if not isinstance(value, Call):
            continue
        for factor in factors(value, known):
            fold = _Fold()
            if _pushed(var, factor, factor.axis, known, fold) and fold.cost < size(var):
                fold.changes[var] = factor.tensor
                return fold
    return None


def _pushed(var: Var, factor: Factor, axis: Axis, known: Bindings, fold: _Fold) -> bool:
    """Whether all that reads a scaled tensor can take the factor over; how, goes into `fold`."""
    readers = known.readers.get(var, [])
    if not readers or known.uses.get(var) != len(readers):
        return False
    return all(_taken_over(reader, var, factor, axis, known, fold) for reader in readers)


def _taken_over(
    reader: Var, var: Var, factor: Factor, axis: Axis, known: Bindings, fold: _Fold
) -> bool:
    call = known.values[reader]
    if not isinstance(call, Call) or not isinstance(call.op, Op) or call.op.scaling is None:
        return False
    rule = call.op.scaling
    if var not in call.args or known.place[reader] != known.place[var]:
        return False
    place = call.args.index(var)
    if rule.nonnegative and not factor.nonnegative:
        return False
    partner = rule.to_partner(call, place, axis)
    if reader in fold.changes:
        return False  # both its arguments are scaled: it would need the factor twice
    if partner is not None and factor.fits(call.args[partner[0]]):
        other, other_axis = partner
        weight = call.args[other]
        fold.cost += factor.cost(weight, other_axis)
        fold.changes[reader] = with_args(call, {other: factor.given(weight, other_axis)})
        return True
    result = rule.to_result(call, place, axis)
    return result is not None and _pushed(reader, factor, result[0], known, fold)
