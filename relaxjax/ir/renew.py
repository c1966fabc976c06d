"""Renewing what an expression defines: its symbolic dimensions, and with them its variables."""

from collections.abc import Iterable, Mapping, Set
from typing import Any, TypeVar

from .attrs import Attrs
from .dim_variables import substitute_dim
from .dims import Dim, SymbolicExpr, SymbolicVar
from .expr import Call, DataflowVar, Expr, PrimExpr, ShapeExpr, Tuple, TupleGetItem, Var
from .function import Binding, DataflowBlock, Function, If, MatchCast, SeqExpr
from .node import replace
from .types import TensorType, TupleType, Type
from .walk import (
    bound_vars,
    definable_symbols,
    free_vars,
    kept,
    map_bindings,
    map_children,
    nested_bindings,
    nested_sequences,
    post_order,
    substitute_type,
    type_symbols,
    used_vars,
)

E = TypeVar("E", bound=Expr)


def substitute_symbols(expr: Expr, mapping: Mapping[SymbolicVar, Dim]) -> Expr:
    """`expr` with symbolic dimensions replaced: in shapes, attributes, types and definitions."""
    return Renewal(mapping).expr(expr) if mapping else expr


def renew(function: Function, visible: bool = False) -> tuple[Function, dict[Var, Var]]:
    """A copy of `function` that shares no variable with it; the new variable for each old one.

    Variables from outside stay, whatever their types call dimensions of their own. Where `visible`
    is set, its dataflow variables become ordinary ones.
    """
    defined = bound_vars(function)
    fresh = fresh_symbols(_own_symbols(function))
    renewal = Renewal(fresh, frozenset(defined), visible)
    renewal.renewed.update({var: var for var in free_vars(function)})
    copy = renewal.expr(function)
    assert isinstance(copy, Function)
    return copy, {var: renewal.var(var) for var in defined}


def fresh_symbols(symbols: Iterable[SymbolicVar]) -> dict[SymbolicVar, Dim]:
    """A new symbolic dimension for each, made in the order of the first mentions.

    So does a reader of the text make them, and products and sums are written in that order.
    """
    return {symbol: SymbolicVar(symbol.name) for symbol in dict.fromkeys(symbols)}


def _own_symbols(function: Function) -> list[SymbolicVar]:
    """The symbolic dimensions that a function or a closure in it defines, its own ones first.

    Those of a variable from outside are not among them, even if a parameter mentions them too.
    """
    functions = [f for f in reversed(list(post_order(function))) if isinstance(f, Function)]
    types = [param.ty for f in functions for param in f.params]
    types += [binding.ty for binding in nested_bindings(function) if isinstance(binding, MatchCast)]
    outer = {symbol for var in free_vars(function) for symbol in type_symbols(var.ty)}
    return [s for ty in types for s in definable_symbols(ty) if s not in outer]


def hidden(seq: SeqExpr) -> SeqExpr:
    """`seq` with all its variables such that only a dataflow block around it can see them."""
    visible = [b.var for b in seq.bindings() if not isinstance(b.var, DataflowVar)]
    return with_vars(seq, {var: _as_hidden(var) for var in visible})


def hide_unused_outputs(function: Function) -> Function:
    """`function` with dataflow outputs that nothing after their blocks uses hidden inside."""
    unused: dict[Var, Var] = {}
    for seq in nested_sequences(function):
        used = set(used_vars(seq.body))
        for before, block in reversed([*enumerate(seq.blocks)]):
            if isinstance(block, DataflowBlock):
                for var in (binding.var for binding in block.bindings):
                    if var not in used and not isinstance(var, DataflowVar):
                        unused[var] = _as_hidden(var)
            if before:
                used.update(var for binding in block.bindings for var in used_vars(binding.value))
    return with_vars(function, unused)


def _as_hidden(var: Var) -> DataflowVar:
    return DataflowVar(var.name, var.ty, span=var.span)


