"""Fusing what patterns fit into functions that a backend may take."""

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from relaxjax.dpl import (
    CallPattern,
    DFPattern,
    FusionPattern,
    Matching,
    PatternCheckContext,
    PatternEntry,
    TupleGetItemPattern,
    TuplePattern,
    as_fusion_pattern,
)
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.function import Binding, BindingBlock, Function, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.uses import Uses, values_of
from relaxjax.ir.walk import dataflow_blocks
from relaxjax.passes.infrastructure.base import pass_factory

from .composites import backend_of, wrapped
from .grouping import Group, group_name, outlined
from .regions import Contraction

# The kinds of patterns that spell out what they fit; all others only say something about it.
_SPELT_OUT = (CallPattern, TuplePattern, TupleGetItemPattern)


@pass_factory(opt_level=0)
def FuseOpsByPattern(
    mod: IRModule,
    patterns: Sequence[PatternEntry],
    bind_constants: bool = True,
    annotate_codegen: bool = False,
    entry_functions: Sequence[str] | None = None,
) -> IRModule:
    """Group what patterns fit in dataflow blocks into private functions, named as the pattern is.

    Of an inner value that something outside the group needs as well, the group gives both. A match
    that would need itself by way of something outside stays as it is. One that has all of another
    match inside takes its place: of the sides of an or-pattern, the larger one that fits.

    Args:
        patterns: `FusionPattern`s, or tuples of their fields: name, pattern, annotations, check,
            attributes. An earlier one goes first.
        bind_constants: whether constants stay inside the groups, or are handed to them.
        annotate_codegen: whether each group becomes a region for the backend that the first part
            of the pattern's name tells, as MergeCompositeFunctions makes of several.
        entry_functions: names of the functions to look at, all by default.
    """
    entries = [mod.get_global_var(name).name for name in entry_functions or ()]
    for pattern in map(as_fusion_pattern, patterns):
        search = _Search(pattern, bind_constants, annotate_codegen)
        mod = outlined(mod, search.groups, entries)
    return mod


@dataclass(frozen=True)
class _Known:
    """What the variables of a function are bound to, which of them use each, and of which value."""

    values: Mapping[Var, Expr]
    users: Mapping[Var, Sequence[Var]]
    names: dict[Expr, Var]


class _Search:
    """The matches of one pattern, function by function."""

    def __init__(self, pattern: FusionPattern, bind_constants: bool, codegen: bool) -> None:
        self.pattern = pattern
        self.bind_constants = bind_constants
        self.codegen = codegen

    def groups(self, function: Function) -> list[Group]:
        uses = Uses.of(function)
        values = uses.values
        users = {var: uses.users_of(var) for var in (*function.params, *uses.users, *values)}
        known = _Known(values, users, {value: var for var, value in values.items()})
        return [
            group for block in dataflow_blocks(function) for group in self._in_block(block, known)
        ]

    def _in_block(self, block: BindingBlock, known: "_Known") -> list[Group]:
        # A group is of one block: what another one computes is to a pattern what it is given.
        own = {b.var: known.values[b.var] for b in block.bindings if b.var in known.values}
        bindings = {binding.var: binding for binding in block.bindings}
        order = Contraction(block.bindings)
        taken: dict[Var, int] = {}
        groups: list[Group] = []
        for binding in block.bindings:
            if not isinstance(binding, VarBinding) or binding.var in taken:
                continue
            found = next(self.pattern.pattern.search(binding.value, Matching(own)), None)
            if found is None:
                continue
            spelt = {binding.var, *_spelt_out(found)} & bindings.keys()
            members = [bindings[var] for var in sorted(spelt, key=order.places.__getitem__)]
            inside = {taken[var] for var in spelt if var in taken}
            whole = all(spelt.issuperset(groups[index].variables()) for index in inside)
            if not whole or not order.allows(members):
                continue
            annotated = self._annotated(binding.value, found)
            if self._accepted(binding, members, annotated, known):
                taken |= dict.fromkeys(spelt, len(groups))
                order.contract(members)
                groups.append(self._group(members, annotated))
        left = set(taken.values())
        return [group for index, group in enumerate(groups) if index in left]

    def _annotated(self, root: Expr, found: Matching) -> dict[str, Expr]:
        named: dict[DFPattern, Expr] = {**found.values(), self.pattern.pattern: root}
        patterns = self.pattern.annotation_patterns
        return {name: named[part] for name, part in patterns.items() if part in named}

    def _accepted(
        self,
        root: VarBinding,
        members: Sequence[Binding],
        annotated: Mapping[str, Expr],
        known: "_Known",
    ) -> bool:
        if self.pattern.check is None:
            return True
        bound = values_of(members)
        # Of values computed alike those of the match count.
        names = ChainMap({value: var for var, value in bound.items()}, known.names)
        context = PatternCheckContext(root.value, annotated, bound, known.users, names)
        return self.pattern.check(context)

    def _group(self, members: Sequence[Binding], annotated: dict[str, Expr]) -> Group:
        getter = self.pattern.attrs_getter
        more = dict(getter(annotated)) if getter is not None else {}
        attrs = {"Composite": self.pattern.name, **more}
        if self.codegen:
            name = f"{group_name(members)}_{backend_of(self.pattern.name)}"
            return Group(tuple(members), name, attrs, wrapped, not self.bind_constants)
        attrs["Primitive"] = True
        return Group(
            tuple(members), group_name(members), attrs, lift_constants=not self.bind_constants
        )


def _spelt_out(found: Matching) -> Iterator[Var]:
    """The variables of the values that a match spells out."""
    for pattern, expr in found.found.items():
        if isinstance(pattern, _SPELT_OUT) and isinstance(expr, Var):
            yield expr
