"""Operators on constants whose results are the same bit for bit, whoever computes them.

For XLA each is a program to compile, which takes longer than most passes. What IEEE 754 rounds in
one way only, NumPy gives at once. Numbers too small to be normal are left to XLA, which may take
them for 0.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relaxjax.ir.expr import Call
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType

_FLOATS = ("float32", "float64")
_INTEGERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_COMPLEX = ("complex64", "complex128")
_BY_NUMPY: dict[str, Callable[..., Any]] = {
    "relax.add": np.add,
    "relax.subtract": np.subtract,
    "relax.multiply": np.multiply,
    "lax.add": np.add,
    "lax.sub": np.subtract,
    "lax.mul": np.multiply,
    "lax.neg": np.negative,
    "lax.abs": np.abs,
    "lax.eq": np.equal,
    "lax.ne": np.not_equal,
    "lax.lt": np.less,
    "lax.le": np.less_equal,
    "lax.gt": np.greater,
    "lax.ge": np.greater_equal,
}
_OF_FLOATS: dict[str, Callable[..., Any]] = {"lax.div": np.divide, "lax.sqrt": np.sqrt}
# Of floats these are not exact: NaN, and which zero is the larger.
_OF_INTEGERS: dict[str, Callable[..., Any]] = {
    "lax.max": np.maximum,
    "lax.min": np.minimum,
    "lax.and_": np.bitwise_and,
    "lax.or_": np.bitwise_or,
    "lax.xor": np.bitwise_xor,
    "lax.not_": np.bitwise_not,
    "lax.rem": np.fmod,
}


def exact_result(call: Call, values: Sequence[Any]) -> np.ndarray | None:
    """The result of a call on such constants; None where it may depend on who computes it."""
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if len(arrays) < len(values) or not all(map(_is_exact, arrays)):
        return None
    with np.errstate(all="ignore"):
        result = _computed(call, arrays)
    return None if result is None or not _is_exact(result) else result


def _computed(call: Call, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    assert isinstance(call.op, Op)
    name, ty, attrs = call.op.name, call.ty, call.attrs
    is_float = arrays[0].dtype.name in _FLOATS
    is_complex = arrays[0].dtype.name in _COMPLEX
    known = _BY_NUMPY | (_OF_FLOATS if is_float else _OF_INTEGERS)
    if name in known:
        usual = not is_complex and _is_defined(name, arrays)
        return np.asarray(known[name](*arrays)) if usual else None
    if not isinstance(ty, TensorType) or ty.dims is None:
        return None
    dims = [int(dim) for dim in ty.dims if isinstance(dim, int)]
    match name, arrays:
        case "lax.select_n", [which, false, true] if which.dtype == bool:
            return np.where(which, true, false)
        case "lax.convert_element_type", [array] if not is_complex:
            exact = _FLOATS + _COMPLEX if is_float else _FLOATS + _INTEGERS
            return array.astype(ty.dtype) if ty.dtype in exact else None
        case "lax.reshape", [array] if attrs.get("dimensions") is None:
            return array.reshape(dims)
        case "lax.broadcast_in_dim", [array]:
            shape = [1] * len(dims)
            for place, length in zip(attrs["broadcast_dimensions"], array.shape, strict=True):
                shape[place] = length
            return np.broadcast_to(array.reshape(shape), dims)
    return None


def _is_defined(name: str, arrays: Sequence[np.ndarray]) -> bool:
    """Whether a root is a number, and a remainder one of something."""
    if name == "lax.sqrt":
        return bool(np.all(arrays[0] >= 0))
    return name != "lax.rem" or bool(np.all(arrays[1] != 0))


def _is_exact(array: np.ndarray) -> bool:
    """Whether an array is of such numbers."""
    if array.dtype.name in _INTEGERS:
        return True
    if array.dtype.name in _COMPLEX:
        return _is_exact(np.real(array)) and _is_exact(np.imag(array))
    if array.dtype.name not in _FLOATS:
        return False
    small = np.abs(array) < np.finfo(array.dtype).tiny
    return not bool(np.any(small & (array != 0)))
