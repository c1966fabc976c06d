"""Adjoints of tuples kept in parts: no zeros, and no tuple, before something needs the whole."""

from functools import cached_property
from typing import TypeAlias

from relaxjax.ir.derivatives import carries_gradient
from relaxjax.ir.expr import Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TupleType

from .adjoint import Adjoint, item

# An adjoint as far as it is known: whole, or the fields of a tuple that something came back to.
Known: TypeAlias = Expr | dict[int, "Known"]


class LazyAdjoint(Adjoint):
    """Adjoints of which those of tuples are put together only where the whole is needed.

    What carries no gradient, such as the integers in a tuple, is passed over.
    """

    @cached_property
    def known(self) -> dict[Var, Known]:
        """What is known so far of the adjoint of each variable."""
        return {}

    def knows(self, var: Var) -> bool:
        return var in self.known

    def pass_on(self, value: Expr, var: Var) -> None:
        known = self.known[var]
        self.spread(value, known if isinstance(known, dict) else self.cast_back(known, value))

    def distribute(self, value: Expr, adjoint: Expr) -> None:
        self.spread(value, adjoint)

    def update(self, var: Var, partial: Expr) -> None:
        self.spread(var, partial)

    def of(self, var: Var) -> Var:
        """The whole adjoint of a variable: zero where nothing came back to it."""
        whole = self.whole(self.known.get(var), var)
        bound = whole if isinstance(whole, Var) else self.named(whole, var)
        self.known[var] = bound
        return bound

    def spread(self, value: Expr, known: Known) -> None:
        """Add what is known of an adjoint to those of the variables that make up `value`."""
        if not carries_gradient(value.ty):
            return
        match value:
            case Var():
                var = self.originals.get(value, value)
                self.known[var] = self.joined(self.known.get(var), known, var)
            case Tuple(fields=fields):
                parts = self.parts(known)
                for index in parts:
                    self.spread(fields[index], parts[index])
            case TupleGetItem(tuple_value=Var() as var, index=index):
                self.spread(var, {index: known})
            case TupleGetItem(tuple_value=Tuple(fields=fields), index=index):
                self.spread(fields[index], known)

    def joined(self, before: Known | None, known: Known, var: Var) -> Known:
        """The sum of what is known of two adjoints of one value."""
        if isinstance(known, Expr) and not isinstance(known.ty, TupleType):
            new = self.leaf(known) if isinstance(known, TupleGetItem) else known
            if before is None:
                return new if isinstance(new, Var) else self.named(new, var)
            assert isinstance(before, Expr)
            return self.named(get_op("relax.add")(before, self.leaf(new)), var)
        if before is None:
            return known if isinstance(known, dict) else self.leaf(known)
        one, other = self.parts(before), self.parts(known)
        both = {index: self.joined(one.get(index), other[index], var) for index in other}
        return {**one, **both}

    def parts(self, known: Known) -> dict[int, Known]:
        """What is known of a tuple's adjoint, by its fields."""
        if isinstance(known, dict):
            return known
        assert isinstance(known.ty, TupleType)
        fields = enumerate(known.ty.fields)
        return {index: item(known, index) for index, ty in fields if carries_gradient(ty)}

    def whole(self, known: Known | None, value: Expr) -> Expr:
        """The adjoint of a value, with zeros for what is not known of it."""
        if known is None:
            return self.nothing(value)
        if isinstance(known, Expr):
            return known
        assert isinstance(value.ty, TupleType)
        count = len(value.ty.fields)
        return Tuple(tuple(self.whole(known.get(i), item(value, i)) for i in range(count)))

    def named(self, value: Expr, var: Var) -> Var:
        return self.builder.emit(value, f"{var.name}_adjoint")
