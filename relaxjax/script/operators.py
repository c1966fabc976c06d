"""The operators of expressions: what Python does with plain values, and what Relax has."""

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from relaxjax.ir.dims import SymbolicExpr, compare
from relaxjax.ir.expr import Expr, PrimExpr, ShapeExpr, TupleGetItem
from relaxjax.ir.span import Span
from relaxjax.ir.types import ObjectType, PrimType, ShapeType, TensorType, TupleType


class OperandError(TypeError):
    """An operator cannot take this operand; `mend` says what can be written instead."""

    def __init__(self, message: str, mend: str) -> None:
        super().__init__(message)
        self.mend = mend


BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow),
    ast.MatMult: ("@", operator.matmul),
    ast.LShift: ("<<", operator.lshift),
    ast.RShift: (">>", operator.rshift),
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
    ast.BitXor: ("^", operator.xor),
}
COMPARISON: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Is: ("is", operator.is_),
    ast.IsNot: ("is not", operator.is_not),
    ast.In: ("in", lambda item, items: item in items),
    ast.NotIn: ("not in", lambda item, items: item not in items),
}
_PYTHON = dict(COMPARISON.values())
_DIMENSIONS = ("==", "!=", "<", "<=", ">", ">=")
UNARY: dict[type[ast.unaryop], tuple[str, Callable[[Any], Any]]] = {
    ast.USub: ("-", operator.neg),
    ast.UAdd: ("+", operator.pos),
    ast.Invert: ("~", operator.invert),
}
# What a text that nobody vouches for may make in one expression.
MOST_ITEMS = 1_000_000
# Signs that are no operators of Relax, each with what its programs say instead.
_WRITTEN_AS = {
    "==": "R.equal(x, y)",
    "!=": "R.not_equal(x, y)",
    "@": "R.matmul(x, y)",
    "<<": "R.left_shift(x, y)",
    ">>": "R.right_shift(x, y)",
    "&": "R.logical_and(x, y) or R.bitwise_and(x, y)",
    "|": "R.logical_or(x, y) or R.bitwise_or(x, y)",
    "^": "R.logical_xor(x, y) or R.bitwise_xor(x, y)",
    "~": "R.logical_not(x) or R.bitwise_not(x)",
    "in": "R.equal and R.any",
    "not in": "R.equal and R.any",
}


def check_operands(sign: str, *operands: Any) -> None:
    """Refuse what Python would accept, or would refuse without saying how Relax puts it."""
    if not any(isinstance(operand, Expr) for operand in operands):
        return
    if sign in _WRITTEN_AS:
        raise OperandError(f"`{sign}` is no operator of Relax", f"Write {_WRITTEN_AS[sign]}.")
    for operand in operands:
        if isinstance(operand, Expr) and isinstance(operand.ty, PrimType):
            raise OperandError(
                f"`{operand}` is a scalar of the host, which has no operators",
                'Dimensions have them, as `n` of a parameter of type R.Shape(["n"]).',
            )
    if any(isinstance(operand, np.ndarray) for operand in operands):
        raise OperandError(f"an array of numpy is no operand of `{sign}`", "Write R.const(array).")


def plain_numbers(*operands: Any) -> tuple[Any, ...]:
    """The operands, and where all are numbers of the host, as Python's: `n + T.int64(2)`."""
    if all(isinstance(operand, PrimExpr | SymbolicExpr | int | float) for operand in operands):
        return tuple(item.value if isinstance(item, PrimExpr) else item for item in operands)
    return operands


