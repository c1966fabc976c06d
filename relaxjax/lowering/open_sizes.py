"""What types leave open of the arguments of an operator, checked by what comes when it runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from relaxjax.ir.bind import check_type
from relaxjax.ir.dims import Dim, SymbolicExpr, SymbolicVar
from relaxjax.ir.expr import Call, Expr, PrimExpr, Tuple, Var
from relaxjax.ir.op import typed
from relaxjax.ir.renew import substitute_symbols
from relaxjax.ir.tensor_types import static_dims
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import expr_symbols, substitute_type


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
