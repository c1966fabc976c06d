"""What is checked of an operator where it runs: its arguments, its result, and NaN in it."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import jax

from relaxjax.ir.bind import check_type
from relaxjax.ir.dims import Dim, SymbolicExpr, SymbolicVar
from relaxjax.ir.expr import Call, Constant, Expr, PrimExpr, Tuple, Var
from relaxjax.ir.op import typed
from relaxjax.ir.renew import substitute_symbols
from relaxjax.ir.tensor_types import static_dims
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ir.walk import expr_symbols, substitute_type

from .arguments import Symbols, narrow


def check_sizes(
    call: Call,
    given: Sequence[Expr | None],
    values: Sequence[Any],
    symbols: Mapping[SymbolicVar, Any],
) -> None:
    """Raise where an operator would refuse the sizes that its arguments turn out to have.

    JAX would repeat what has the size one, and take no notice of what is too long. A place that
    turns out to be negative may be another than its type says.
    """
    args = [arg for arg in given if arg is not None]
    if not any(map(_is_open, args)):
        return
    found = [value for arg, value in zip(given, values, strict=True) if arg is not None]
    sizes = {symbol: size for symbol, size in symbols.items() if isinstance(size, int)}
    known = (_with_sizes(arg, value, sizes) for arg, value in zip(args, found, strict=True))
    sized = typed(Call(call.op, tuple(known), call.attrs, call.ty_args))
    stated = None if call.ty is None else substitute_type(call.ty, sizes)
    told = dict.fromkeys(symbol for arg in args for symbol in expr_symbols(arg))
    check_type(sized, stated, {symbol: sizes[symbol] for symbol in told if symbol in sizes})


def _is_open(arg: Expr) -> bool:
    """Whether a tensor's type leaves a size open, or a place is written with dimensions."""
    match arg:
        case Tuple(fields=fields):
            return any(map(_is_open, fields))
        case PrimExpr(value=value):
            return isinstance(value, SymbolicExpr)
    return isinstance(arg.ty, TensorType) and static_dims(arg.ty) is None


def _with_sizes(arg: Expr, value: Any, sizes: Mapping[SymbolicVar, Dim]) -> Expr:
    """An argument of the sizes that its value has, where these are numbers."""
    if isinstance(arg, Tuple | PrimExpr):
        return substitute_symbols(arg, sizes)
    shape = getattr(value, "shape", None)
    if not _is_open(arg) or shape is None or not all(isinstance(size, int) for size in shape):
        return arg
    assert isinstance(arg.ty, TensorType)
    return Var("x", TensorType(tuple(shape), arg.ty.dtype, vdevice=arg.ty.vdevice))


def misfit(call: Call, value: Any, symbols: Symbols) -> str | None:
    """What a lowering gives in the place of a value of the call's type, and the type; None if it
    fits, as far as the sizes in the type are known.

    Where nobody looked, JAX would repeat what has the size one in whatever comes after.
    """
    if _fits(value, call.ty, symbols):
        return None
    found = described_value(value)
    return f"the lowering of {call.op} gives a result of type {found}, but its type is {call.ty}"


def _fits(value: Any, ty: Type | None, symbols: Symbols) -> bool:
    match ty:
        case TupleType(fields=fields):
            is_one = isinstance(value, tuple | list) and len(value) == len(fields)
            return is_one and all(
                _fits(item, field, symbols) for item, field in zip(value, fields, strict=True)
            )
        case TensorType(dtype=dtype, dims=dims, ndim=ndim) if hasattr(value, "shape"):
            known = [symbols.value(dim) if symbols.knows(dim) else None for dim in dims or ()]
            return (
                ndim in (-1, len(value.shape))
                and (dtype is None or str(value.dtype) in (dtype, narrow(dtype)))
                and all(map(_may_be, known, value.shape))
            )
    return True


def _may_be(known: Any, found: Any) -> bool:
    """Whether a size is as it should be; those of exported programs may be no numbers."""
    return known == found or not (isinstance(known, int) and isinstance(found, int))


def described_value(value: Any) -> str:
    """A value as its type is written."""
    if isinstance(value, tuple | list):
        return f"R.Tuple({', '.join(map(described_value, value))})"
    if hasattr(value, "shape"):
        return f'R.Tensor({tuple(value.shape)}, dtype="{value.dtype}")'
    return f"`{value!r}`"


def checked_if_computed(args: Iterable[Expr | None]) -> AbstractContextManager[Any]:
    """A scope for an operator of such arguments, in which one of constants alone is not searched.

    A NaN there is written and not computed, as one in the branch of `jnp.var` for no values: that
    of a function of JAX is not searched either, only its result.
    """
    config: Any = jax.config
    searches = config.jax_debug_nans or config.jax_debug_infs
    if not searches or not all(arg is None or isinstance(arg, Constant) for arg in args):
        return nullcontext()
    scope = ExitStack()
    scope.enter_context(jax.debug_nans(False))
    scope.enter_context(jax.debug_infs(False))
    return scope
