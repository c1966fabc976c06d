"""Arguments of a function: values checked against types, symbolic dimensions read off shapes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.dtypes import canonicalize_dtype

from relaxjax.ir.dim_variables import dim_vars
from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.ir.expr import Var, np_dtype
from relaxjax.ir.types import FuncType, PrimType, ShapeType, TensorType, TupleType, Type, is_float
from relaxjax.ir.wording import counted, quoted
from relaxjax.ops.lax import (
    WIDE_DTYPES,
    evaluate_dim,
    is_key,
    jax_dtype,
    key_implementation,
    x64_enabled,
)


class ArgumentError(TypeError):
    """A function was called with something that its types do not allow."""


@dataclass(slots=True)
class Symbols:
    """The values of symbolic dimensions, and which argument each was read off."""

    values: dict[SymbolicVar, Any] = field(default_factory=dict)
    origins: dict[SymbolicVar, str] = field(default_factory=dict)

    def define(self, symbol: SymbolicVar, value: Any, origin: str) -> None:
        """Give a symbol its value, unless it has one."""
        if symbol not in self.values:
            self.values[symbol], self.origins[symbol] = value, origin

    def value(self, dim: Dim) -> Any:
        """The value of a dimension whose symbols are all known."""
        return evaluate_dim(dim, self.values.__getitem__)

    def knows(self, dim: Dim) -> bool:
        return all(symbol in self.values for symbol in dim_vars(dim))

    def inside(self) -> "Symbols":
        """A copy, for a scope of its own."""
        return Symbols(dict(self.values), dict(self.origins))


def admit(params: Sequence[Var], args: Sequence[Any], name: str) -> list[Any]:
    """The arguments of a call from outside, checked; Python numbers and the like as arrays."""
    check_count(params, args, name)
    values = [
        admitted(arg, param.ty, f"`{param.name}`", name)
        for param, arg in zip(params, args, strict=True)
    ]
    bind(params, values, Symbols(), name)
    return values


def as_jax(value: Any) -> Any:
    """A value with JAX arrays in the place of numpy's, inside tuples too."""
    if isinstance(value, tuple):
        return tuple(map(as_jax, value))
    return jnp.asarray(value) if isinstance(value, np.ndarray) else value


def bind(params: Sequence[Var], args: Sequence[Any], symbols: Symbols, name: str) -> None:
    """Check arguments against the types of the parameters, and define the symbols of those."""
    check_count(params, args, name)
    subjects = [f"`{param.name}`" for param in params]
    for param, arg, subject in zip(params, args, subjects, strict=True):
        _define(arg, param.ty, symbols, subject)
    for param, arg, subject in zip(params, args, subjects, strict=True):
        _verify(arg, param.ty, symbols, subject, f"{name}: ")


def match_cast(value: Any, ty: Type, symbols: Symbols, name: str) -> None:
    """Check a value against the type that the variable `name` is cast to; define its symbols."""
    _define(value, ty, symbols, f"`{name}`")
    _verify(value, ty, symbols, f"`{name}`", "match_cast: ")


def declared(value: Any, ty: Type | None, symbols: Symbols, subject: str) -> None:
    """Check a value against the type that what it is bound to, or returned by, is declared with."""
    _verify(value, ty, symbols, subject, "declared type: ")


def check_count(params: Sequence[Var], args: Sequence[Any], name: str) -> None:
    if len(params) != len(args):
        listed = quoted(param.name for param in params)
        count = counted(len(params), "argument")
        takes = f"{count} ({listed})" if params else "no arguments"
        raise ArgumentError(f"{name} takes {takes}, but {len(args)} were given")


def admitted(value: Any, ty: Type | None, subject: str, name: str) -> Any:
    """A value from outside in the place of one of that type; it is still to be checked."""
    match ty:
        case TensorType():
            return _admitted_tensor(value, ty, subject, name)
        case TupleType(fields=fields) if isinstance(value, tuple | list):
            if len(value) != len(fields):
                return tuple(value)
            items = enumerate(zip(value, fields, strict=True))
            return tuple(admitted(v, t, f"{subject}[{i}]", name) for i, (v, t) in items)
        case ShapeType() if isinstance(value, tuple | list | np.ndarray):
            return tuple(map(_host_number, value))
        case PrimType():
            return _host_number(value)
        case _:
            return value