def with_vars(expr: E, mapping: Mapping[Var, Var]) -> E:
    """`expr` with variables replaced by others, at their definitions too."""
    if not mapping:
        return expr
    renewal = Renewal({})
    renewal.renewed.update(mapping)
    for old, new in mapping.items():
        # The type of one may name a shape that is another.
        ty = renewal.type(new.ty)
        if ty is not new.ty:
            renewal.renewed[old] = type(new)(new.name, ty, span=new.span)
    changed = renewal.expr(expr)
    assert isinstance(changed, type(expr))
    return changed


class Renewal:
    """One consistent change of symbolic dimensions and variables throughout an expression.

    Variables in `fresh` are replaced by new ones, visible after their block where `visible` is set,
    and so is every variable whose type changes.
    """

    def __init__(
        self,
        symbols: Mapping[SymbolicVar, Dim],
        fresh: Set[Var] = frozenset(),
        visible: bool = False,
    ) -> None:
        self.symbols = symbols
        self.fresh = fresh
        self.visible = visible
        self.renewed: dict[Var, Var] = {}

    def expr(self, expr: Expr) -> Expr:
        match expr:
            case Var():
                return self.var(expr)
            case ShapeExpr(values=values):
                return replace(expr, values=kept(values, map(self.value, values)))
            case PrimExpr():
                return replace(expr, value=self.value(expr.value))
            case SeqExpr():
                seq = map_bindings(expr, self.binding)
                return replace(seq, body=self.expr(expr.body), ty=self.type(expr.ty))
            case Function():
                params = kept(expr.params, map(self.var, expr.params))
                body = self.expr(expr.body)
                return replace(expr, params=params, body=body, ret_ty=self.type(expr.ret_ty))
            case Call():
                changed = map_children(expr, self.expr)
                ty_args = kept(expr.ty_args, map(self.type, expr.ty_args))
                attrs, ty = self.value(expr.attrs), self.type(expr.ty)
                return replace(changed, attrs=attrs, ty_args=ty_args, ty=ty)
            case Tuple() | TupleGetItem() | If():
                changed = map_children(expr, self.expr)
                return replace(changed, ty=self.type(expr.ty))
            case _:
                return expr

    def var(self, var: Var) -> Var:
        if var not in self.renewed:
            ty = self.type(var.ty)
            same = ty is var.ty and var not in self.fresh
            kind = Var if self.visible else type(var)
            self.renewed[var] = var if same else kind(var.name, ty, span=var.span)
        return self.renewed[var]

    def binding(self, binding: Binding) -> Binding:
        if isinstance(binding.value, Function):
            # A closure may call itself, so its name is renewed before its body.
            self.var(binding.var)
        value = self.expr(binding.value)
        if isinstance(binding, MatchCast):
            ty = self.type(binding.ty)
            return replace(binding, var=self.var(binding.var), value=value, ty=ty)
        return replace(binding, var=self.var(binding.var), value=value)

    def type(self, ty: Any) -> Any:
        return None if ty is None else self.shapes(substitute_type(ty, self.symbols))

    def shapes(self, ty: Type) -> Type:
        """`ty` with the variables that hold shapes in it renewed too."""
        match ty:
            case TensorType(shape=Var() as shape):
                return replace(ty, shape=self.var(shape))
            case TupleType(fields=fields):
                return replace(ty, fields=kept(fields, map(self.shapes, fields)))
            case _:
                return ty

    def value(self, value: Any) -> Any:
        """An attribute or a dimension, changed wherever dimensions occur in it."""
        if isinstance(value, SymbolicExpr):
            return substitute_dim(value, self.symbols)
        if isinstance(value, tuple):
            return kept(value, map(self.value, value))
        if isinstance(value, Attrs):
            changed = {key: self.value(item) for key, item in value.items()}
            same = all(changed[key] is item for key, item in value.items())
            return value if same else Attrs(changed)
        return self.type(value) if isinstance(value, Type) else value
