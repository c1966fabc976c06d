"""One operator's lowering as a JAX program: traced once for each set of attributes and types."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import jax

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.dims import Dim, SymbolicExpr
from relaxjax.ir.expr import (
    Call,
    DataTypeImm,
    Expr,
    PrimExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
)
from relaxjax.ir.op import Op, arguments
from relaxjax.ir.types import ShapeType, TensorType, TupleType, Type
from relaxjax.ir.walk import type_symbols, value_symbols
from relaxjax.ops.lax import JaxSymbols, aval_of, evaluate_attrs, x64_for

Lowering: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Hole:
    """The place of a tensor among the arguments of a lowering."""

    index: int


@dataclass(frozen=True, slots=True)
class Known:
    """An argument that is no tensor: a shape, a number of the host, a name, or nothing."""

    value: Any


Template: TypeAlias = "Hole | Known | tuple[Template, ...]"


@dataclass(frozen=True, slots=True)
class Traced:
    """A lowering as a program of the tensors among a call's arguments."""

    program: Any
    tensors: Sequence[Expr]
    symbols: JaxSymbols


class _NotTraceableError(Exception):
    """Something about a call is known only when it runs."""


def trace_call(call: Call, lower: Lowering) -> Traced | None:
    """The lowering of a call as a program; None where JAX needs more than its types to trace it."""
    assert isinstance(call.op, Op)
    tensors: list[Expr] = []
    args, _ = arguments(call)
    try:
        template = tuple(_template(arg, tensors) for arg in args)
        types = tuple(tensor.ty for tensor in tensors)
        program, symbols = _traced(lower, template, types, call.attrs, call.ty)
    except _NotTraceableError:
        return None
    return Traced(program, tensors, symbols)


def _template(arg: Expr | None, tensors: list[Expr]) -> Template:
    """Where the tensors of an argument go; they are added to `tensors`."""
    match arg:
        case None:
            return Known(None)
        case Tuple(fields=fields):
            return tuple(_template(item, tensors) for item in fields)
        case ShapeExpr(values=dims):
            return Known(dims)
        case PrimExpr(value=value) | StringImm(value=value) | DataTypeImm(value=value):
            return Known(value)
    match arg.ty:
        case TensorType():
            tensors.append(arg)
            return Hole(len(tensors) - 1)
        case TupleType(fields=types):
            return tuple(_template(TupleGetItem(arg, i), tensors) for i in range(len(types)))
        case ShapeType(values=tuple() as dims):
            return Known(dims)
    raise _NotTraceableError


@lru_cache(maxsize=2048)
def _traced(
    lower: Lowering,
    template: Template,
    types: tuple[Type | None, ...],
    attrs: Attrs,
    result: Type | None,
) -> tuple[Any, JaxSymbols]:
    symbols = JaxSymbols()
    avals = [aval_of(ty, symbols) for ty in types]
    if None in avals:
        raise _NotTraceableError

    def run(*arrays: Any) -> Any:
        args = _filled(template, arrays, symbols)
        return lower(*args, **evaluate_attrs(attrs, symbols.to_jax))

    try:
        with x64_for(result, attrs, *types):
            return jax.make_jaxpr(run)(*avals), symbols
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):
        raise _NotTraceableError from None  # it must see values
    except Exception:
        if any(_symbols_in(template, types, attrs)):
            raise _NotTraceableError from None  # with the sizes of a call it may well succeed
        raise


def _filled(template: Template, arrays: Sequence[Any], symbols: JaxSymbols) -> Any:
    match template:
        case Hole(index):
            return arrays[index]
        case Known(value):
            return _known(value, symbols)
        case _:
            return tuple(_filled(item, arrays, symbols) for item in template)


def _known(value: Any, symbols: JaxSymbols) -> Any:
    if isinstance(value, tuple):
        return tuple(map(symbols.to_jax, value))
    return symbols.to_jax(value) if isinstance(value, SymbolicExpr) else value


def _symbols_in(template: Template, types: Sequence[Type | None], attrs: Attrs) -> Iterator[Dim]:
    for ty in types:
        yield from type_symbols(ty)
    yield from value_symbols(attrs)
    if isinstance(template, Known):
        yield from value_symbols(template.value)
    if isinstance(template, tuple):
        for item in template:
            yield from _symbols_in(item, (), Attrs())
