"""Folding factors into the weights before them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Axis, Op
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.layout.planning import size

from .factors import MOST_PASSED, Factor, Weighed, factors, with_args


@pass_factory(opt_level=3, kind="function")
def BackwardFoldScaleAxis(function: Function, mod: IRModule) -> Function:
    """Fold the scale of an axis into the weights of the convolution or matmul before it.

    It passes back through sums, through pooling, and where it is known not to be negative through
    relu and the like: operators say by their scaling rules what they let pass. That is done where
    fewer elements are multiplied than before; those of a constant weight count for nothing, because
    FoldConstant multiplies them ahead.
    """
    folded = _folded_once(function)
    while folded is not function:
        function, folded = folded, _folded_once(folded)
    return function


def _folded_once(function: Function) -> Function:
    known = Weighed.of(function)
    folded = expand_bindings(function, lambda binding, _: _folded(binding, known))
    return folded if folded is function else remove_all_unused(folded)


@dataclass(frozen=True)
class Way:
    """One way to bring a factor into an expression: what it costs, and what comes of it."""

    cost: int
    write: Callable[[], Expr]


def _folded(binding: Binding, known: Weighed) -> Expr | None:
    """A call that multiplies, with its factor brought into what is multiplied."""
    if not isinstance(binding.value, Call):
        return None
    for factor in factors(binding.value, known):
        way = _back(factor.tensor, factor, factor.axis, known, binding.var, MOST_PASSED)
        if way is not None and way.cost < size(factor.tensor):
            return way.write()
    return None


def _back(
    expr: Expr, factor: Factor, axis: Axis, known: Weighed, beside: Var, most: int
) -> Way | None:
    """The cheapest way to compute `expr` times a factor by multiplying what it is computed from.

    It passes `most` operators in a row at most.
    """
    call = known.call_beside(expr, beside)
    if most == 0 or call is None or not isinstance(call.op, Op) or not known.used_once(expr):
        return None
    if known.is_constant(call):  # or factors that count for nothing would change places for ever
        return None
    rule = call.op.scaling
    if rule is None or (rule.nonnegative and not factor.nonnegative):
        return None
    ways = [
        _through(call, taken, factor, known, beside, most - 1)
        for taken in rule.to_arguments(call, axis)
    ]
    return min((way for way in ways if way is not None), key=lambda way: way.cost, default=None)


def _through(
    call: Call, taken: Mapping[int, Axis], factor: Factor, known: Weighed, beside: Var, most: int
) -> Way | None:
    """A call on arguments that are multiplied: each in the cheapest way."""
    ways: dict[int, Way] = {}
    for place, axis in taken.items():
        arg = call.args[place]
        if not factor.fits(arg):
            return None
        along = factor.runs_along(arg, axis)
        deeper = _back(arg, factor, axis, known, beside, most) if along else None
        ways[place] = _cheaper(_directly(arg, factor, axis), deeper)
    cost = sum(way.cost for way in ways.values())
    return Way(cost, lambda: with_args(call, {place: way.write() for place, way in ways.items()}))


def _directly(arg: Expr, factor: Factor, axis: Axis) -> Way:
    return Way(factor.cost(arg, axis), lambda: factor.given(arg, axis))


def _cheaper(one: Way, other: Way | None) -> Way:
    return other if other is not None and other.cost < one.cost else one
