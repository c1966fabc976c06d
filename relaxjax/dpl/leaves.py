"""The patterns that have no others inside them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from relaxjax.ir.dim_variables import substitute_dim
from relaxjax.ir.expr import Constant, DataflowVar, Expr, ExternFunc, GlobalVar, ShapeExpr, Var
from relaxjax.ir.node import also_called
from relaxjax.ir.op import Op
from relaxjax.ir.renew import substitute_symbols
from relaxjax.ir.types import ShapeType

from .matching import Matching
from .pattern import DFPattern


@dataclass(frozen=True, eq=False)
class WildcardPattern(DFPattern):
    """Anything."""

    looks_behind = False

    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        yield matching


@dataclass(frozen=True, eq=False)
class ExprPattern(DFPattern):
    """One expression, an operator above all."""

    expr: Expr

    def heads(self) -> frozenset[str] | None:
        """Of an operator, itself: patterns of its calls have this as theirs."""
        return frozenset([self.expr.name]) if isinstance(self.expr, Op) else None

    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        if expr is self.expr or expr == substitute_symbols(self.expr, matching.dims):
            yield matching


@dataclass(frozen=True, eq=False)
class VarPattern(DFPattern):
    """A variable, of a certain name if one is given."""

    name: str = ""
    looks_behind = False
    kind = Var

    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        if isinstance(expr, self.kind) and self.name in ("", expr.name):
            yield matching


class DataflowVarPattern(VarPattern):
    """A variable that only its dataflow block can see."""

    kind = DataflowVar


@dataclass(frozen=True, eq=False)
class GlobalVarPattern(DFPattern):
    """A function of the module, of a certain name if one is given."""

    name: str = ""

    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        if isinstance(expr, GlobalVar) and self.name in ("", expr.name):
            yield matching


@also_called(global_symbol="symbol")
@dataclass(frozen=True, eq=False)
class ExternFuncPattern(DFPattern):
    """A function from outside, of a certain name if one is given."""

    symbol: str = ""

    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        if isinstance(expr, ExternFunc) and self.symbol in ("", expr.symbol):
            yield matching


@dataclass(frozen=True, eq=False)
class ConstantPattern(DFPattern):
    """A constant tensor."""

    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        if isinstance(expr, Constant):
            yield matching


@also_called(fields="shape")
@dataclass(frozen=True, eq=False)
class PrimArrPattern(DFPattern):
    """A shape as a value."""

    shape: tuple[Any, ...]

    def __getitem__(self, index: int) -> Any:
        return self.shape[index]

    def __len__(self) -> int:
        return len(self.shape)

    def fits(self, expr: Expr, matching: Matching) -> Iterator[Matching]:
        if not isinstance(expr, ShapeExpr):
            return
        learnt = matching.learning(ShapeType(self.shape), expr.ty)
        if expr.values == tuple(substitute_dim(dim, learnt.dims) for dim in self.shape):
            yield learnt
