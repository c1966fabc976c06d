"""The names under which bindings are compiled, as profiles and XLA's text tell them."""

import re
from collections.abc import Container, Iterator, Mapping

from relaxjax.ir.expr import Var
from relaxjax.ir.function import Binding, Function, If, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.printer import variable_names


def bindings_by_scope(mod: IRModule) -> dict[str, Binding]:
    """All bindings of a module, those of loops and branches too, by the names of their scopes."""
    found: dict[str, Binding] = {}
    for name, function in mod.relax_functions().items():
        found |= _named(function.body, name, variable_names(function))
    return found


def scopes_in(place: str, known: Container[str]) -> list[str]:
    """The known scopes that a place in a compiled program lies in, the outermost first."""
    return [scope for scope in re.split("[/;:()]", place) if scope in known]


def _named(seq: SeqExpr, name: str, printed: Mapping[Var, str]) -> dict[str, Binding]:
    found: dict[str, Binding] = {}
    for binding in seq.bindings():
        scope = f"{name}.{printed.get(binding.var, binding.var.name)}"
        found[scope] = binding
        for inner, frame in _inside(binding, scope, name):
            found |= _named(inner, frame, printed)
    return found


def _inside(binding: Binding, scope: str, name: str) -> Iterator[tuple[SeqExpr, str]]:
    match binding.value:
        case Function(body=body):
            yield body, scope
        case If(true_branch=one, false_branch=other):
            yield from ((one, name), (other, name))
