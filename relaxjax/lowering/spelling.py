"""What a lowering spells out, read once and written again for each equal call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, Constant, Expr, TupleGetItem, Var
from relaxjax.ir.function import Binding, MatchCast
from relaxjax.ir.op import Op

Hint: TypeAlias = Callable[[str], str]
# Emits the bindings of a program on tensors, each named by a hint, and gives its results.
Read: TypeAlias = Callable[[Sequence[Expr], BlockBuilder, Hint], list[Expr]]


@dataclass(frozen=True, slots=True)
class _Step:
    """A binding: what its variable is named by, its value, and the places of that's arguments.

    An argument is one of the values before it by its number, or a constant.
    """

    primitive: str
    value: Call | TupleGetItem
    args: tuple[int | Constant, ...]

    def of(self, values: Sequence[Expr]) -> Expr:
        args = tuple(values[arg] if isinstance(arg, int) else arg for arg in self.args)
        if isinstance(self.value, TupleGetItem):
            return TupleGetItem(args[0], self.value.index)
        return Call(self.value.op, args, self.value.attrs, ty=self.value.ty)


@dataclass(frozen=True, slots=True)
class Spelling:
    """The bindings of a program of tensors in their order, and the places of its results."""

    steps: tuple[_Step, ...]
    results: tuple[int | Constant, ...]

    @staticmethod
    def of(tensors: Sequence[Expr], read: Read) -> "Spelling | None":
        """That of a program; None where it has a function inside, or no tensor has a type alone."""
        params = [Var(f"x{number}", tensor.ty) for number, tensor in enumerate(tensors)]
        hints: list[str] = []

        def hint(primitive: str) -> str:
            hints.append(primitive)
            return primitive

        builder = BlockBuilder()
        with builder.scope():
            results = read(params, builder, hint)
            bindings = list(builder.sequence(results).bindings())
        places: dict[Var, int] = {var: number for number, var in enumerate(params)}
        places |= {binding.var: len(params) + n for n, binding in enumerate(bindings)}
        if len(hints) != len(bindings):
            return None
        steps = [_step(*pair, places) for pair in zip(hints, bindings, strict=True)]
        ends = [_place(result, places) for result in results]
        known = tuple(step for step in steps if step is not None)
        found = tuple(end for end in ends if end is not None)
        is_whole = len(known) == len(steps) and len(found) == len(ends)
        return Spelling(known, found) if is_whole else None

    def emit(self, tensors: Sequence[Expr], builder: BlockBuilder, hint: Hint) -> list[Expr]:
        """Emit the bindings on other tensors of these types; the results."""
        values = list(tensors)
        for step in self.steps:
            values.append(builder.emit(step.of(values), hint(step.primitive)))
        return [values[end] if isinstance(end, int) else end for end in self.results]


def _step(primitive: str, binding: Binding, places: dict[Var, int]) -> _Step | None:
    value = binding.value
    match value:
        case Call(op=Op(), args=given):
            args = [_place(arg, places) for arg in given]
        case TupleGetItem(tuple_value=whole):
            args = [_place(whole, places)]
        case _:
            return None
    known = tuple(arg for arg in args if arg is not None)
    if isinstance(binding, MatchCast) or len(known) != len(args):
        return None
    return _Step(primitive, value, known)


def _place(expr: Expr, places: dict[Var, int]) -> int | Constant | None:
    if isinstance(expr, Constant):
        return expr
    return places.get(expr) if isinstance(expr, Var) else None
