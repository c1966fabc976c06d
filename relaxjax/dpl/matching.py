"""A match in the making: what each pattern stands for, and the values behind variables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.ir.expr import Constant, Expr, Var
from relaxjax.ir.infer import unify
from relaxjax.ir.types import Type
from relaxjax.ir.walk import type_symbols


@dataclass(frozen=True, slots=True)
class Matching:
    """Patterns and the expressions that they stand for, each as it was met: often a variable.

    It never changes: a search that meets a choice goes on from one matching in several ways.
    `dims` is what the symbolic dimensions of patterns stand for.
    """

    var2val: Mapping[Var, Expr] = field(default_factory=dict)
    found: Mapping[Any, Expr] = field(default_factory=lambda: MappingProxyType({}))
    dims: Mapping[SymbolicVar, Dim] = field(default_factory=lambda: MappingProxyType({}))

    def with_pair(self, pattern: Any, expr: Expr) -> "Matching":
        return replace(self, found={**self.found, pattern: expr})

    def knowing(self, var2val: Mapping[Var, Expr]) -> "Matching":
        """This matching with the values of more variables."""
        return replace(self, var2val={**self.var2val, **var2val})

    def learning(self, ty: Type, given: Type | None) -> "Matching":
        """This matching with the dimensions that the type of a pattern has and those of a value.

        A dimension of the program stands for itself, a new one for whatever the value has there.
        """
        dims = dict(self.dims)
        for symbol in type_symbols(ty):
            if symbol not in dims and self._has(symbol, given):
                dims[symbol] = symbol
        unify(ty, given, dims)
        return replace(self, dims=dims)

    def _has(self, symbol: SymbolicVar, ty: Type | None) -> bool:
        types = (ty, *(var.ty for var in self.var2val))
        return any(symbol in type_symbols(item) for item in types)

    def value(self, expr: Expr) -> Expr:
        """What stands behind a variable, as far as it is known; any other expression itself."""
        while isinstance(expr, Var) and expr in self.var2val:
            expr = self.var2val[expr]
        return expr

    def same(self, one: Expr, other: Expr) -> bool:
        """Whether two expressions are one value, not merely two computed alike."""
        one, other = self.value(one), self.value(other)
        return one is other or (isinstance(one, Constant) and one == other)

    def values(self) -> "Found":
        """What each pattern stands for, looked up behind the variables."""
        return Found((pattern, self.value(expr)) for pattern, expr in self.found.items())


class Found(dict[Any, Expr]):
    """What patterns stand for: each is looked up by itself, not by another one that is like it."""

    __slots__ = ()

    def __missing__(self, pattern: Any) -> Expr:
        raise KeyError(
            f"the pattern `{pattern}` stands for nothing here: look up the very pattern that is a "
            "part of the one that fitted, as `x` after `x = wildcard()`, and by `.get` one that "
            "need not fit"
        )


def first(matchings: Iterator[Matching]) -> Matching | None:
    return next(matchings, None)
