"""Our symbolic dimensions and JAX's: the same arithmetic, matched by the names of the variables."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jax import export

from relaxjax.ir.attrs import PLAIN, Attrs
from relaxjax.ir.builder import Names
from relaxjax.ir.dims import (
    Dim,
    DimExpr,
    DimOp,
    SymbolicExpr,
    SymbolicVar,
    dim_max,
    dim_min,
    dim_sum,
    floordiv,
    mod,
)

_FUNCTIONS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "floordiv": floordiv,
    "mod": mod,
    "max": dim_max,
    "min": dim_min,
}


class JaxSymbols:
    """The symbolic variables of one trace, under the names that JAX knows them by."""

    def __init__(self) -> None:
        self.scope = export.SymbolicScope()
        self._names = Names([*_FUNCTIONS, "_"])  # what these mean to JAX is no variable
        self._ours: dict[str, SymbolicVar] = {}
        self._theirs: dict[SymbolicVar, Any] = {}

    def to_jax(self, dim: Dim) -> Any:
        """The dimension as JAX writes it: an int, or a symbolic dimension of this scope."""
        return evaluate_dim(dim, self._their_variable)

    def from_jax(self, dim: Any) -> Dim:
        """A dimension of JAX's in terms of our variables; unknown names become new variables."""
        if not export.is_symbolic_dim(dim):
            return int(dim)
        return self._parsed(ast.parse(str(dim).replace("^", "**"), mode="eval").body)

    def _their_variable(self, var: SymbolicVar) -> Any:
        if var not in self._theirs:
            plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", var.name)
            name = self._names.unique(var.name if plain else "d")
            self._ours[name] = var
            (self._theirs[var],) = export.symbolic_shape(name, scope=self.scope)
        return self._theirs[var]

    def _our_variable(self, name: str) -> SymbolicVar:
        return self._ours.setdefault(name, SymbolicVar(name))

    def _parsed(self, node: ast.AST) -> Dim:
        match node:
            case ast.Constant(value=int() as value):
                return value
            case ast.Name(id=name):
                return self._our_variable(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._parsed(operand)
            case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int() as power)):
                return _power(self._parsed(left), power)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self._parsed(left) * self._parsed(right)
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                return dim_sum(self._summands(node))
            case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in _FUNCTIONS:
                return _FUNCTIONS[name](self._parsed(left), self._parsed(right))
        raise ValueError(f"JAX's dimension `{ast.unparse(node)}` has no counterpart here")

    def _summands(self, node: ast.AST) -> list[Dim]:
        """What is added up, however many there are: each sum stands in the left of the next."""
        found: list[Dim] = []
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            last = self._parsed(node.right)
            found.append(last if isinstance(node.op, ast.Add) else -last)
            node = node.left
        return [self._parsed(node), *reversed(found)]


def evaluate_dim(dim: Dim, value: Callable[[SymbolicVar], Any]) -> Any:
    """`dim` with the value of each variable put in: integers, or dimensions of JAX's."""
    match dim:
        case int():
            return dim
        case SymbolicVar():
            return value(dim)
        case DimOp(kind, lhs, rhs):
            return _ATOMS[kind](evaluate_dim(lhs, value), evaluate_dim(rhs, value))
        case DimExpr(terms):
            total: Any = 0
            for monomial, coefficient in terms:
                product: Any = coefficient
                for atom, power in monomial:
                    product = product * evaluate_dim(atom, value) ** power
                total = total + product
            return total
    raise TypeError(f"`{dim!r}` is no dimension")


def evaluate_attrs(attrs: Mapping[str, Any], dim: Callable[[Dim], Any]) -> dict[str, Any]:
    """Attributes with every symbolic dimension in them replaced by `dim` of it."""
    return {name: _evaluated(value, dim) for name, value in attrs.items()}


def _evaluated(value: Any, dim: Callable[[Dim], Any]) -> Any:
    if type(value) in PLAIN:
        return value
    if isinstance(value, SymbolicExpr):
        return dim(value)
    if isinstance(value, tuple):
        return tuple(_evaluated(item, dim) for item in value)
    if isinstance(value, Attrs):
        return Attrs(evaluate_attrs(value, dim))
    return value


def _power(dim: Dim, power: int) -> Dim:
    product: Dim = 1
    for _ in range(power):
        product = product * dim
    return product


def _extreme(name: str, choose: Callable[[int, int], int]) -> Callable[[Any, Any], Any]:
    """`max` or `min`, which Python's own cannot be for dimensions of JAX's that it cannot order."""

    def extreme(lhs: Any, rhs: Any) -> Any:
        symbolic = [dim for dim in (lhs, rhs) if export.is_symbolic_dim(dim)]
        if not symbolic:
            return choose(lhs, rhs)
        (dim,) = export.symbolic_shape(f"{name}({lhs}, {rhs})", scope=symbolic[0].scope)
        return dim

    return extreme


def _truth(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A comparison, of dimensions of JAX's when the program runs: Python's `==` would say False."""

    def truth(lhs: Any, rhs: Any) -> Any:
        if export.is_symbolic_dim(lhs) or export.is_symbolic_dim(rhs):
            return compare(jnp.asarray(lhs), jnp.asarray(rhs))
        return compare(lhs, rhs)

    return truth


_ATOMS: dict[str, Callable[[Any, Any], Any]] = {
    "//": lambda lhs, rhs: lhs // rhs,
    "%": lambda lhs, rhs: lhs % rhs,
    "max": _extreme("max", max),
    "min": _extreme("min", min),
    "==": _truth(operator.eq),
    "!=": _truth(operator.ne),
    "<": _truth(operator.lt),
    "<=": _truth(operator.le),
}
