"""Patterns under names, with checks of what they fit: what groups of operators are made by."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from relaxjax.ir.expr import DataflowVar, Expr, Var

from .pattern import DFPattern


@dataclass(frozen=True)
class PatternCheckContext:
    """What the check of a pattern may look at, by TVM's names."""

    matched_expr: Expr
    annotated_expr: Mapping[str, Expr]
    matched_bindings: Mapping[Var, Expr]
    var_usages: Mapping[Var, Sequence[Var]]
    value_to_bound_var: Mapping[Expr, Var]

    @property
    def leaks(self) -> bool:
        """Whether something outside the match needs an inner value of it."""
        inner = set(self.matched_bindings)
        root = self.value_to_bound_var[self.matched_expr]
        return any(
            not isinstance(var, DataflowVar) or not inner.issuperset(self.var_usages[var])
            for var in inner
            if var is not root
        )


@dataclass(frozen=True, eq=False)
class FusionPattern:
    """A pattern under a name such as `pallas.matmul_relu`, whose first part names a backend.

    Args:
        name: the name that a group gets as its attribute `Composite`.
        pattern: what is grouped: all calls and tuples that it spells out, no wildcards.
        annotation_patterns: parts of the pattern, by names for the check.
        check: says whether a match is to be grouped.
        attrs_getter: gives attributes of the group's function, from what the annotations fit.
    """

    name: str
    pattern: DFPattern
    annotation_patterns: Mapping[str, DFPattern] = field(default_factory=dict)
    check: Callable[[PatternCheckContext], bool] | None = None
    attrs_getter: Callable[[dict[str, Expr]], Mapping[str, Any]] | None = None


PatternEntry: TypeAlias = FusionPattern | tuple[Any, ...]


def as_fusion_pattern(entry: PatternEntry) -> FusionPattern:
    """A fusion pattern, from one or from a tuple of its fields."""
    given: Any = entry
    if isinstance(entry, tuple) and 2 <= len(entry) <= len(fields(FusionPattern)):
        given = FusionPattern(*entry)
    if not isinstance(given, FusionPattern) or not isinstance(given.pattern, DFPattern):
        raise TypeError(
            "a pattern to fuse by is a FusionPattern, or a tuple such as "
            f'("backend.name", pattern), found `{entry!r}`'
        )
    return given
