"""The dtypes that PyTorch computes in: tensors count first, then scalars, then numbers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import Any

import numpy as np

from relaxjax.ir.dims import SymbolicExpr
from relaxjax.ir.expr import Expr, const, np_dtype
from relaxjax.ops.emit import call, dtype_of, ndim_of, number

_DEFAULT: ContextVar[str] = ContextVar("_DEFAULT", default="float32")
OF_FLOATS = 2  # the kind of real floats
_LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}


def default_dtype() -> str:
    """The dtype of floats that are made of none: that of `torch.set_default_dtype`."""
    return _DEFAULT.get()


@contextmanager
def defaulting_to(dtype: str) -> Iterator[None]:
    token = _DEFAULT.set(dtype)
    try:
        yield
    finally:
        _DEFAULT.reset(token)


def kind_of(dtype: str) -> int:
    """0 for truth values, 1 for integers, 2 for floats, 3 for complex numbers."""
    if dtype == "bool":
        return 0
    if "int" in dtype:
        return 1
    return 3 if dtype.startswith("complex") else 2


def is_floating(dtype: str) -> bool:
    return kind_of(dtype) >= 2


def _complex_of(dtype: str) -> str:
    return "complex128" if dtype == "float64" else "complex64"


def _wider(one: str, other: str) -> str:
    """The dtype of two tensors that count alike; a float beside integers stays what it is."""
    if one == other:
        return one
    kinds = kind_of(one), kind_of(other)
    if kinds[0] != kinds[1] and "float64" in (one, other) and 3 in kinds:
        return "complex128"
    if kinds[0] != kinds[1]:
        return one if kinds[0] > kinds[1] else other
    if "bfloat16" in (one, other):
        rest = other if one == "bfloat16" else one
        return "float32" if np_dtype(rest) == np_dtype("float16") else rest
    return np.promote_types(np_dtype(one), np_dtype(other)).name


def _number_dtype(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, SymbolicExpr):
        return "int64" if value.dtype == "int64" else "bool"
    if isinstance(value, complex):
        return _complex_of(default_dtype())
    return "int64" if isinstance(value, int) else default_dtype()


def result_dtype(*values: Any) -> str:
    """The dtype of a result: what has fewer dimensions counts only where its kind is higher."""
    ranked: list[list[str]] = [[], [], []]
    for value in values:
        if isinstance(value, Expr):
            ranked[0 if ndim_of(value) else 1].append(dtype_of(value))
        else:
            ranked[2].append(_number_dtype(value))
    found = [reduce(_wider, dtypes) for dtypes in ranked if dtypes]
    chosen = found[0]
    for lower in found[1:]:
        if kind_of(lower) > kind_of(chosen):
            is_beside = kind_of(chosen) == OF_FLOATS  # a complex number is as wide as the floats
            chosen = _complex_of(chosen) if is_beside else lower
    return chosen


def cast(value: Any, dtype: str) -> Expr:
    """A tensor, or a number, in a dtype."""
    if isinstance(value, Expr):
        return value if dtype_of(value) == dtype else call("astype", value, dtype)
    if isinstance(value, SymbolicExpr):
        return number(value, const(0, dtype))
    return const(_fitting(value, dtype), dtype)


def _fitting(value: float, dtype: str) -> Any:
    """A number as the dtype has it: what is too large for a float is infinite, as torch has it."""
    if kind_of(dtype) < 2:
        return int(value) if kind_of(dtype) else bool(value)
    with np.errstate(over="ignore"):
        return np.asarray(value, np_dtype(dtype))


def promoted(*values: Any) -> Sequence[Expr]:
    """Tensors and numbers in the one dtype of their result."""
    dtype = result_dtype(*values)
    return [cast(value, dtype) for value in values]


def floating(x: Expr) -> Expr:
    """A tensor of floats: integers become the default ones, as for a square root."""
    return x if is_floating(dtype_of(x)) else cast(x, default_dtype())


def lowest(dtype: str) -> Any:
    """The least finite number of a dtype."""
    if kind_of(dtype) == 2:
        return -_LARGEST[dtype]
    return 0 if dtype == "bool" else int(np.iinfo(np_dtype(dtype)).min)


def highest(dtype: str) -> Any:
    """The largest number of a dtype: infinity, of floats."""
    if kind_of(dtype) == 2:
        return float("inf")
    return 1 if dtype == "bool" else int(np.iinfo(np_dtype(dtype)).max)
