"""Python functions from outside: called at each run, wherever in a program their calls stand."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.experimental import io_callback

from relaxjax.ir.types import FuncType, TensorType, TupleType, Type
from relaxjax.ops.lax import jax_dtype
from relaxjax.ops.packed import is_own

from .arguments import ArgumentError, Symbols, admitted, as_jax, declared


def is_tracing() -> bool:
    """Whether JAX is tracing a program now, rather than computing."""
    return isinstance(jnp.zeros(()), Tracer)


class HostFunction:
    """A Python function that a program was given, or that it calls by name.

    It is called as the program runs. Where JAX traces a part of that, the body of a loop or a
    branch, the call becomes a callback with the result type that is declared: a function that is
    traced would run once, and its result stay for ever. A program that is `traced` as a whole is
    in the hands of whoever does that: the function is a part of it as any other.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, ret: Type | None, traced: bool
    ) -> None:
        self.function = function
        self.name = name
        self.ret = ret
        self.traced = traced

    def __call__(self, *args: Any) -> Any:
        return self.call(args, self.ret, Symbols())

    def call(self, args: Sequence[Any], ty: Type | None, symbols: Symbols) -> Any:
        """The result of a call whose type is `ty`, checked."""
        if self.traced or not is_tracing():
            return self._checked(self.function(*args), ty, symbols)
        return self._called_back(args, ty, symbols)

    def fill(self, args: Sequence[Any], ty: Type | None, symbols: Symbols) -> Any:
        """The arrays that a function fills, which it gets behind its arguments; JAX traces none."""
        results = _abstract(ty, symbols)
        if results is None:
            raise ArgumentError(
                f"`{self.name}` writes its result into an array, and the result is of type {ty}: "
                "declare its shape and dtype"
            )

        def run(*given: Any) -> Any:
            filled = jax.tree.map(lambda one: np.zeros(one.shape, one.dtype), results)
            self.function(*given, *jax.tree.leaves(filled))
            return filled

        return HostFunction(run, self.name, self.ret, traced=False).call(args, ty, symbols)

    def _checked(self, result: Any, ty: Type | None, symbols: Symbols) -> Any:
        subject = f"the result of `{self.name}`"
        if result is None and ty == TupleType(()):
            return ()  # a Python function that only acts says it by returning nothing
        value = as_jax(admitted(result, ty, subject, "a Python function"))
        declared(value, ty, symbols, subject)
        return value

    def _called_back(self, args: Sequence[Any], ty: Type | None, symbols: Symbols) -> Any:
        result = _abstract(ty, symbols)
        if result is None:
            raise ArgumentError(
                f"`{self.name}`, a Python function, is called in a loop or a branch, which JAX "
                f"compiles, and its result is of type {ty}: declare the shape and the dtype of "
                "the tensors that it gives, or call it outside"
            )
        arrays = [arg for arg in args if _holds_arrays(arg)]

        def run(*given: Any) -> Any:
            left = iter(given)
            values = [next(left) if _holds_arrays(arg) else arg for arg in args]
            return self._checked(self.function(*values), ty, symbols)

        return io_callback(run, result, *arrays, ordered=True)


def _holds_arrays(value: Any) -> bool:
    leaves = jax.tree.leaves(value)
    return bool(leaves) and all(isinstance(leaf, jax.Array) for leaf in leaves)


def _abstract(ty: Type | None, symbols: Symbols) -> Any:
    """What JAX is told of a result before there is one; None where its type does not say it."""
    match ty:
        case TensorType(dims=tuple() as dims, dtype=str() as dtype):
            if not all(map(symbols.knows, dims)):
                return None
            return jax.ShapeDtypeStruct(tuple(map(symbols.value, dims)), jax_dtype(dtype))
        case TupleType(fields=fields):
            items = tuple(_abstract(item, symbols) for item in fields)
            return None if None in items else items
    return None


def hosted(value: Any, ty: Type | None, name: str, traced: bool) -> Any:
    """An argument of a program, its Python functions wrapped, in tuples too."""
    if isinstance(value, tuple):
        types = ty.fields if isinstance(ty, TupleType) else (None,) * len(value)
        pairs = enumerate(zip(value, types, strict=True))
        return tuple(hosted(v, t, f"{name}[{index}]", traced) for index, (v, t) in pairs)
    if not callable(value) or isinstance(value, HostFunction) or is_own(value):
        return value
    ret = ty.ret if isinstance(ty, FuncType) else None
    return HostFunction(value, name, ret, traced)
