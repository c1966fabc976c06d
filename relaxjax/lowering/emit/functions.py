"""JAX's functions that bear the name of a primitive, and primitives themselves, bound."""

import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from jax import lax
from jax.extend.core import primitives

from relaxjax.ir.types import TupleType
from relaxjax.ops.lax.prototypes import optional_params

from .writing import Writing, call

_RENAMED = {
    "and_": "bitwise_and",
    "or_": "bitwise_or",
    "xor": "bitwise_xor",
    "not_": "bitwise_not",
    "add_any": "add",
    "regularized_incomplete_beta": "betainc",
}
_NOT_WRITTEN = {"conj": {"input_dtype"}}  # what the function finds out by itself
_IN_A_LIST = frozenset({"split", "eig"})


def function_text(writing: Writing) -> str | None:
    """`lax.f(x, y, attr=value)`; None where there is no such function, or it takes other things."""
    name = _RENAMED.get(writing.name, writing.name)
    found = _public_function(name)
    if found is None:
        return None
    prefix, parameters = found
    given = set(writing.attrs) - _NOT_WRITTEN.get(writing.name, set())
    if not given <= set(parameters) or not _covered(parameters, len(writing.operands), given):
        return None
    defaults = {a for a in given if _same(parameters[a].default, writing.attrs[a])}
    left_out = set(writing.attrs) - given | defaults
    text = call(f"{prefix}.{name}", *writing.texts, *writing.named(*left_out))
    return f"tuple({text})" if writing.name in _IN_A_LIST else text


@cache
def _public_function(name: str) -> tuple[str, Mapping[str, inspect.Parameter]] | None:
    """Where the function `name` stands, and its parameters."""
    for prefix, space in (("lax", lax), ("lax.linalg", lax.linalg)):
        function = getattr(space, name, None)
        if callable(function):
            return prefix, inspect.signature(function).parameters
    return None


def _covered(parameters: Mapping[str, inspect.Parameter], count: int, named: Iterable[str]) -> bool:
    """Whether `count` positional arguments and the named ones are just what a function needs."""
    positional = [p for p in parameters.values() if p.kind is not p.KEYWORD_ONLY]
    if any(p.kind is p.VAR_POSITIONAL for p in positional):
        return True
    rest = positional[count:]
    return count <= len(positional) and all(
        p.name in named or p.default is not p.empty for p in rest
    )


def _same(default: Any, value: Any) -> bool:
    return type(default) is type(value) and bool(default == value)


def bound_text(writing: Writing) -> str | None:
    """The primitive itself, with every parameter that it has."""
    spaces = {"lax": lax, "lax.linalg": lax.linalg, "primitives": primitives}
    where = next((p for p, space in spaces.items() if hasattr(space, f"{writing.name}_p")), None)
    if where is None:
        return None
    unset = sorted(optional_params(writing.name) - set(writing.attrs))
    named = [*writing.named(), *(f"{param}=None" for param in unset)]
    text = call(f"{where}.{writing.name}_p.bind", *writing.texts, *named)
    return f"tuple({text})" if isinstance(writing.type, TupleType) else text
