"""Scalars of the host: what `T.int64` and its like stand for in a script."""

from dataclasses import dataclass
from typing import Any

from relaxjax.ir.dims import Dim, DimOp, SymbolicExpr, SymbolicVar, compare
from relaxjax.ir.expr import PrimExpr
from relaxjax.ir.types import PrimType


class Declaration(SymbolicVar):
    """What `T.int64()` gives: a symbolic dimension that takes its name from the assignment."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A dtype of the host: a declaration, a conversion or an annotation, as it is used."""

    dtype: str

    def __call__(self, value: Any = None) -> Any:
        """A new symbolic dimension without a value, else the value as a scalar of this dtype."""
        if value is None:
            return self._declaration()
        if isinstance(value, PrimExpr):
            value = value.value
        if isinstance(value, SymbolicExpr):
            return value if self.dtype == value.dtype else PrimExpr(value, self.dtype)
        value = float(value) if isinstance(value, str) else value
        if not isinstance(value, int | float):
            raise TypeError(f"`T.{self.dtype}` takes a number, but `{value!r}` was given")
        return PrimExpr(value, self.dtype)

    @property
    def type(self) -> PrimType:
        return PrimType(self.dtype)

    def _declaration(self) -> Declaration:
        if self.dtype != "int64":
            raise TypeError(
                f"`T.{self.dtype}()` needs a value: a symbolic dimension is declared by `T.int64()`"
            )
        return Declaration("n")


def number(dtype: str, value: Any) -> Any:
    """A scalar of that dtype, as a node of TVM is made: `T.FloatImm("float32", 0.5)`."""
    return ScalarType(dtype)(value)


def symbolic_var(name: str, dtype: Any = "int64", *, ty: Any = None) -> SymbolicVar:
    """A symbolic dimension of that name; `ty` says its type, as `dtype` does."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a symbolic dimension is a string, found `{name!r}`")
    dtype = dtype if ty is None else ty
    dtype = dtype.dtype if isinstance(dtype, PrimType) else dtype
    if dtype != "int64":
        raise TypeError(f"a symbolic dimension is of dtype int64, but `{dtype}` was given")
    return SymbolicVar(name)


def equal(lhs: Dim, rhs: Dim) -> bool | DimOp:
    """Whether two dimensions turn out to be equal."""
    return compare("==", lhs, rhs)


def not_equal(lhs: Dim, rhs: Dim) -> bool | DimOp:
    """Whether two dimensions turn out to differ."""
    return compare("!=", lhs, rhs)


def ceildiv(lhs: Dim, rhs: Dim) -> Dim:
    """The quotient rounded up: `T.ceildiv(n, 4)` is `(n + 3) // 4`."""
    return (lhs + rhs - 1) // rhs
