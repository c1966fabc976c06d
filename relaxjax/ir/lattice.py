"""How types relate: which is more general, and what two have in common."""

from collections.abc import Set
from enum import IntEnum

from .dim_variables import dim_vars
from .dims import Dim, SymbolicVar, can_prove_different, can_prove_equal
from .expr import Var
from .node import replace
from .types import FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type, same_type
from .walk import definable_symbols


class Fit(IntEnum):
    """Whether a value of one type may stand where another is expected."""

    NEVER = 0
    MAYBE = 1  # only the values can tell: two symbolic dimensions, an unknown rank
    ALWAYS = 2


def fits(value: Type | None, expected: Type | None) -> Fit:
    """Whether a value of type `value` may stand where `expected` is expected."""
    if expected is None or isinstance(expected, ObjectType) or value is expected:
        return Fit.ALWAYS
    if value is None or isinstance(value, ObjectType):
        return Fit.MAYBE
    match expected, value:
        case TensorType(), TensorType():
            return _tensor_fits(value, expected)
        case ShapeType(), ShapeType():
            return _shape_fits(value.values, value.ndim, expected.values, expected.ndim)
        case TupleType(fields=wanted), TupleType(fields=given) if len(wanted) == len(given):
            return min(map(fits, given, wanted), default=Fit.ALWAYS)
        case PrimType(dtype=wanted_dtype), PrimType(dtype=given_dtype):
            return Fit.ALWAYS if wanted_dtype == given_dtype else Fit.NEVER
        case FuncType(), FuncType():
            return _function_fits(value, expected)
        case _:
            return Fit.NEVER


def common_type(lhs: Type, rhs: Type) -> Type:
    """The least general type that both types fit."""
    if same_type(lhs, rhs):
        return lhs
    match lhs, rhs:
        case TensorType(), TensorType():
            dtype = lhs.dtype if lhs.dtype == rhs.dtype else None
            vdevice = lhs.vdevice if lhs.vdevice == rhs.vdevice else None
            placement = lhs.placement if lhs.placement == rhs.placement else None
            if lhs.shape is not None and _same_shape(lhs, rhs):
                return TensorType(lhs.shape, dtype, vdevice=vdevice, placement=placement)
            ndim = lhs.ndim if lhs.ndim == rhs.ndim else -1
            return TensorType(None, dtype, ndim, vdevice, placement=placement)
        case ShapeType(), ShapeType():
            return ShapeType(None, lhs.ndim if lhs.ndim == rhs.ndim else -1)
        case TupleType(fields=left), TupleType(fields=right) if len(left) == len(right):
            return TupleType(tuple(map(common_type, left, right)))
        case FuncType(params=tuple()), FuncType(params=tuple()) if lhs.params == rhs.params:
            return FuncType(lhs.params, common_type(lhs.ret, rhs.ret), lhs.pure and rhs.pure)
        case FuncType(), FuncType():
            return FuncType(None, ObjectType(), lhs.pure and rhs.pure)
        case _:
            return ObjectType()


def erase(
    ty: Type, symbols: Set[SymbolicVar] = frozenset(), variables: Set[Var] = frozenset()
) -> Type:
    """`ty` as far as it can be said with the given symbolic dimensions and variables in sight."""

    def visible(dims: tuple[Dim, ...]) -> bool:
        return all(var in symbols for dim in dims for var in dim_vars(dim))

    match ty:
        case TensorType(shape=tuple() as dims) if not visible(dims):
            return replace(ty, shape=None)
        case TensorType(shape=Var() as var) if var not in variables:
            known = ty.dims if ty.dims is not None and visible(ty.dims) else None
            return replace(ty, shape=known)
        case ShapeType(values=tuple() as dims) if not visible(dims):
            return ShapeType(None, ty.ndim)
        case TupleType(fields=fields):
            erased = tuple(erase(item, symbols, variables) for item in fields)
            return ty if all(map(_is, erased, fields)) else TupleType(erased)
        case FuncType(params=tuple() as params):
            own = {symbol for param in params for symbol in definable_symbols(param)}
            if any(erase(param, symbols | own, variables) is not param for param in params):
                # A parameter's type may not grow: the function would seem to take more.
                return FuncType(None, ObjectType(), ty.pure)
            ret = erase(ty.ret, symbols | own, variables)
            return ty if ret is ty.ret else FuncType(params, ret, ty.pure)
        case _:
            return ty


def _tensor_fits(value: TensorType, expected: TensorType) -> Fit:
    fit = Fit.ALWAYS
    if expected.dtype is not None and value.dtype != expected.dtype:
        if value.dtype is not None:
            return Fit.NEVER
        fit = Fit.MAYBE
    if expected.vdevice is not None and value.vdevice != expected.vdevice:
        if value.vdevice is not None:
            return Fit.NEVER
        fit = Fit.MAYBE
    if isinstance(expected.shape, Var):
        if value.shape is expected.shape:
            return fit
        if expected.dims is None:
            fit = min(fit, Fit.MAYBE)
    return min(fit, _shape_fits(value.dims, value.ndim, expected.dims, expected.ndim))


def _shape_fits(
    value: tuple[Dim, ...] | None, ndim: int, expected: tuple[Dim, ...] | None, expected_ndim: int
) -> Fit:
    if expected_ndim == -1:
        return Fit.ALWAYS
    if ndim == -1:
        return Fit.MAYBE
    if ndim != expected_ndim:
        return Fit.NEVER
    if expected is None:
        return Fit.ALWAYS
    if value is None:
        return Fit.MAYBE
    if any(map(can_prove_different, value, expected)):
        return Fit.NEVER
    return Fit.ALWAYS if all(map(can_prove_equal, value, expected)) else Fit.MAYBE


def _function_fits(value: FuncType, expected: FuncType) -> Fit:
    if expected.pure and not value.pure:
        return Fit.NEVER
    if expected.params is None:
        return Fit.ALWAYS
    if value.params is None:
        return Fit.MAYBE
    if len(value.params) != len(expected.params):
        return Fit.NEVER
    parameters = map(fits, expected.params, value.params)
    return min(fits(value.ret, expected.ret), *parameters, Fit.ALWAYS)


def _same_shape(lhs: TensorType, rhs: TensorType) -> bool:
    if lhs.dims is None or rhs.dims is None:
        return lhs.shape is rhs.shape
    return len(lhs.dims) == len(rhs.dims) and all(map(can_prove_equal, lhs.dims, rhs.dims))


def _is(lhs: object, rhs: object) -> bool:
    return lhs is rhs
