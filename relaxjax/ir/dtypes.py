"""The dtypes that a tensor may have, by name."""

import functools
from typing import Any

import ml_dtypes
import numpy as np

from .registry import did_you_mean

# What TVM's users write for short.
_SHORT = {"float": "float32", "int": "int32"}
_FAMILIES = ("bool", "int", "uint", "float", "bfloat", "complex")
_WIDEST = {"f": 8}  # the bytes of a number: JAX has none of numpy's long doubles
# What DLPack calls the kind of a dtype, and the bits of an element.
DLPACK_CODES: dict[str, tuple[int, int]] = {
    **{f"int{bits}": (0, bits) for bits in (2, 4, 8, 16, 32, 64)},
    **{f"uint{bits}": (1, bits) for bits in (2, 4, 8, 16, 32, 64)},
    **{f"float{bits}": (2, bits) for bits in (16, 32, 64)},
    "bfloat16": (4, 16),
    "complex64": (5, 64),
    "complex128": (5, 128),
    "bool": (6, 8),
    "float8_e3m4": (7, 8),
    "float8_e4m3": (8, 8),
    "float8_e4m3b11fnuz": (9, 8),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
    "float6_e2m3fn": (15, 6),
    "float6_e3m2fn": (16, 6),
    "float4_e2m1fn": (17, 4),
}


@functools.cache
def checked_dtype(name: str) -> str:
    """The full name of a dtype; a name that is none is an error. Keys are JAX's: `key<fry>`."""
    name = _SHORT.get(name, name)
    if name.startswith("key<"):
        return name
    found = named_dtype(name).name
    if found != name:
        raise TypeError(f"there is no dtype `{name}`: write `{found}`")
    return name


@functools.cache
def numpy_dtype_name(dtype: np.dtype[Any]) -> str:
    """The full name of numpy's dtype, which numpy itself writes anew each time."""
    return checked_dtype(str(dtype))


@functools.cache
def named_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of a name, the `ml_dtypes` ones (bfloat16, float8, int4) included."""
    try:
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        hint = did_you_mean(name, list(DLPACK_CODES))
        raise TypeError(f"there is no dtype `{name}`{hint}") from None
    if not found.name.startswith(_FAMILIES) or found.itemsize > _WIDEST.get(found.kind, 16):
        raise TypeError(f"there is no dtype `{name}` for tensors")
    return found


def check_kind(value: bool | int | float, dtype: str) -> None:
    """Refuse a number that would have to become another one in the dtype."""
    if isinstance(value, bool) or not (dtype == "bool" or "int" in dtype):
        return
    if dtype == "bool" or isinstance(value, float):
        wanted = "float32" if isinstance(value, float) else "int32"
        raise TypeError(
            f"`{value!r}` stands beside a tensor of dtype {dtype}, which has no such number: "
            f'convert the tensor first, as by R.astype(x, "{wanted}")'
        )


def check_range(value: Any, given: np.ndarray[Any, Any], cast: np.ndarray[Any, Any]) -> None:
    """Refuse numbers that became infinite or undefined in a dtype of floats, or its largest one.

    What is infinite stays so, where the dtype has that.
    """
    limits: Any = ml_dtypes.finfo(cast.dtype)  # type: ignore[no-untyped-call]  # it has no types
    wide = given if given.dtype.kind != "O" else given.astype("float64")
    parts = [(wide, cast)]
    if cast.dtype.kind == "c":
        parts = [(np.real(wide), cast.real), (np.imag(wide), cast.imag)]
    if not all(_are_kept(*part, float(limits.max)) for part in parts):
        raise TypeError(
            f"`{value!r:.50}` cannot be a constant of dtype {cast.dtype}, whose numbers go from "
            f"{float(limits.min):.6g} to {float(limits.max):.6g}"
        )


def is_same(given: np.ndarray[Any, Any], cast: np.ndarray[Any, Any]) -> bool:
    """Whether integers that numbers were cast to are these; there and back may hide a sign."""
    with np.errstate(invalid="ignore"):
        again = np.array_equal(cast.astype(given.dtype), given)
    is_signed = given.dtype.kind in "iu" and cast.dtype.kind in "iu"
    return again and (not is_signed or np.array_equal(given < 0, cast < 0))


def _are_kept(given: np.ndarray[Any, Any], cast: np.ndarray[Any, Any], largest: float) -> bool:
    """Whether a cast leaves finite what is finite, infinite what is infinite, and so on."""
    kept = (np.isfinite(given) == np.isfinite(cast)) & (np.isnan(given) == np.isnan(cast))
    if not np.isinf(np.asarray(np.inf, cast.dtype)):  # such a dtype may have its largest instead
        kept &= np.isnan(given) | (np.abs(given) <= largest)
    return bool(kept.all())


def number_of(value: bool | int | float, dtype: str) -> bool | int | float:
    """A number of the kind of Python's that a dtype has."""
    if dtype == "bool":
        return bool(value)
    if "int" in dtype:
        if isinstance(value, float) and not value.is_integer():
            raise TypeError(f"`{value!r}` is no number of dtype {dtype}")
        return int(value)
    return float(value) if "float" in dtype else value
