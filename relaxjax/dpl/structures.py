"""The patterns of what is made of other values, by these: functions, tuples and their fields."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from relaxjax.ir.expr import Expr, Tuple, TupleGetItem
from relaxjax.ir.function import Function
from relaxjax.ir.node import also_called
from relaxjax.ir.uses import values_of

from .matching import Matching
from .pattern import DFPattern, search_all


@dataclass(frozen=True, eq=False)
class FunctionPattern(DFPattern):
    """A function, by its parameters and the value that it returns."""

    params: tuple[DFPattern, ...]
    body: DFPattern

    def parts(self) -> tuple[DFPattern, ...]:
        return *self.params, self.body

    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        if isinstance(expr, Function) and len(expr.params) == len(self.params):
            own = values_of(expr.body.bindings())
            inside = matching.knowing(own)
            for extended in search_all(self.params, expr.params, inside):
                yield from self.body.search(expr.body.body, extended)


@dataclass(frozen=True, eq=False)
class TuplePattern(DFPattern):
    """A tuple, field by field."""

    fields: tuple[DFPattern, ...]

    def __getitem__(self, index: int | None) -> "TupleGetItemPattern":
        if index is not None and not -len(self) <= index < len(self):
            raise IndexError(f"a tuple of {len(self)} patterns has no field {index}")
        return TupleGetItemPattern(self, None if index is None else index % len(self))

    def __len__(self) -> int:
        return len(self.fields)

    def parts(self) -> tuple[DFPattern, ...]:
        return self.fields

    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        if isinstance(expr, Tuple) and len(expr) == len(self):
            yield from search_all(self.fields, expr.fields, matching)


class UnorderedTuplePattern(TuplePattern):
    """A tuple whose fields may stand in any order."""

    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        if isinstance(expr, Tuple) and len(expr) == len(self):
            for fields in permutations(expr.fields):
                yield from search_all(self.fields, fields, matching)


@also_called(tuple="tuple_value")
@dataclass(frozen=True, eq=False)
class TupleGetItemPattern(DFPattern):
    """A field of a tuple, the one at `index` if it is given."""

    tuple_value: DFPattern
    index: int | None = None

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.tuple_value,)

    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        if isinstance(expr, TupleGetItem) and self.index in (None, expr.index):
            yield from self.tuple_value.search(expr.tuple_value, matching)
