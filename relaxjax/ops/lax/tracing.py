"""What JAX traces a call with: its tensors as abstract values, everything else as it is."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.dims import SymbolicExpr, SymbolicVar
from relaxjax.ir.expr import (
    DataTypeImm,
    Expr,
    PrimExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    np_dtype,
)
from relaxjax.ir.types import ShapeType, TensorType, TupleType, Type
from relaxjax.ir.walk import type_symbols, value_symbols
from relaxjax.ops.declare import OpError
from relaxjax.ops.platform import asked_for_platform, lowering_for

from .avals import aval_of, x64_for
from .jaxprs import jaxpr_of
from .symbols import JaxSymbols, evaluate_attrs


class NotTraceableError(Exception):
    """Something about a call is known only when it runs."""


@dataclass(frozen=True, slots=True)
class Hole:
    """The place of a tensor among the arguments of a lowering."""

    index: int


@dataclass(frozen=True, slots=True)
class Known:
    """An argument that is no tensor: a shape, a number of the host, a name, or nothing."""

    value: Any


Template: TypeAlias = "Hole | Known | tuple[Template, ...]"


def arranged(args: Sequence[Expr | None]) -> tuple[tuple[Template, ...], list[Expr]]:
    """The arguments of a call with holes in the places of its tensors, and the tensors."""
    tensors: list[Expr] = []
    return tuple(_template(arg, tensors) for arg in args), tensors


def _template(arg: Expr | None, tensors: list[Expr]) -> Template:
    match arg:
        case None:
            return Known(None)
        case Tuple(fields=fields):
            return tuple(_template(item, tensors) for item in fields)
        case ShapeExpr(values=dims):
            return Known(dims)
        case PrimExpr():
            return Known(host_number(arg))
        case StringImm(value=value) | DataTypeImm(value=value):
            return Known(value)
    match arg.ty:
        case TensorType():
            tensors.append(arg)
            return Hole(len(tensors) - 1)
        case TupleType(fields=types):
            return tuple(_template(TupleGetItem(arg, i), tensors) for i in range(len(types)))
        case ShapeType(values=tuple() as dims):
            return Known(dims)
    raise NotTraceableError


def host_number(number: PrimExpr) -> Any:
    """The value of a scalar of the host, in its own dtype where it is narrower than Python's."""
    if isinstance(number.value, float) and number.dtype != "float64":
        return np_dtype(number.dtype).type(number.value)
    return number.value


def filled(template: Template, arrays: Sequence[Any], symbols: JaxSymbols) -> Any:
    """A template with arrays in its holes."""
    match template:
        case Hole(index):
            return arrays[index]
        case Known(value):
            return _known(value, symbols)
        case _:
            return tuple(filled(item, arrays, symbols) for item in template)


def abstract_tensors(types: Sequence[Type | None], symbols: JaxSymbols) -> list[Any]:
    """The abstract values of tensors."""
    avals = [aval_of(ty, symbols) for ty in types]
    if None in avals:
        raise NotTraceableError
    return avals


def trace_lowering(
    lower: Callable[..., Any],
    template: tuple[Template, ...],
    types: Sequence[Type | None],
    attrs: Attrs,
    result: Type | None,
    platform: str,
) -> tuple[Any, JaxSymbols, Collection[str]]:
    """A lowering as a program of tensors of such types, its symbols, and the platforms it asks for.

    Where JAX needs more than types to trace it, that is a `NotTraceableError`.
    """
    symbols = JaxSymbols()
    avals = abstract_tensors(types, symbols)

    def run(*arrays: Any) -> Any:
        args = filled(template, arrays, symbols)
        return lower(*args, **evaluate_attrs(attrs, symbols.to_jax))

    try:
        with (
            x64_for(result, attrs, *types),
            lowering_for(platform),
            asked_for_platform() as platforms,
        ):
            return jaxpr_of(run, *avals), symbols, platforms
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError, OpError):
        raise NotTraceableError from None  # it must see values
    except Exception:
        if next(symbols_of(template, types, attrs), None) is not None:
            raise NotTraceableError from None  # with the sizes of a call it may well succeed
        raise


def symbols_of(
    template: Template, types: Sequence[Type | None], attrs: Attrs
) -> Iterator[SymbolicVar]:
    """The symbolic dimensions that a traced program depends on."""
    for ty in types:
        yield from type_symbols(ty)
    yield from value_symbols(attrs)
    if isinstance(template, Known):
        yield from value_symbols(template.value)
    if isinstance(template, tuple):
        for item in template:
            yield from symbols_of(item, (), Attrs())


def _known(value: Any, symbols: JaxSymbols) -> Any:
    if isinstance(value, tuple):
        return tuple(map(symbols.to_jax, value))
    return symbols.to_jax(value) if isinstance(value, SymbolicExpr) else value
