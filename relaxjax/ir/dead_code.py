"""Dead code inside one function: what neither its result nor an effect needs."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from .blocks import tidy_blocks
from .dims import SymbolicVar
from .expr import Call, Expr, PrimExpr, ShapeExpr, Var
from .function import Binding, Function, MatchCast, SeqExpr
from .infer import is_pure_call
from .node import replace
from .reached import reached
from .types import Type
from .walk import (
    children,
    definable_symbols,
    is_call_of_leaves,
    map_bindings,
    map_children,
    type_symbols,
    type_vars,
    used_vars,
    value_symbols,
)

# A thing that can be needed: a variable stands for its binding, the root function for its result.
Need: TypeAlias = Expr | SymbolicVar


def remove_all_unused(function: Function) -> Function:
    """`function` without the pure bindings that nothing needs, in branches and closures too.

    A match_cast stays where its variable is used or a symbolic dimension that it defines.
    """
    needs, root = _Needs(function).needs, list[Need]([function])
    swept = _sweep(function, set(reached(root, lambda need: needs.get(need, ()))))
    assert isinstance(swept, Function)
    return swept


class _Needs:
    """What each thing needs: a variable what its binding mentions, a dimension its definitions."""

    def __init__(self, function: Function) -> None:
        self.needs: dict[Need, list[Need]] = {}
        self.in_scope: dict[SymbolicVar, None] = {}
        self.function(function, function)

    def function(self, owner: Need, function: Function) -> None:
        with self.scope():
            for param in function.params:
                self.add(owner, _type_needs(param.ty))
                self.define(definable_symbols(param.ty))
            self.sequence(owner, function.body)
            self.add(owner, _type_needs(function.ret_ty))

    def sequence(self, owner: Need, seq: SeqExpr) -> bool:
        """Read a sequence that `owner` evaluates; whether that has an effect."""
        with self.scope():
            effects = [binding.var for binding in seq.bindings() if self.binding(binding)]
            self.add(owner, effects)
            return self.expr(owner, seq.body) or bool(effects)

    def binding(self, binding: Binding) -> bool:
        self.add(binding.var, _type_needs(binding.var.ty))
        if isinstance(binding, MatchCast):
            self.add(binding.var, _type_needs(binding.ty))
            for symbol in self.define(definable_symbols(binding.ty)):
                self.add(symbol, [binding.var])
        return self.expr(binding.var, binding.value)

    def expr(self, owner: Need, expr: Expr) -> bool:
        """Read an expression that `owner` evaluates; whether that has an effect."""
        effect = False
        match expr:
            case Var():
                self.add(owner, [expr])
            case ShapeExpr(values=values):
                self.add(owner, value_symbols(values))
            case PrimExpr(value=value):
                self.add(owner, value_symbols(value))
            case Function():
                # Making a closure has no effect; what its calls do, their own types say.
                self.function(owner, expr)
                return False
            case SeqExpr():
                return self.sequence(owner, expr)
            case Call():
                effect = not is_pure_call(expr)
                self.add(owner, value_symbols(expr.attrs))
                self.add(owner, (need for ty in expr.ty_args for need in _type_needs(ty)))
                if is_call_of_leaves(expr):
                    self.add(owner, used_vars(expr))
                    return effect
        effects = [self.expr(owner, child) for child in children(expr)]
        return effect or any(effects)

    def add(self, owner: Need, needs: Iterable[Need]) -> None:
        self.needs.setdefault(owner, []).extend(needs)

    def define(self, symbols: Iterable[SymbolicVar]) -> list[SymbolicVar]:
        """Bring symbolic dimensions into scope; those that were not in it before."""
        new = [symbol for symbol in symbols if symbol not in self.in_scope]
        self.in_scope.update(dict.fromkeys(new))
        return new

    @contextmanager
    def scope(self) -> Iterator[None]:
        outer = len(self.in_scope)
        yield
        while len(self.in_scope) > outer:
            self.in_scope.popitem()


def _sweep(expr: Expr, live: set[Need]) -> Expr:
    if isinstance(expr, SeqExpr):
        swept = map_bindings(expr, lambda binding: _swept_binding(binding, live))
        return replace(swept, blocks=tidy_blocks(swept.blocks), body=_sweep(swept.body, live))
    if is_call_of_leaves(expr):
        return expr
    return map_children(expr, lambda child: _sweep(child, live))


def _swept_binding(binding: Binding, live: set[Need]) -> Binding | None:
    if binding.var not in live:
        return None
    return replace(binding, value=_sweep(binding.value, live))


def _type_needs(ty: Type | None) -> tuple[Need, ...]:
    """The symbolic dimensions and the variables that a type mentions."""
    return (*type_symbols(ty), *type_vars(ty))