def compared(sign: str, lhs: Any, rhs: Any) -> Any:
    """`lhs sign rhs`. Of symbolic dimensions it is known when the program runs, if not before."""
    if sign in _DIMENSIONS and any(isinstance(side, SymbolicExpr) for side in (lhs, rhs)):
        return compare(sign, lhs, rhs)
    if sign in ("in", "not in") and isinstance(rhs, list | tuple | set | frozenset | dict):
        items = [_equal(lhs, item) for item in rhs]
        equal = None if None in items and True not in items else True in items
    elif sign in ("==", "!="):
        equal = _equal(lhs, rhs)
    else:
        return _PYTHON[sign](lhs, rhs)
    if equal is None:
        raise OperandError(
            f"`{lhs} {sign} {rhs}` depends on symbolic dimensions, known when the program runs",
            "Compare them one by one: `n == m` and `n < m` are conditions of the program.",
        )
    return equal if sign in ("==", "in") else not equal


def _equal(lhs: Any, rhs: Any) -> Any:
    """`lhs == rhs`, with None where symbolic dimensions inside sequences leave it open."""
    match lhs, rhs:
        case (list(), list()) | (tuple(), tuple()) if len(lhs) == len(rhs):
            items = [_equal(*pair) for pair in zip(lhs, rhs, strict=True)]
            return False if False in items else None if None in items else True
        case (SymbolicExpr(), SymbolicExpr() | int()) | (int(), SymbolicExpr()):
            known = compare("==", lhs, rhs)
            return known if isinstance(known, bool) else None
    return lhs == rhs


def check_size(sign: str, lhs: Any, rhs: Any) -> None:
    """Refuse what would make a text that nobody vouches for compute for ever or fill the memory."""
    match sign, lhs, rhs:
        case ("*", int(), str() | bytes() | list() | tuple()):
            size = lhs * len(rhs)
        case ("*", str() | bytes() | list() | tuple(), int()):
            size = len(lhs) * rhs
        case ("**", int(), int()):
            size = lhs.bit_length() * max(rhs, 0)
        case ("<<", int(), int()):
            size = lhs.bit_length() + rhs
        case ("%", str() | bytes(), _):
            raise ValueError("a text does not format with `%`: write an f-string")
        case _:
            return
    check_count(size)


def check_count(count: int) -> None:
    if count > MOST_ITEMS:
        raise ValueError(
            f"a text may not make more than {MOST_ITEMS:,} items or digits at once, but this "
            f"makes {count:,}: pass what is big from Python, in `extra_vars`"
        )


def bounded_range(*args: Any) -> range:
    """Python's `range`, of no more items than a text may make."""
    found = range(*args)
    length = max(0, -((found.start - found.stop) // found.step))  # len() knows small ones only
    check_count(length)
    return found


def truth(value: Any) -> bool:
    """Whether a value of Python counts as true."""
    if isinstance(value, SymbolicExpr):
        raise OperandError(
            f"`{value}` has no truth value before the program runs",
            "Write `if` as a statement; one inside another says `and`, `else` says `not`.",
        )
    if isinstance(value, Expr):
        raise OperandError(
            f"`{value}` has no truth value before the program runs",
            "Write `if` as a statement, or R.where(c, x, y), R.logical_and, R.logical_not.",
        )
    return bool(value)


def subscript(value: Any, index: Any, span: Span) -> Any:
    """`value[index]`: of Relax values, the fields of tuples and the known dimensions of shapes."""
    if not isinstance(value, Expr) or isinstance(value, ShapeExpr):
        return value[index]
    if isinstance(value.ty, TensorType):
        raise OperandError(
            f"`{value}` is a tensor, and only tuples are indexed",
            "Write R.take(x, indices, axis) or R.strided_slice(x, axes, begin, end).",
        )
    if type(index) is not int:
        raise OperandError(
            f"a tuple is indexed by a Python integer, not by `{index}`",
            "Which field it is must be known when the script is read.",
        )
    match value.ty:
        case ShapeType(values=tuple() as dims):
            return dims[index]
        case TupleType(fields=fields) if index < 0:
            return TupleGetItem(value, index + len(fields), span=span)
        case TupleType() | ObjectType() | None:
            return TupleGetItem(value, index, span=span)
    raise TypeError(f"`{value}` is no tuple: its type is {value.ty}")
