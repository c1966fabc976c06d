"""The values of a script that are no operators: `R.const`, `R.shape`, `R.tuple`, calls by name."""

from functools import partial
from typing import Any

import numpy as np

from relaxjax.ir.attrs import DESTINATION_PASSING, Attrs
from relaxjax.ir.dims import SymbolicExpr
from relaxjax.ir.expr import (
    Call,
    Constant,
    DataTypeImm,
    Expr,
    ExternFunc,
    PrimExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    np_dtype,
)
from relaxjax.ir.expr import const as tensor_const
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.types import FuncType, TupleType, Type, dtype_name, is_key
from relaxjax.ops.packed import as_held

from .annotations import resolve
from .scalars import ScalarType


def as_expr(value: Any) -> Expr:
    """A value of Python as an expression: numbers are scalars of the host, sequences are tuples."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int | float | SymbolicExpr):
        return PrimExpr(value)
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, tuple | list):
        return Tuple(tuple(map(as_expr, value)))
    if isinstance(value, np.ndarray):
        raise TypeError("an array of numpy is no Relax value: write R.const(array)")
    raise TypeError(f"`{value!r}` is a Python {type(value).__name__}, which is no Relax value")


def const(value: Any, dtype: Any = None) -> Constant:
    """A constant tensor: `const(1.0, "float32")`, `const([[1, 2]], "int64")`, `const(array)`.

    The texts "inf", "-inf" and "nan" stand for the numbers that have no literal.
    """
    number = float(value) if isinstance(value, str) else value
    return tensor_const(number, dtype.dtype if isinstance(dtype, ScalarType) else dtype)


def shape(values: Any) -> ShapeExpr:
    """A shape as a value: `shape([2, n])`."""
    if isinstance(values, ShapeExpr):
        return values
    if not isinstance(values, list | tuple):
        raise TypeError(f"a shape is a list such as [2, n], but `{values!r}` was given")
    dims = (item.value if isinstance(item, PrimExpr) else item for item in values)
    return ShapeExpr(tuple(dims))  # type: ignore[arg-type]  # ShapeExpr refuses what is no dimension


def string(value: str) -> StringImm:
    """A string as a value."""
    if not isinstance(value, str):
        raise TypeError(f"`R.str` takes a string, but `{value!r}` was given")
    return StringImm(value)


def dtype(value: Any) -> DataTypeImm:
    """A dtype as a value."""
    name = value.dtype if isinstance(value, ScalarType) else dtype_name(value)
    return DataTypeImm(name if is_key(name) else str(np_dtype(name)))


_DEVICE_KINDS = {1: "cpu", 2: "cuda", 10: "rocm"}  # their numbers in DLPack


def device(device_type: int, index: int = 0) -> str:
    """A device by the number of its kind, as TVM prints it: `device(2, 0)` is "cuda:0"."""
    if device_type not in _DEVICE_KINDS:
        known = ", ".join(f"{number} ({kind})" for number, kind in _DEVICE_KINDS.items())
        raise ValueError(f"`device_type` must be one of {known}, found {device_type!r}")
    return f"{_DEVICE_KINDS[device_type]}:{index}"


# The same by their names, as `tvm.cpu(0)`.
DEVICES = {kind: partial(device, number) for number, kind in _DEVICE_KINDS.items()}


def prim_value(value: Any, dtype: str = "") -> Expr:
    """A number of the host as a value."""
    if isinstance(value, PrimExpr) and not dtype:
        return value
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, int | float | SymbolicExpr):
        raise TypeError(f"`R.prim_value` takes a number or a dimension, but `{value!r}` was given")
    return PrimExpr(value, dtype)


def tuple_of(*fields: Any) -> Tuple:
    """A tuple of values: `tuple(x, y)`."""
    return Tuple(tuple(map(as_expr, fields)))


def tuple_get_item(value: Any, index: int) -> TupleGetItem:
    """A field of a tuple, of one that is written out too: `TupleGetItem((x, y), 1)`."""
    return TupleGetItem(as_expr(value), index)


def extern_func(symbol: str, ty: Any = None) -> ExternFunc:
    """A function from outside, by its name. It is impure unless its type says otherwise."""
    if not isinstance(symbol, str):
        raise TypeError(f"`R.ExternFunc` takes a name, but `{symbol!r}` was given")
    return ExternFunc(symbol) if ty is None else ExternFunc(symbol, ty=resolve(ty))


def call_packed(function: Any, *args: Any, ty_args: Any = None, **named: Any) -> Call:
    """Call a function from outside by its name; `ty_args` is the type of the result."""
    return _call_extern(function, args, ty_args, named, pure=False)


def call_pure_packed(function: Any, *args: Any, ty_args: Any = None, **named: Any) -> Call:
    """Call a function from outside by its name, which is said to have no effects."""
    return _call_extern(function, args, ty_args, named, pure=True)


def call_inplace_packed(
    function: Any, *args: Any, inplace_indices: Any = None, ty_args: Any = None, **named: Any
) -> Call:
    """Call a function that may reuse the memory of arguments; here it gives its results instead."""
    return _call_extern(function, args, ty_args, named, pure=True)


def call_dps_packed(func: Any, args: Any, out_ty: Any = None, **named: Any) -> Call:
    """Call a function from outside that gets arrays for its results behind its arguments.

    It writes into these; `out_ty` says the type of the result, a list of types that of several.
    """
    for name in _TYPE_ARGUMENTS:
        out_ty = named.pop(name, out_ty)
    if out_ty is None or named:
        wrong = f"has no argument `{next(iter(named))}`" if named else "needs `out_ty`"
        raise TypeError(f"`R.call_dps_packed` {wrong}: write R.call_dps_packed(name, args, out_ty)")
    listed = isinstance(out_ty, list | tuple)
    ty = TupleType(_types(out_ty)) if listed else resolve(out_ty)
    given = as_expr(args)
    fields = given.fields if isinstance(given, Tuple) else (given,)
    attrs = {DESTINATION_PASSING: True}
    return _call_extern(func, fields, [ty], attrs, pure=True)


def invoke_closure(closure: Expr, args: Any, ty_args: Any = None, **named: Any) -> Call:
    """Call a closure that may have effects; `ty_args` is the type of the result."""
    return _invoke("relax.invoke_closure", closure, args, ty_args, named)


def invoke_pure_closure(closure: Expr, args: Any, ty_args: Any = None, **named: Any) -> Call:
    """Call a closure that has no effects; `ty_args` is the type of the result."""
    return _invoke("relax.invoke_pure_closure", closure, args, ty_args, named)


def _invoke(name: str, closure: Expr, args: Any, ty_args: Any, named: dict[str, Any]) -> Call:
    for other in _TYPE_ARGUMENTS:
        ty_args = named.pop(other, ty_args)
    call = get_op(name)(closure, args, **named)
    return replace(call, ty_args=_types(ty_args), ty=None)


_TYPE_ARGUMENTS = ("sinfo_args", "out_ty", "out_sinfo")  # what `ty_args` was or is called elsewhere


def _call_extern(
    function: Any, args: tuple[Any, ...], ty_args: Any, attrs: dict[str, Any], pure: bool
) -> Call:
    for name in _TYPE_ARGUMENTS:
        ty_args = attrs.pop(name, ty_args)
    attrs.pop("attrs_type_key", None)  # TVM's name for the class of the attributes
    callee = function
    if isinstance(function, str):
        callee = ExternFunc(as_held(function), ty=FuncType(pure=pure))
    elif not isinstance(function, Expr) or isinstance(function, Op):
        raise TypeError(f"a function from outside is called by its name, not by `{function!r}`")
    return Call(callee, tuple(map(as_expr, args)), Attrs(attrs), _types(ty_args))


def _types(given: Any) -> tuple[Type, ...]:
    if given is None:
        return ()
    return tuple(map(resolve, given if isinstance(given, list | tuple) else [given]))
