"""Patterns: each says what it fits, and in which ways.

A pattern is known by its identity. Where it stands twice, it must stand for one value.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.dim_variables import substitute_dim
from relaxjax.ir.dims import as_dim
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.node import also_called
from relaxjax.ir.op import Op, kept_attribute, operator_of
from relaxjax.ir.types import TensorType, Type, dtype_name
from relaxjax.ir.walk import substitute_type

from .constraints import innermost
from .matching import Matching, first
from .sequence import PatternSeq, SameShapeConstraint
from .signatures import check_attributes, check_count


class DFPattern(ABC):
    """A pattern of expressions."""

    looks_behind = True  # whether it wants the value that a variable is bound to

    def __call__(
        self, *args: "DFPattern", varg_default_wildcard: bool = False, add_constraint: bool = True
    ) -> "CallPattern":
        """A call of what this pattern fits; `varg_default_wildcard` allows more arguments."""
        return CallPattern(self, args, varg_default_wildcard, add_constraint)

    def __or__(self, other: "DFPattern") -> "OrPattern":
        return OrPattern(self, other)

    def __and__(self, other: "DFPattern") -> "AndPattern":
        return AndPattern(self, other)

    def __invert__(self) -> "NotPattern":
        return NotPattern(self)

    def has_attr(self, attrs: Mapping[str, Any]) -> "AttrPattern":
        """This, with some attributes: of a call or a function, or facts of an operator."""
        return AttrPattern(self, Attrs(attrs))

    def has_ty(self, ty: Type) -> "TypePattern":
        """This, where its value may stand for one of type `ty`.

        A symbolic dimension that the program does not have stands for any, the same one wherever
        it occurs in the patterns of a match.
        """
        return TypePattern(self, ty)

    has_struct_info = has_ty

    def has_dtype(self, dtype: str) -> "DataTypePattern":
        return DataTypePattern(self, dtype_name(dtype))

    def has_shape(self, shape: Sequence[Any]) -> "ShapePattern":
        """This, where it is a tensor of exactly this shape; `has_ty` tells of new dimensions."""
        return ShapePattern(self, as_dims("has_shape", shape))

    def match(self, expr: Expr, var2val: Mapping[Var, Expr] | None = None) -> bool:
        """Whether it fits `expr`; `var2val` tells the values that variables are bound to."""
        return first(self.search(expr, Matching(var2val or {}))) is not None

    def extract_matched_expr(
        self, expr: Expr, var2val: Mapping[Var, Expr] | None = None
    ) -> "dict[DFPattern, Expr] | None":
        """What this pattern and each one inside it stand for, None where it does not fit."""
        found = first(self.search(expr, Matching(var2val or {})))
        return None if found is None else found.values()

    def used_by(self, other: "DFPattern | PatternSeq", index: int = -1) -> "PatternSeq":
        """This value is an argument of the other: the one at `index`, or any."""
        return PatternSeq([self]).used_by(other, index)

    def only_used_by(self, other: "DFPattern | PatternSeq", index: int = -1) -> "PatternSeq":
        """As `used_by`, and nothing else uses the value."""
        return PatternSeq([self]).only_used_by(other, index)

    def __xor__(self, other: "DFPattern | PatternSeq") -> "PatternSeq":
        return self.used_by(other)

    def __rshift__(self, other: "DFPattern | PatternSeq") -> "PatternSeq":
        return self.only_used_by(other)

    def fork_to(self, *others: "DFPattern") -> None:
        """This value is used by each of the others."""
        for other in others:
            self.used_by(other)

    def same_shape_as(self, *others: "DFPattern") -> "SameShapeConstraint":
        """In the context around this: all these values are tensors of one shape."""
        return SameShapeConstraint(self, *others)

    def dup(self) -> "DFPattern":
        """A pattern like this one, free to stand for another value."""
        twin = copy.copy(self)
        _note(twin)
        return twin

    def parts(self) -> "tuple[DFPattern, ...]":
        """The patterns directly inside this one."""
        return ()

    def search(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        """Every way to go on from a matching such that this pattern stands for `expr`."""
        if self in matching.found:
            if matching.same(matching.found[self], expr):
                yield matching
            return
        seen = matching.value(expr) if self.looks_behind else expr
        for extended in self.fits(seen, matching):
            yield extended.with_pair(self, expr)

    def heads(self) -> frozenset[str] | None:
        """The operators whose calls it fits, by their names; None where it may fit others too."""
        return None

    @abstractmethod
    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        """Every way to go on such that what is inside this pattern fits what is inside `expr`."""


@dataclass(frozen=True, eq=False)
class CallPattern(DFPattern):
    """A call. The two arguments of a commutative operator may stand in either order."""

    op: DFPattern
    args: tuple[DFPattern, ...]
    varg_default_wildcard: bool = False
    add_constraint: bool = True

    def __post_init__(self) -> None:
        for arg in self.args:
            if not isinstance(arg, DFPattern):
                raise TypeError(
                    f"a pattern's arguments are patterns, found `{arg!r}`: "
                    "write is_expr(expression) for one certain expression"
                )
        object.__setattr__(self, "args", tuple(self.args))
        check_count(self.op.heads() or (), len(self.args), self.varg_default_wildcard)
        if self.args and self.add_constraint:
            _note(self)

    def parts(self) -> tuple[DFPattern, ...]:
        return self.op, *self.args

    def heads(self) -> frozenset[str] | None:
        return self.op.heads()

    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        if not isinstance(expr, Call) or not self._admits(len(expr.args)):
            return
        for extended in self.op.search(expr.op, matching):
            yield from search_all(self.args, expr.args, extended)
            if len(self.args) == 2 == len(expr.args) and _commutative(expr.op):
                yield from search_all(self.args, expr.args[::-1], extended)

    def _admits(self, count: int) -> bool:
        return count == len(self.args) or (self.varg_default_wildcard and count > len(self.args))


@dataclass(frozen=True, eq=False)
class OrPattern(DFPattern):
    """What one of two patterns fits; the left one is tried first."""

    left: DFPattern
    right: DFPattern
    looks_behind = False

    def __post_init__(self) -> None:
        for part in self.parts():
            if not isinstance(part, DFPattern):
                raise TypeError(f"`|` and `&` join two patterns, but one is {part!r}")
        _note_around(self)

    def parts(self) -> tuple[DFPattern, ...]:
        return self.left, self.right

    def heads(self) -> frozenset[str] | None:
        left, right = self.left.heads(), self.right.heads()
        return None if left is None or right is None else left | right

    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        yield from self.left.search(expr, matching)
        yield from self.right.search(expr, matching)


class AndPattern(OrPattern):
    """What two patterns fit both."""

    def heads(self) -> frozenset[str] | None:
        left = self.left.heads()
        return self.right.heads() if left is None else left

    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        for extended in self.left.search(expr, matching):
            yield from self.right.search(expr, extended)


@also_called(reject="to_reject")
@dataclass(frozen=True, eq=False)
class NotPattern(DFPattern):
    """What a pattern does not fit."""

    to_reject: DFPattern
    looks_behind = False

    def __post_init__(self) -> None:
        _note_around(self)

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.to_reject,)

    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        if first(self.to_reject.search(expr, matching)) is None:
            yield matching


@dataclass(frozen=True, eq=False)
class Refinement(DFPattern):
    """What a pattern fits, if something more is true of it."""

    pattern: DFPattern
    looks_behind = False

    def __post_init__(self) -> None:
        _note_around(self)

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.pattern,)

    def heads(self) -> frozenset[str] | None:
        return self.pattern.heads()

    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        learnt = self.learnt(expr, matching)
        if self.holds(expr, learnt):
            yield from self.pattern.search(expr, learnt)

    def learnt(self, expr: Expr, matching: Matching) -> Matching:
        """A matching that knows what `expr` tells of the dimensions of this pattern."""
        return matching

    @abstractmethod
    def holds(self, expr: Expr, matching: Matching) -> bool:
        """Whether it is true of `expr`."""


@dataclass(frozen=True, eq=False)
class AttrPattern(Refinement):
    """What a pattern fits, with some attributes."""

    attrs: Attrs

    def __post_init__(self) -> None:
        check_attributes(_called(self.pattern) or (), self.attrs)
        super().__post_init__()

    def holds(self, expr: Expr, matching: Matching) -> bool:
        value = matching.value(expr)
        has = value.facts if isinstance(value, Op) else getattr(value, "attrs", None)
        operator = operator_of(value)
        return has is not None and all(
            name in has and (has[name] == wanted or _is_kept(operator, name, wanted, has[name]))
            for name, wanted in self.attrs.items()
        )


@dataclass(frozen=True, eq=False)
class TypePattern(Refinement):
    """What a pattern fits, of a certain type; a new dimension of that may be any, but one only."""

    ty: Type

    def learnt(self, expr: Expr, matching: Matching) -> Matching:
        return matching.learning(self.ty, expr.ty)

    def holds(self, expr: Expr, matching: Matching) -> bool:
        expected = substitute_type(self.ty, matching.dims)
        return expr.ty is not None and fits(expr.ty, expected) is Fit.ALWAYS


class SizedPattern(TypePattern):
    """What a pattern fits; where it has the dimensions of a type, they are learnt."""

    def holds(self, expr: Expr, matching: Matching) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class DataTypePattern(Refinement):
    """What a pattern fits, of a certain dtype."""

    dtype: str

    def holds(self, expr: Expr, matching: Matching) -> bool:
        return isinstance(expr.ty, TensorType) and expr.ty.dtype == self.dtype


@dataclass(frozen=True, eq=False)
class ShapePattern(Refinement):
    """What a pattern fits, of a certain shape; a new dimension may be any, but one only."""

    shape: tuple[Any, ...]

    def learnt(self, expr: Expr, matching: Matching) -> Matching:
        return matching.learning(TensorType(self.shape), expr.ty)

    def holds(self, expr: Expr, matching: Matching) -> bool:
        expected = tuple(substitute_dim(dim, matching.dims) for dim in self.shape)
        return isinstance(expr.ty, TensorType) and expr.ty.dims == expected


def as_dims(who: str, shape: Any) -> tuple[Any, ...]:
    if not isinstance(shape, list | tuple):
        raise ValueError(f"{who} takes a list or tuple of dimensions, found `{shape!r}`")
    return tuple(map(as_dim, shape))


def search_all(
    patterns: Sequence[DFPattern], exprs: Sequence[Expr], matching: Matching
) -> Iterator[Matching]:
    """Every way in which patterns stand for expressions, one each; what is left over is free."""
    if not patterns:
        yield matching
        return
    for extended in patterns[0].search(exprs[0], matching):
        yield from search_all(patterns[1:], exprs[1:], extended)


def _is_kept(operator: Op | None, name: str, wanted: Any, has: Any) -> bool:
    """Whether a call of an operator keeps `has` where `wanted` is written."""
    return operator is not None and (
        Attrs({name: kept_attribute(operator, name, wanted)})[name] == has
    )


def _called(pattern: DFPattern) -> frozenset[str] | None:
    """The operators whose calls alone it fits; None where it may fit an operator itself, too."""
    if isinstance(pattern, Refinement):
        return _called(pattern.pattern)
    return pattern.heads() if isinstance(pattern, CallPattern) else None


def _commutative(op: Expr) -> bool:
    return isinstance(op, Op) and bool(op.facts.get("commutative"))


def _note(pattern: DFPattern) -> None:
    context = innermost()
    if context is not None:
        context.note(pattern)


def _note_around(pattern: DFPattern) -> None:
    """Note a pattern around others, if one of those belongs to the graph."""
    context = innermost()
    if context is not None and any(part in context.patterns for part in pattern.parts()):
        context.note(pattern)
