"""Values that are tuples, by the tensors in them: the way to a tensor is what leads to it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from relaxjax.ir.derivatives import carries_gradient
from relaxjax.ir.expr import Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import BindingBlock, SeqExpr, VarBinding
from relaxjax.ir.types import TupleType, Type
from relaxjax.ir.walk import rewrite

from .adjoint import Adjoint, item, zeros
from .moving import Parts, moves, part_of

# The fields to take, one after the other.
Way: TypeAlias = tuple[int, ...]


def at(value: Expr, way: Way) -> Expr:
    """What a way leads to."""
    for index in way:
        value = item(value, index)
    return value


def opened(seq: SeqExpr, var: Var) -> tuple[SeqExpr, dict[Way, Var]]:
    """A sequence in terms of variables for the tensors in the tuple `var`, and the way to each.

    They are called what the sequence calls them.
    """
    ways: dict[Expr, Way] = {var: ()}
    names: dict[Way, str] = {}
    for binding in seq.bindings():
        match binding:
            case VarBinding(
                var=part, value=TupleGetItem(tuple_value=Var() as whole, index=index)
            ) if whole in ways:
                ways[part] = (*ways[whole], index)
                names.setdefault(ways[part], part.name)
    tensors = {way: Var(names.get(way, var.name), ty) if way else var for way, ty in _types(var.ty)}

    def rule(expr: Expr) -> Expr:
        if isinstance(expr, TupleGetItem):
            return item(expr.tuple_value, expr.index)
        return written(tensors, ways[expr], expr.ty) if expr in ways else expr

    bindings = tuple(binding for binding in seq.bindings() if binding.var not in ways)
    rest = rewrite(SeqExpr((BindingBlock(bindings),) if bindings else (), seq.body), rule)
    assert isinstance(rest, SeqExpr)
    return rest, tensors


def ways_that_move(tensors: Mapping[Way, Var], parts: Parts) -> list[Way]:
    """The ways to the tensors of a value of which `parts` moves."""
    return [
        way
        for way, var in tensors.items()
        if carries_gradient(var.ty) and moves(part_of(parts, way))
    ]


def numbered(values: Expr, ways: Sequence[Way]) -> dict[Way, Expr]:
    """The fields of a tuple by the ways to what they are of."""
    return {way: TupleGetItem(values, index) for index, way in enumerate(ways)}


def hand_on(adjoint: Adjoint, value: Expr, parts: Mapping[Way, Expr], way: Way = ()) -> None:
    """Hand the adjoints of some tensors in `value` on to it."""
    if way in parts:
        adjoint.add(value, parts[way])
    elif isinstance(value, Tuple):
        for index, field in enumerate(value.fields):
            hand_on(adjoint, field, parts, (*way, index))
    elif any(known[: len(way)] == way for known in parts):
        adjoint.add(value, written(parts, way, value.ty))


def written(parts: Mapping[Way, Expr], way: Way, ty: Type | None) -> Expr:
    """What a way leads to, of its parts; zeros where there is none."""
    if way in parts:
        return parts[way]
    if not isinstance(ty, TupleType):
        return zeros(ty)
    fields = enumerate(ty.fields)
    return Tuple(tuple(written(parts, (*way, index), field) for index, field in fields))


def _types(ty: Type | None, way: Way = ()) -> Iterator[tuple[Way, Type | None]]:
    if isinstance(ty, TupleType):
        for index, field in enumerate(ty.fields):
            yield from _types(field, (*way, index))
    else:
        yield way, ty
