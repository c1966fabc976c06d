"""Binding values to names: what an assignment adds to the program, and to the scope."""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import SymbolicExpr, SymbolicVar
from relaxjax.ir.expr import Call, DataflowVar, Expr, PrimExpr, Tuple, TupleGetItem, Var
from relaxjax.ir.expr import const as tensor_const
from relaxjax.ir.function import Function, If, MatchCast, SeqExpr, VarBinding
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.types import ObjectType, PrimType, Type

from .annotations import resolve
from .comprehension import unpack
from .evaluate import Evaluator
from .forms import MatchCastForm
from .scalars import Declaration
from .signature import dim_reader, read_type
from .values import as_expr

_DIMENSION = PrimType("int64")


class Binder:
    """Binds names in one body; every binding goes to the builder, every name into the scope."""

    def __init__(self, evaluator: Evaluator, builder: BlockBuilder) -> None:
        self.evaluator = evaluator
        self.builder = builder
        self._outputs: dict[str, ast.stmt] = {}
        self._renamed: dict[str, str] = {}

    @contextmanager
    def dataflow(self, outputs: dict[str, ast.stmt], renamed: dict[str, str]) -> Iterator[None]:
        """A dataflow block, with its results by name: the statement that binds each.

        `renamed` are results whose variables get another name than the text has.
        """
        self._outputs, self._renamed = outputs, renamed
        with self.builder.dataflow():
            yield
        self._outputs, self._renamed = {}, {}

    def assign(
        self, target: ast.expr, value: Any, annotation: ast.expr | None, statement: ast.stmt
    ) -> None:
        """`target = value`, where the target is a name or a tuple of them."""
        if not isinstance(target, ast.Name) and isinstance(value, Call | TupleGetItem):
            with self.evaluator.located(statement):
                value = self.builder.emit(value)
        with self.evaluator.located(target):
            pairs = list(unpack(self.evaluator, target, value))
        for name, item in pairs:
            self.bind(name, item, annotation, statement)

    def bind(
        self,
        name: ast.Name,
        value: Any,
        annotation: ast.expr | None,
        statement: ast.stmt,
        hint: str | None = None,
    ) -> None:
        """`name = value`: a binding of the program, or a name for a value of Python."""
        scope = self.evaluator.scope
        if isinstance(value, Declaration):
            if scope.is_captured(name.id) or not isinstance(scope.get(name.id), SymbolicVar):
                scope.set(name.id, SymbolicVar(name.id))
            return
        declared = None if annotation is None else read_type(self.evaluator, annotation)
        if isinstance(value, MatchCastForm):
            self._bind_cast(name, value, annotation, declared, statement, hint)
            return
        with self.evaluator.located(statement):
            expr = self._as_bound(value, declared)
        if expr is None:
            self._bind_python(name, value, annotation)
            return
        self.bind_expr(name.id, name, expr, statement, annotation, declared, hint)
        if declared == _DIMENSION and not isinstance(value, Expr):
            scope.set(name.id, value)  # so that shapes can be made of it

    def bind_expr(
        self,
        name: str,
        place: ast.AST,
        expr: Expr,
        statement: ast.stmt,
        annotation: ast.expr | None = None,
        declared: Type | None = None,
        hint: str | None = None,
    ) -> Var:
        """Bind an expression to a new variable of the declared type, or else of its own."""
        with self.evaluator.located(statement):
            value = self.builder.normalize(expr)
        ty = self.checked(name, value.ty, annotation, declared)
        var = self._variable(name, place, ty, statement, hint)
        return self._add(name, VarBinding(var, value, span=self._span(statement)), statement)

    def bind_variable(self, name: str, var: Var, value: Expr, statement: ast.stmt) -> Var:
        """Bind an expression to a variable that is there already."""
        return self._add(name, VarBinding(var, value, span=self._span(statement)), statement)

    def variable(self, name: str, place: ast.AST, ty: Type, statement: ast.stmt) -> Var:
        """A new variable in the scope, still to be bound."""
        var = self._variable(name, place, ty, statement, None)
        self.evaluator.scope.set(name, var)
        return var

    def checked(
        self, name: str, found: Type | None, annotation: ast.AST | None, declared: Type | None
    ) -> Type:
        """The type of a variable: as it is declared, unless its value can never have that type."""
        if declared is None or annotation is None:
            return found or ObjectType()
        if fits(found, declared) is Fit.NEVER:
            raise self.evaluator.refusal(
                annotation, f"`{name}` is declared as {declared}, but its value is of type {found}"
            )
        return declared

    def leaf(self, value: Any) -> Expr | None:
        """`value` as an expression, where it needs no binding of its own; else None."""
        expr = self._as_bound(value, None)
        return expr if expr is not None and _is_leaf(expr) else None

    def _bind_cast(
        self,
        name: ast.Name,
        form: MatchCastForm,
        annotation: ast.expr | None,
        declared: Type | None,
        statement: ast.stmt,
        hint: str | None,
    ) -> None:
        with self.evaluator.located(statement):
            ty = resolve(form.ty, dim_reader(self.evaluator, statement))
            value = self.builder.normalize_leaf(form.value)
            if fits(value.ty, ty) is Fit.NEVER:
                raise TypeError(f"`{value}` is of type {value.ty}, which can never be {ty}")
        declared = self.checked(name.id, ty, annotation, declared)
        var = self._variable(name.id, name, declared, statement, hint)
        self._add(name.id, MatchCast(var, value, ty, span=self._span(statement)), statement)

    def _bind_python(self, name: ast.Name, value: Any, annotation: ast.expr | None) -> None:
        if annotation is not None:
            kind = type(value).__name__
            raise self.evaluator.refusal(
                annotation, f"`{name.id}` is a Python {kind}, which has no type in Relax"
            )
        self.evaluator.scope.set(name.id, value)

    def _as_bound(self, value: Any, declared: Type | None) -> Expr | None:
        """The expression that a binding keeps; None for what stays a value of Python."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, int | float):
            if isinstance(declared, PrimType):
                return PrimExpr(value, declared.dtype)
            return tensor_const(value)
        if isinstance(value, SymbolicExpr):
            return PrimExpr(value) if isinstance(declared, PrimType) else None
        if isinstance(value, tuple):
            plain = bool(value) and not any(isinstance(item, Expr | tuple) for item in value)
            return None if plain and declared is None else as_expr(value)
        return value if isinstance(value, Expr) else None

    def _variable(
        self, name: str, place: ast.AST, ty: Type, statement: ast.stmt, hint: str | None
    ) -> Var:
        hidden = (
            self.builder.current_block_is_dataflow() and self._outputs.get(name) is not statement
        )
        kind = DataflowVar if hidden else Var
        return kind(
            hint or self._renamed.get(name, name), ty, span=self.evaluator.source.span(place)
        )

    def _add(self, name: str, binding: VarBinding | MatchCast, statement: ast.stmt) -> Var:
        with self.evaluator.located(statement):
            var = self.builder.emit_binding(binding)
        self.evaluator.scope.set(name, var)
        return var

    def _span(self, statement: ast.stmt) -> Any:
        return self.evaluator.source.span(statement)


def _is_leaf(expr: Expr) -> bool:
    if isinstance(expr, Tuple):
        return all(map(_is_leaf, expr.fields))
    return not isinstance(expr, Call | TupleGetItem | If | SeqExpr | Function)