def _admitted_tensor(value: Any, ty: TensorType, subject: str, name: str) -> Any:
    if isinstance(value, jax.Array):
        widens = ty.dtype in WIDE_DTYPES and str(value.dtype) == narrow(ty.dtype)
        return value.astype(canonicalize_dtype(np_dtype(ty.dtype))) if widens else value
    if isinstance(value, complex) and np_dtype(ty.dtype or "bool").kind == "c":
        return jnp.asarray(value, np_dtype(str(ty.dtype)))
    if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
        return _scalar(value, ty, subject, name)
    if not isinstance(value, np.ndarray) and hasattr(value, "__array__"):
        value = np.asarray(value)
    if isinstance(value, np.ndarray) and str(value.dtype) == ty.dtype:
        check_width(value, f"{name}: {subject}")
    return value


def check_width(data: np.ndarray[Any, Any], subject: str) -> None:
    """Raise where JAX, with 64-bit dtypes switched off, would change the values of an array."""
    dtype = str(data.dtype)
    if dtype not in WIDE_DTYPES or x64_enabled():
        return
    narrow = data.astype(canonicalize_dtype(data.dtype)) if not is_float(dtype) else None
    if narrow is None or not np.array_equal(narrow, data):
        raise ArgumentError(
            f"{subject} needs {dtype}, which JAX has switched off: write "
            'jax.config.update("jax_enable_x64", True), or run it by `build` and `VirtualMachine`, '
            "which switch it on where a module needs it"
        )


def narrow(dtype: str | None) -> str:
    """The dtype that JAX has in the place of a 64-bit one as long as these are switched off."""
    return str(dtype).replace("64", "32").replace("128", "64")


def _scalar(value: bool | int | float, ty: TensorType, subject: str, name: str) -> Any:
    """A Python number as an array of the parameter's dtype, as far as its value allows."""
    if ty.ndim > 0 or ty.dtype is None:
        return value if ty.ndim > 0 else np.asarray(value)
    dtype = np_dtype(ty.dtype)
    # JAX has subclasses of its own, of floats and the others.
    kinds = "b" if isinstance(value, bool) else "iuf" if isinstance(value, int) else "f"
    kind = "f" if is_float(ty.dtype) else np.dtype(dtype).kind
    if kind in kinds:
        with np.errstate(over="ignore"):
            array = np.asarray(value, np.float64 if kind == "f" else None).astype(dtype)
        if isinstance(value, float) or array.item() == value:
            return array
    raise ArgumentError(
        f"{name}: {subject} must be of dtype {ty.dtype}, which cannot hold "
        f"the Python {type(value).__name__} {value!r}"
    )


def _host_number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _define(value: Any, ty: Type | None, symbols: Symbols, subject: str) -> None:
    """Read the values of the symbols that stand alone in a type off the value."""
    match ty:
        case TensorType(shape=tuple() as dims) if hasattr(value, "shape"):
            _define_dims(dims, value.shape, symbols, subject)
        case ShapeType(values=tuple() as dims) if isinstance(value, tuple):
            _define_dims(dims, value, symbols, subject)
        case TupleType(fields=fields) if isinstance(value, tuple):
            for index, (item, field_type) in enumerate(zip(value, fields, strict=False)):
                _define(item, field_type, symbols, f"{subject}[{index}]")


def _define_dims(dims: Sequence[Dim], sizes: Sequence[Any], symbols: Symbols, subject: str) -> None:
    if len(dims) == len(sizes):
        for dim, size in zip(dims, sizes, strict=True):
            if isinstance(dim, SymbolicVar):
                symbols.define(dim, size, subject)


