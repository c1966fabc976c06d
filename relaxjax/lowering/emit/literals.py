"""Constants as Python text: numbers, dtypes, arrays, and what the calls of jax.lax take."""

import base64
import math
import textwrap
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
from jax import lax

from relaxjax.ir import dims
from relaxjax.ir.dims import Dim, SymbolicExpr, SymbolicVar
from relaxjax.ir.literals import string_text
from relaxjax.ir.wording import tuple_text
from relaxjax.lowering.interpreter import LoweringError

Array = np.ndarray[Any, Any]
SymbolName = Callable[[SymbolicVar], str]

MOST_NUMBERS = 16  # an array of more elements is stored as bytes at the end of the file
BASE64_COLUMNS = 96

# The dtypes to which JAX converts the numbers of Python beside an array, and their exact values.
_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
_INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
_INT32 = range(-(2**31), 2**31)  # JAX takes no larger number of Python's while int64 is off
_NAMESPACES: tuple[tuple[str, ModuleType], ...] = (("lax", lax), ("lax.linalg", lax.linalg))


def dtype_text(dtype: str) -> str:
    """A dtype by its name in jax.numpy."""
    return "jnp.bool_" if dtype == "bool" else f"jnp.{dtype}"


def dim_text(dim: Dim, name: SymbolName) -> str:
    """A dimension as an expression of the integers that its symbols stand for."""
    return dims.dim_text(dim, name).replace("T.", "")  # Python has `max` and `min` of its own


def number_text(data: Array) -> str | None:
    """A scalar as the number of Python's that JAX makes the same scalar of beside an array."""
    dtype = str(data.dtype)
    if data.ndim or dtype not in _FLOATS | _INTEGERS:
        return None
    if dtype in _FLOATS:
        return _float_text(data)
    return str(int(data)) if int(data) in _INT32 else None


def array_text(data: Array) -> str | None:
    """A small or a uniform array as the call that makes it; None for what is to be stored."""
    dtype = dtype_text(str(data.dtype))
    if data.size and _is_uniform(data):
        number = _element_text(data.flat[0])
        if number is None:
            return None
        if data.ndim == 0:
            return f"{dtype}({number})"
        return f"jnp.full({tuple_text(map(str, data.shape))}, {number}, {dtype})"
    if 0 < data.size <= MOST_NUMBERS:
        numbers = _nested_text(data)
        return None if numbers is None else f"jnp.array({numbers}, {dtype})"
    return None


def stored_text(name: str, data: Array) -> str:
    """The statement that makes a large array of its bytes."""
    encoded = base64.b64encode(np.ascontiguousarray(data).tobytes()).decode("ascii")
    shape = tuple_text(map(str, data.shape))
    lines = textwrap.wrap(encoded, BASE64_COLUMNS)
    text = "\n".join(["", *(f"    {line}" for line in lines), "    "]) if lines else ""
    return (
        f'{name} = stored(\n    {dtype_text(str(data.dtype))},\n    {shape},\n    """{text}""",\n)'
    )


def value_text(value: Any, name: SymbolName) -> str:
    """A parameter of a call of jax.lax; one with a structure is a mapping with its type as key."""
    match value:
        case bool() | None | int():
            return repr(value)
        case float() if not math.isfinite(value):
            return f'float("{value}")'
        case float():
            return _python_float(value)
        case complex():
            return f"complex({value_text(value.real, name)}, {value_text(value.imag, name)})"
        case str():
            return string_text(value)
        case tuple():
            return tuple_text(value_text(item, name) for item in value)
        case SymbolicExpr():
            return dim_text(value, name)
        case Mapping():
            ((tag, inner),) = value.items()
            return _structure_text(tag, inner, name)
    raise LoweringError(f"the attribute {value!r} cannot be written as Python")


def _structure_text(tag: str, inner: Any, name: SymbolName) -> str:
    if tag == "dtype":
        return dtype_text(inner)
    for prefix, space in _NAMESPACES:
        if tag == "Primitive" and hasattr(space, f"{inner}_p"):
            return f"{prefix}.{inner}_p"
        if hasattr(space, tag):
            if isinstance(inner, str):
                return f"{prefix}.{tag}.{inner}"
            fields = (f"{key}={value_text(item, name)}" for key, item in inner.items())
            return f"{prefix}.{tag}({', '.join(fields)})"
    raise LoweringError(f"the attribute {tag} {inner!r} cannot be written as Python")


def _float_text(data: Array) -> str | None:
    """The shortest text that gives every bit again."""
    value = float(data)
    if math.isfinite(value):
        shortest = _python_float(float(str(data.dtype.type(data))))
        return next(t for t in (shortest, _python_float(value)) if _reads_back(t, data))
    for text, standard in (("jnp.nan", math.nan), ("jnp.inf", math.inf), ("-jnp.inf", -math.inf)):
        if np.asarray(standard, data.dtype).tobytes() == data.tobytes():
            return text
    return None  # a NaN with bits of its own


def _python_float(value: float) -> str:
    return repr(value).replace("e+", "e")  # as formatters of Python write it


def _reads_back(text: str, data: Array) -> bool:
    with np.errstate(over="ignore"):
        return np.asarray(float(text), data.dtype).tobytes() == data.tobytes()


def _element_text(element: Any) -> str | None:
    data = np.asarray(element)
    if str(data.dtype) == "bool":
        return str(bool(data))
    if str(data.dtype) in _INTEGERS:
        return str(int(data))
    return number_text(data)


def _nested_text(data: Array) -> str | None:
    """The elements of an array as nested lists."""
    if data.ndim == 0:
        return _element_text(data)
    parts = [_nested_text(item) for item in data]
    return None if None in parts else f"[{', '.join(map(str, parts))}]"


def _is_uniform(data: Array) -> bool:
    """Whether all elements are the same, bit for bit."""
    first = np.full_like(data, data.flat[0])
    return first.tobytes() == data.tobytes()
