"""Types here and abstract values in JAX: the same shapes and dtypes in two notations."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import jax

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import np_dtype
from relaxjax.ir.types import TensorType, TupleType, Type

from .symbols import JaxSymbols

WIDE_DTYPES = frozenset({"int64", "uint64", "float64", "complex128"})
KEY_IMPLEMENTATIONS = ("threefry2x32", "rbg", "unsafe_rbg")


def type_of(aval: Any, symbols: JaxSymbols) -> TensorType:
    """The type of an abstract value."""
    return TensorType(tuple(map(symbols.from_jax, aval.shape)), _name(aval.dtype))


@cache
def _name(dtype: Any) -> str:
    return str(dtype)


def aval_of(ty: Type | None, symbols: JaxSymbols) -> Any:
    """The abstract value of a tensor type whose shape and dtype are known, else None."""
    if not isinstance(ty, TensorType) or ty.dims is None or ty.dtype is None:
        return None
    return jax.ShapeDtypeStruct(tuple(map(symbols.to_jax, ty.dims)), jax_dtype(ty.dtype))


def jax_dtype(name: str) -> Any:
    """JAX's dtype of a name, typed random keys (`key<fry>`) included."""
    return key_dtypes()[name] if name in key_dtypes() else np_dtype(name)


@cache
def key_dtypes() -> dict[str, Any]:
    """The dtypes of typed random keys by name."""
    dtypes = [
        jax.eval_shape(lambda impl=name: jax.random.key(0, impl=impl)).dtype
        for name in KEY_IMPLEMENTATIONS
    ]
    return {str(dtype): dtype for dtype in dtypes}


def key_implementation(name: str) -> str:
    """What `jax.random.key` calls the way in which keys of a dtype are made into bits."""
    return dict(zip(key_dtypes(), KEY_IMPLEMENTATIONS, strict=True))[name]


def is_key(dtype: Any) -> bool:
    """Whether a dtype is that of typed random keys."""
    return _name(dtype).startswith("key<")


def x64_for(*parts: Any) -> AbstractContextManager[Any]:
    """The context in which JAX knows 64-bit dtypes if the types or attributes in `parts` name one.

    So what an operator lowers to follows from its own types, whatever the user's global setting.
    """
    context: AbstractContextManager[Any] = jax.enable_x64(is_wide(*parts))
    return context


def x64_beside(*parts: Any) -> AbstractContextManager[Any]:
    """The context in which JAX knows 64-bit dtypes by the user's setting, or as by `x64_for`.

    It is for programs of the user's, and for what they call: their constants are as wide as the
    setting lets them be, and they compute in 64 bits under a setting of their own.
    """
    return nullcontext() if x64_enabled() else x64_for(*parts)


def x64_enabled() -> bool:
    """Whether JAX knows 64-bit dtypes now."""
    return bool(jax.config.read("jax_enable_x64"))


def matmul_precision() -> Any:
    """How exactly products are computed that say nothing of it: the user's setting.

    A program that is traced depends on it, so whoever keeps programs keeps it beside them.
    """
    return jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]  # JAX adds it later


def is_wide(*parts: Any) -> bool:
    """Whether the types or attributes in `parts` name a 64-bit dtype."""
    return not WIDE_DTYPES.isdisjoint(_dtype_names(parts))


def _dtype_names(parts: Iterable[Any]) -> Iterator[str]:
    for part in parts:
        match part:
            case str():
                yield part
            case bool() | int() | float() | None:
                pass
            case TensorType(dtype=str() as dtype):
                yield dtype
            case TupleType(fields=fields):
                yield from _dtype_names(fields)
            case tuple():
                yield from _dtype_names(part)
            case Attrs():
                yield from _dtype_names(part.values())
