"""Constants as the script writes them: strings, numbers, nested lists of numbers."""

import math
from typing import Any

import numpy as np

from .tensor_json import can_write

INLINE_LIMIT = 16


def string_text(value: str) -> str:
    """A string in double quotes; what cannot be printed is escaped."""
    return f'"{"".join(map(_character, value))}"'


def number_text(value: bool | int | float | complex | None) -> str:
    """A number, or None, that reads back exactly. Infinity and NaN have no literal of their own."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, complex):  # the sum `-0.0 + 1j` would lose its sign, and `inf` is no name
        return f"complex({number_text(value.real)}, {number_text(value.imag)})"
    return repr(value)


def array_text(data: np.ndarray[Any, Any]) -> str | None:
    """A small tensor as nested lists; None where it is big, or would not read back exactly."""
    dtype = str(data.dtype)
    if data.size > INLINE_LIMIT and can_write(dtype):
        return None
    if not _reads_back(data) and can_write(dtype):
        return None
    return _nested_text(_numbers(data))


def _character(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")


def _numbers(data: np.ndarray[Any, Any]) -> Any:
    """The elements as nested lists of Python numbers; a NaN loses whatever bits it carries."""
    if data.dtype.isbuiltin == 1 and data.dtype.kind != "f":
        return data.tolist()
    if "int" in str(data.dtype):
        return data.astype(np.int64).tolist()
    return _nested([_short(number) for number in data.flat], data.shape)


def _nested(numbers: list[float], shape: tuple[int, ...]) -> Any:
    """Numbers as lists in the shape of their tensor; as objects they stay what they are."""
    return np.array(numbers, object).reshape(shape).tolist()


def _short(number: Any) -> float:
    """The Python number of the fewest digits that becomes `number` in its own dtype."""
    exact = float(number)
    if math.isnan(exact):
        return math.nan
    if exact.is_integer() and abs(exact) < 1e16:
        return exact
    with np.errstate(over="ignore"):
        tries = (float(f"{exact:.{digits}g}") for digits in range(1, 10))
        return next((short for short in tries if type(number)(short) == number), exact)


def _reads_back(data: np.ndarray[Any, Any]) -> bool:
    """Whether the lists give every bit again. Those of an empty tensor may lose its shape."""
    if data.dtype.kind == "c":
        return False
    again = np.asarray(_numbers(data), dtype=data.dtype)
    return again.shape == data.shape and again.tobytes() == data.tobytes()


def _nested_text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_nested_text, value))}]"
    return number_text(value)
