"""From an operator of the dialect back to its primitive."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.dtypes import canonicalize_dtype
from jax.extend.core import Primitive

from .avals import jax_dtype
from .convolution import convolved
from .parameters import UnsupportedParameterError, decode_attrs
from .prototypes import find_primitive, optional_params

# Primitives with parameters that JAX's public function makes anew: programs, mostly.
_REBUILT: dict[str, Callable[..., Any]] = {
    "scatter": lax.scatter,
    **{
        f"scatter-{of}": getattr(lax, f"scatter_{of}") for of in ("add", "sub", "mul", "min", "max")
    },
    "sharding_constraint": lambda x, sharding: lax.with_sharding_constraint(x, sharding),
}
# Parameters that are no attributes: those, and weak types, which the IR does not have.
_LEFT_OUT: dict[str, frozenset[str]] = {
    **dict.fromkeys(_REBUILT, frozenset({"update_jaxpr", "update_consts"})),
    "sharding_constraint": frozenset({"context_mesh", "unconstrained_dims"}),
    "convert_element_type": frozenset({"weak_type"}),
}
_FIXED: dict[str, dict[str, Any]] = {"convert_element_type": {"weak_type": False}}


def lowering_of(primitive: str, own: Primitive | None = None) -> Callable[..., Any]:
    """The function that an operator of the dialect runs: its primitive, bound.

    Of a primitive that somebody made, another may be made of the same name: it is given as `own`.
    """
    if primitive == "dim_as_value":
        return dim_as_value
    if primitive in _REBUILT:
        return lambda *args, **attrs: _REBUILT[primitive](*args, **_decoded(attrs))

    def bind(*args: Any, **params: Any) -> Any:
        found = find_primitive(primitive) if own is None else own
        defaults = dict.fromkeys(optional_params(primitive)) | _FIXED.get(primitive, {})
        results = found.bind(*args, **{**defaults, **params})
        return tuple(results) if found.multiple_results else results

    if primitive == "conv_general_dilated":
        return lambda *args, **attrs: convolved(bind, *args, **_decoded(attrs))
    return lambda *args, **attrs: bind(*args, **_decoded(attrs))


def dim_as_value(*, dim: Any, dtype: str) -> Any:
    """A dimension as a scalar."""
    return jnp.asarray(dim, canonicalize_dtype(jax_dtype(dtype)))


def written_params(eqn: Any) -> Mapping[str, Any]:
    """The parameters of an equation that its operator has as attributes."""
    name = eqn.primitive.name
    if name == "dim_as_value":
        return {**eqn.params, "dtype": eqn.outvars[0].aval.dtype}
    if name == "scatter" and eqn.params.get("update_jaxpr") is not None:
        raise UnsupportedParameterError(
            "it runs a function of what is there, as `x.at[places].apply(f)` has it: "
            "write `x.at[places].set(f(x[places]))`"
        )
    left_out = _LEFT_OUT.get(name, frozenset())
    optional = optional_params(name)
    return {
        param: value
        for param, value in eqn.params.items()
        if param not in left_out and not (_says_nothing(value) and param in optional)
    }


def _says_nothing(value: Any) -> bool:
    """Whether a parameter is None, or a sharding, which is that of operands mostly.

    JAX writes one where operands lie on several devices, or in a mapped function.
    """
    return value is None or hasattr(value, "mesh")


def _decoded(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return decode_attrs(attrs, find_primitive)
