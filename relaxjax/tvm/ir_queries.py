"""Small questions about expressions, and their makers, as TVM has them."""

from typing import Any

from relaxjax.ir import structural
from relaxjax.ir.dims import SymbolicExpr, SymbolicVar
from relaxjax.ir.expr import Expr, PrimExpr, ShapeExpr
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType
from relaxjax.script.annotations import Unresolved as TypeProxy
from relaxjax.script.values import as_expr as convert_to_expr
from relaxjax.script.values import extern_func as extern
from relaxjax.script.values import shape as make_shape

__all__ = [
    "TypeProxy",
    "convert_to_expr",
    "extern",
    "get_shape_of",
    "is_prim_expr",
    "is_prim_var",
    "make_shape",
    "structural_hash",
]


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A number that equal pieces of IR share, whether free variables correspond or are the same."""
    return structural.structural_hash(node)


def is_prim_expr(value: object) -> bool:
    """Whether a value is a scalar of the host: a size, a bool, a number."""
    return isinstance(value, SymbolicExpr | PrimExpr)


def is_prim_var(value: object) -> bool:
    """Whether a value is a symbolic dimension."""
    return isinstance(value, SymbolicVar)


def get_shape_of(expr: Expr) -> Expr:
    """The shape of a tensor: as it is known, or as a call that tells it at run time."""
    if isinstance(expr.ty, TensorType):
        if expr.ty.dims is not None:
            return ShapeExpr(expr.ty.dims)
        return get_op("relax.shape_of")(expr)
    raise TypeError(f"`get_shape_of` takes a tensor, but `{expr}` is of type {expr.ty}")
