"""What a call may be given for a parameter, by its annotation, and what is kept of that."""

import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np

from relaxjax.ir.attrs import freeze
from relaxjax.ir.dims import SIZES_COME_FROM, SymbolicExpr
from relaxjax.ir.expr import Constant, DataTypeImm, Expr, PrimExpr, ShapeExpr, StringImm, Tuple
from relaxjax.ir.types import FuncType, PrimType, ShapeType, TensorType, TupleType, Type, dtype_name


def converter(annotation: Any, optional: bool) -> Callable[[Any], Any]:
    """What makes the kept value of a given one, by the annotation of a parameter."""
    convert = _CONVERTERS.get(annotation)
    if convert is None and typing.get_origin(annotation) is Annotated:
        convert = typing.get_args(annotation)[1]
    if convert is None:
        convert = freeze
    if annotation == DType and not optional:
        convert = _needed_dtype
    return (lambda value: None if value is None else convert(value)) if optional else convert


def _argument(value: Any) -> Expr:
    if isinstance(value, Expr):
        return value
    mend = f"; write R.const({value!r}, dtype)" if isinstance(value, int | float) else ""
    raise TypeError(f"must be a Relax expression, but {_described(value)} was given{mend}")


def all_arguments(values: Any) -> tuple[Expr, ...]:
    """Several arguments, some of which may come in a list, as `R.assert_op(c, [x, y])` has it."""
    if isinstance(values, Expr):
        return (values,)
    if not isinstance(values, list | tuple):
        return (_prim_argument(values),)
    return tuple(expr for value in values for expr in all_arguments(value))


def _any_argument(value: Any) -> Expr:
    if isinstance(value, list | tuple):
        return Tuple(tuple(map(_any_argument, value)))
    return _argument(value)


def _shape_argument(value: Any) -> Expr:
    if isinstance(value, Expr):
        return value
    dims = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    values: list[Any] = [item.value if isinstance(item, PrimExpr) else item for item in dims]
    wrong = [item for item in values if not isinstance(item, int | SymbolicExpr)]
    if not wrong:
        return ShapeExpr(tuple(values))
    mend = f": `{wrong[0]}` is a value, and {SIZES_COME_FROM}" if isinstance(wrong[0], Expr) else ""
    raise TypeError(f"must be a shape such as (2, n), but {_described(value)} was given{mend}")


def _tuple_argument(value: Any) -> Expr:
    if isinstance(value, Expr):
        return value
    if isinstance(value, list | tuple):
        return Tuple(tuple(map(_field, value)))
    raise TypeError(f"must be a tuple or list, but {_described(value)} was given")


def _field(value: Any) -> Expr:
    """A field of a tuple, which may be a tuple in its turn."""
    return _tuple_argument(value) if isinstance(value, list | tuple) else _prim_argument(value)


def _prim_argument(value: Any) -> Expr:
    if isinstance(value, int | float | SymbolicExpr):
        return PrimExpr(value)
    return PrimExpr(value.item()) if isinstance(value, np.generic) else _argument(value)


def _int(value: Any) -> Any:
    value = _host_value(value)
    if isinstance(value, int | SymbolicExpr) and not isinstance(value, bool):
        return value
    raise TypeError(f"must be an integer, but {_described(value)} was given")


def _float(value: Any) -> float:
    value = _host_value(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise TypeError(f"must be a number, but {_described(value)} was given")


def _bool(value: Any) -> bool:
    value = _host_value(value)
    if isinstance(value, bool | int) and value in (0, 1):
        return bool(value)
    raise TypeError(f"must be True or False, but {_described(value)} was given")


def _str(value: Any) -> str:
    value = value.value if isinstance(value, StringImm) else value
    if isinstance(value, str):
        return value
    raise TypeError(f"must be a string, but {_described(value)} was given")


def as_ints(value: Any) -> tuple[Any, ...]:
    """One integer or several, as a tuple."""
    if isinstance(value, ShapeExpr | Tuple):
        value = tuple(value)
    items = value if isinstance(value, list | tuple) else (value,)
    return tuple(map(_int, items))


def as_floats(value: Any) -> tuple[float, ...]:
    """One number or several, as a tuple of floats."""
    items = value if isinstance(value, list | tuple | Tuple) else (value,)
    return tuple(map(_float, items))


def as_dtype(value: Any) -> str | None:
    """A dtype's name. TVM's spelling of an unknown dtype, `void` or an empty string, is None."""
    value = value.value if isinstance(value, DataTypeImm | StringImm) else value
    if value in ("", "void"):
        return None
    return dtype_name(value)


def _needed_dtype(value: Any) -> str:
    """A dtype's name, where one must be given."""
    name = None if value is None else as_dtype(value)
    if name is None:
        raise TypeError(f'must be a dtype such as "float32", but {_described(value)} was given')
    return name


def _host_value(value: Any) -> Any:
    if isinstance(value, PrimExpr):
        return value.value
    if isinstance(value, Constant) and value.data.ndim == 0:
        return value.data.item()
    return value.item() if hasattr(value, "item") and not isinstance(value, Expr) else value


def _described(value: Any) -> str:
    return f"`{value!r}` of type {type(value).__name__}"


Axes = Annotated[tuple[int, ...], as_ints]
Ints = Annotated[tuple[int, ...], as_ints]
Floats = Annotated[tuple[float, ...], as_floats]
DType = Annotated[str, as_dtype]

_CONVERTERS: dict[Any, Callable[[Any], Any]] = {
    Expr: _prim_argument,
    Type: _any_argument,
    ShapeExpr: _shape_argument,
    Tuple: _tuple_argument,
    PrimExpr: _prim_argument,
    TensorType: _argument,
    FuncType: _argument,
    ShapeType: _shape_argument,
    TupleType: _tuple_argument,
    PrimType: _prim_argument,
    int: _int,
    float: _float,
    bool: _bool,
    str: _str,
}