def _verify(value: Any, ty: Type | None, symbols: Symbols, subject: str, where: str) -> None:
    match ty:
        case TensorType():
            if not isinstance(value, jax.Array | np.ndarray):
                raise ArgumentError(
                    f"{where}{subject} must be a tensor, found {_described(value)}; "
                    "give a numpy or a JAX array"
                )
            _verify_key(value, ty.dtype, subject, where)
            _verify_dims(value.shape, ty.dims, ty.ndim, symbols, subject, where)
            _verify_dtype(str(value.dtype), ty.dtype, subject, where)
            _verify_placement(value, ty, subject, where)
        case ShapeType():
            if not isinstance(value, tuple):
                raise ArgumentError(f"{where}{subject} must be a shape, found {_described(value)}")
            _verify_dims(value, ty.values, ty.ndim, symbols, subject, where)
        case TupleType(fields=fields):
            if not isinstance(value, tuple) or len(value) != len(fields):
                found = f"one of {len(value)}" if isinstance(value, tuple) else _described(value)
                raise ArgumentError(
                    f"{where}{subject} must be a tuple of {len(fields)} values, found {found}"
                )
            for index, (item, field_type) in enumerate(zip(value, fields, strict=True)):
                _verify(item, field_type, symbols, f"{subject}[{index}]", where)
        case PrimType(dtype=dtype):
            if not _is_number_of(value, dtype):
                raise ArgumentError(
                    f"{where}{subject} must be a number of dtype {dtype}, found {_described(value)}"
                )
        case FuncType():
            if not callable(value):
                raise ArgumentError(
                    f"{where}{subject} must be a function, found {_described(value)}"
                )


def _is_number_of(value: Any, dtype: str) -> bool:
    """Whether a scalar of the host has a dtype; a symbolic one of JAX's is an integer."""
    if isinstance(value, bool | np.bool_) or dtype == "bool":
        return isinstance(value, bool | np.bool_) and dtype == "bool"
    if isinstance(value, float | np.floating):
        return is_float(dtype)
    return not (isinstance(value, tuple | str) or hasattr(value, "shape") or callable(value))


def _verify_dims(
    sizes: Sequence[Any],
    dims: Sequence[Dim] | None,
    ndim: int,
    symbols: Symbols,
    subject: str,
    where: str,
) -> None:
    if ndim >= 0 and len(sizes) != ndim:
        raise ArgumentError(
            f"{where}{subject} must have {counted(ndim, 'dimension')}, "
            f"found {len(sizes)}: its shape is {tuple(sizes)}"
        )
    for index, (dim, size) in enumerate(zip(dims or (), sizes, strict=False)):
        if not symbols.knows(dim):
            unknown = next(symbol for symbol in dim_vars(dim) if symbol not in symbols.values)
            raise ArgumentError(
                f"{where}dimension {index} of {subject} is {dim}, "
                f"but no argument says what {unknown} is"
            )
        if symbols.value(dim) != size:
            raise ArgumentError(
                f"{where}dimension {index} of {subject} must be {_expectation(dim, symbols)}, "
                f"found {size}: its shape is {tuple(sizes)}"
            )


def _expectation(dim: Dim, symbols: Symbols) -> str:
    """What a dimension must be: `4`, or `n = 4, as in `x``."""
    if isinstance(dim, int):
        return str(dim)
    origins = dict.fromkeys(symbols.origins[symbol] for symbol in dim_vars(dim))
    return f"{dim} = {symbols.value(dim)}, as in {' and '.join(origins)}"


def _verify_key(value: Any, expected: str | None, subject: str, where: str) -> None:
    """What stands for a random key must be one: nothing else has that dtype, nor is made to."""
    found = str(value.dtype)
    if expected is None or not is_key(expected) or found == expected:
        return
    impl = key_implementation(expected)
    raise ArgumentError(
        f"{where}{subject} must be a random key, of dtype {expected}, found dtype {found} in shape "
        f'{value.shape}: make it by jax.random.key(seed, impl="{impl}")'
    )


def _verify_dtype(found: str, expected: str | None, subject: str, where: str) -> None:
    if expected is None or found == expected:
        return
    if found == str(canonicalize_dtype(jax_dtype(expected), allow_extended_dtype=True)):
        return
    raise ArgumentError(
        f"{where}{subject} must be of dtype {expected}, found {found}: "
        f'convert it by .astype("{expected}")'
    )


def _verify_placement(value: Any, ty: TensorType, subject: str, where: str) -> None:
    if ty.placement is None:
        return
    try:
        ty.placement.check(value.shape, value.ndim)
    except ValueError as error:
        raise ArgumentError(f"{where}{subject} cannot lie as its type says: {error}") from None


def _described(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 40 else text[:37] + '...'} of type {type(value).__name__}"
