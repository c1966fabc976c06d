"""Parameters of JAX primitives as attributes: constants that print, parse and compare.

Numbers, strings, dtypes, tuples and symbolic dimensions stand for themselves. Everything that has
a structure of its own is a mapping with one key, the name of its type: `{"GatherScatterMode":
"CLIP"}`, `{"ConvDimensionNumbers": {"lhs_spec": (0, 1, 2, 3), ...}}`.
"""

import dataclasses
import enum
import importlib
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any

import jax
import numpy as np
from jax import export, lax
from jax.extend import core
from jax.sharding import NamedSharding

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.types import dtype_name

from .avals import is_key, jax_dtype, key_dtypes
from .shardings import can_be_written, read_sharding, written_sharding
from .symbols import JaxSymbols

Primitives = Callable[[str], core.Primitive]

_SPARSE = "jax.experimental.sparse.util"  # imported when needed, because it takes a while
_NAMESPACES: tuple[ModuleType, ...] = (lax, lax.linalg)


class UnsupportedParameterError(TypeError):
    """A parameter of a primitive holds something that cannot be written down."""


def encode_params(params: Mapping[str, Any], symbols: JaxSymbols) -> Attrs:
    """The parameters of a primitive as attributes."""
    encoded = {}
    for name, value in params.items():
        plain = _is_dtype(value) and _names_dtype(name)
        try:
            encoded[name] = dtype_text(value) if plain else _encoded(value, symbols)
        except UnsupportedParameterError as error:
            raise UnsupportedParameterError(f"its parameter `{name}` {error}") from None
    return Attrs(encoded)


def decode_attrs(attrs: Mapping[str, Any], primitives: Primitives) -> dict[str, Any]:
    """The parameters that `encode_params` made attributes of, symbolic dimensions filled in."""
    return {
        name: jax.dtypes.canonicalize_dtype(jax_dtype(value), allow_extended_dtype=True)
        if isinstance(value, str) and _names_dtype(name)
        else _decoded(value, primitives)
        for name, value in attrs.items()
    }


def dtype_text(dtype: Any) -> str:
    """The name of a dtype of JAX's."""
    return str(dtype) if is_key(dtype) else dtype_name(np.dtype(dtype))


def _names_dtype(name: str) -> bool:
    return name.endswith("dtype") or name == "preferred_element_type"


def _encoded(value: Any, symbols: JaxSymbols) -> Any:
    if type(value).__name__ == "PRNGImpl":
        return {"PRNGImpl": value.name}
    match value:
        case enum.Enum():
            return {_public_name(type(value)): value.name}
        case None | bool() | str() | int() | float() | complex() | np.generic():
            return value
        case tuple() if _field_names(value):
            fields = dict(zip(_field_names(value), value, strict=True))
            return {_public_name(type(value)): _fields(fields, symbols)}
        case tuple() | list() | range():
            return tuple(_encoded(item, symbols) for item in value)
        case core.Primitive():
            return {"Primitive": value.name}
        case NamedSharding() if can_be_written(value):
            return {"NamedSharding": written_sharding(value)}
    if export.is_symbolic_dim(value):
        return symbols.from_jax(value)
    if _is_dtype(value):
        return {"dtype": dtype_text(value)}
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        fields = {name: getattr(value, name) for name in names}
        return {_public_name(type(value)): _fields(fields, symbols)}
    raise UnsupportedParameterError(f"is of type {type(value).__name__}, which has no written form")


def _decoded(value: Any, primitives: Primitives) -> Any:
    if isinstance(value, tuple):
        return tuple(_decoded(item, primitives) for item in value)
    if not isinstance(value, Mapping):
        return value
    if len(value) != 1:
        raise ValueError(f"a structured parameter has one key, the name of its type: {value}")
    ((tag, inner),) = value.items()
    match tag:
        case "Primitive":
            return primitives(inner)
        case "dtype":
            return jax_dtype(inner)
        case "PRNGImpl":
            return key_implementation(inner)
        case "NamedSharding":
            return read_sharding(inner)
    kind = _public_type(tag)
    if issubclass(kind, enum.Enum):
        return kind[inner]
    return kind(**{name: _decoded(item, primitives) for name, item in inner.items()})


def _fields(fields: Mapping[str, Any], symbols: JaxSymbols) -> dict[str, Any]:
    return {name: _encoded(item, symbols) for name, item in fields.items()}


def _field_names(value: tuple[Any, ...]) -> tuple[str, ...]:
    """The names of the fields of a named tuple; a plain tuple has none."""
    return getattr(value, "_fields", ())


def _is_dtype(value: Any) -> bool:
    if isinstance(value, type):
        return issubclass(value, np.generic) or isinstance(getattr(value, "dtype", None), np.dtype)
    return isinstance(value, np.dtype) or any(value == dtype for dtype in key_dtypes().values())


def _public_name(kind: type) -> str:
    """The name of a type, if JAX exposes the type under it."""
    exposed = any(getattr(space, kind.__name__, None) is kind for space in _NAMESPACES)
    if exposed or kind.__module__ == _SPARSE:
        return kind.__name__
    raise UnsupportedParameterError(f"is of type {kind.__name__}, which has no written form")


def _public_type(name: str) -> type[Any]:
    for space in _NAMESPACES:
        kind = getattr(space, name, None)
        if isinstance(kind, type):
            return kind
    if name == "SparseInfo":
        return importlib.import_module(_SPARSE).SparseInfo  # type: ignore[no-any-return]  # imported by name
    raise ValueError(f"JAX has no type `{name}` for a structured parameter")


@cache
def key_implementation(name: str) -> Any:
    """JAX's record of a random number generator, as its primitives take it."""
    data = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0, impl=name)))
    # Of a parameter: what is made of constants alone may be computed rather than written.
    traced = jax.make_jaxpr(lambda bits: jax.random.wrap_key_data(bits, impl=name))(data)
    return next(eqn.params["impl"] for eqn in traced.jaxpr.eqns if "impl" in eqn.params)
