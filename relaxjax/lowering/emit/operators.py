"""Operators of Python, which on arrays of one dtype are the primitives themselves."""

from .writing import Operand, Writing

_ARITHMETIC = {"add": "+", "add_any": "+", "sub": "-", "mul": "*", "div": "/"}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_BITWISE = {"and_": "&", "or_": "|", "xor": "^"}
_SIGNS = _ARITHMETIC | _COMPARISONS | _BITWISE
_UNARY = {"neg": "-", "not_": "~"}
_INEXACT = ("float", "bfloat", "complex")
_PROMOTED = (*_INEXACT, "bool", "int", "uint")
_NOT_PROMOTED = ("float8", "float4", "int2", "int4", "uint2", "uint4")


def operator_text(call: Writing) -> str | None:
    """`x + y` and the like; None where Python's operator would mean something else, or nothing."""
    if call.attrs or not all(is_promoted(operand.dtype) for operand in call.operands):
        return None
    match call.operands:
        case [x] if call.name in _UNARY and x.is_array:
            return f"{_UNARY[call.name]}{x.text}"
        case [x, y] if call.name in _SIGNS and x.dtype == y.dtype:
            left, right = x.number or x.text, y.number or y.text
            return f"{left} {_SIGNS[call.name]} {right}" if _means_it(call.name, x, y) else None
    return None


def is_promoted(dtype: str) -> bool:
    """Whether JAX lets the numbers of Python take this dtype beside an array of it."""
    return dtype.startswith(_PROMOTED) and not dtype.startswith(_NOT_PROMOTED)


def _means_it(name: str, x: Operand, y: Operand) -> bool:
    sides = [side.is_array or side.number is not None for side in (x, y)]
    if not all(sides) or not (x.is_array or y.is_array):
        return False  # two constants would meet in Python or numpy, not in JAX
    if name in _COMPARISONS:
        # Python turns `0.0 < x` round; and JAX orders complex numbers, which the primitives do not.
        return x.is_array and (name in ("eq", "ne") or not x.dtype.startswith("complex"))
    if name in _ARITHMETIC:
        return x.dtype != "bool" and (name != "div" or x.dtype.startswith(_INEXACT))
    return True
