"""What loops do with the results of their steps: they write them where they have room for them."""

from collections.abc import Iterable, Iterator, Mapping

from relaxjax.ir.expr import Call, Expr, Tuple, Var
from relaxjax.ir.function import Binding, Function, VarBinding
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType
from relaxjax.ir.uses import values_of

from .caller import CallersPart, Place, note_place
from .step import is_write


def loop_bodies(
    closures: Mapping[Var, Function], bindings: Iterable[Binding]
) -> Iterator[tuple[Var, Function]]:
    """The loops among some bindings, and the function of each one's steps."""
    for binding in bindings:
        call = binding.value
        if isinstance(call, Call) and call.op is get_op("relax.scan"):
            step = call.args[0]
            if isinstance(step, Var) and step in closures:
                yield binding.var, closures[step]


def loops_part(step: Function) -> CallersPart:
    """What a loop computes of a step's results: a part of the carry in the memory of that.

    Rows of stacks are written into what is there for them.
    """
    bound = values_of(step.body.bindings())
    places: dict[Var, Place] = {param: (at,) for at, param in enumerate(step.params)}
    for var, value in bound.items():
        note_place(places, var, value)
    first = {place: var for var, place in reversed(places.items())}
    written: list[Binding] = []
    in_place: dict[Var, Var | None] = {}
    for way, result in leaves(step.body.body, bound):
        if isinstance(result.ty, TensorType) and not is_write(bound.get(result, result)):
            row = Var(f"{result.name}_row", result.ty)
            written.append(VarBinding(row, get_op("relax.astype")(result, result.ty.dtype)))
            result = row
        in_place[result] = first.get(way) if way[0] == 0 else None
    given = {var: first[place] for var, place in places.items() if place[0] == 0}
    return CallersPart(tuple(written), frozenset(in_place), given, in_place)


def leaves(value: Expr, bound: Mapping[Var, Expr], way: Place = ()) -> Iterator[tuple[Place, Var]]:
    """The variables in written tuples, and the way to each."""
    written = bound.get(value) if isinstance(value, Var) else value
    if isinstance(written, Tuple):
        for at, field in enumerate(written.fields):
            yield from leaves(field, bound, (*way, at))
    elif isinstance(value, Var):
        yield way, value
