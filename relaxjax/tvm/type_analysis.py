"""What can be asked of types and of the sizes in them, as TVM has it."""

from collections.abc import Iterator, Mapping
from enum import IntEnum

from relaxjax.ir.dims import Dim, SymbolicExpr, SymbolicVar
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function, MatchCast
from relaxjax.ir.infer import call_type
from relaxjax.ir.lattice import Fit, common_type, erase, fits
from relaxjax.ir.node import replace
from relaxjax.ir.types import FuncType, ShapeType, TensorType, TupleType, Type
from relaxjax.ir.walk import (
    definable_symbols,
    expr_symbols,
    nested_bindings,
    substitute_type,
    type_symbols,
)


class BaseCheckResult(IntEnum):
    """Whether a value of one type may stand where another is expected."""

    FAIL_L0 = 0  # no value of the one is of the other
    FAIL_L1 = 1  # the dtype or the rank is not known
    FAIL_L2 = 2  # the sizes are not known, or not known to be equal
    PASS = 3


def type_base_check(base: Type, derived: Type) -> BaseCheckResult:
    """Whether a value of type `derived` may stand where `base` is expected."""
    fit = fits(derived, base)
    if fit is Fit.ALWAYS:
        return BaseCheckResult.PASS
    if fit is Fit.NEVER:
        return BaseCheckResult.FAIL_L0
    known = fits(derived, get_static_type(base)) is Fit.ALWAYS
    return BaseCheckResult.FAIL_L2 if known else BaseCheckResult.FAIL_L1


def type_lca(lhs: Type, rhs: Type) -> Type:
    """The least general type that both types fit."""
    return common_type(lhs, rhs)


def get_static_type(ty: Type) -> Type:
    """A type without its sizes: the dtype and the rank are kept."""
    match ty:
        case TensorType():
            return TensorType(None, ty.dtype, ty.ndim, ty.vdevice)
        case ShapeType():
            return ShapeType(None, ty.ndim)
        case TupleType(fields=fields):
            return TupleType(tuple(map(get_static_type, fields)))
        case FuncType(params=tuple() as params):
            return FuncType(tuple(map(get_static_type, params)), get_static_type(ty.ret), ty.pure)
        case _:
            return ty


def erase_to_well_defined(
    ty: Type,
    shape_var_map: Mapping[SymbolicVar, Dim] | None = None,
    var_map: Mapping[Var, Expr] | None = None,
) -> Type:
    """A type as far as it can be said by the sizes and variables that the maps know.

    These are replaced by what the maps say; a size of others is forgotten, and so are all sizes of
    a tensor that has one.
    """
    sizes, variables = shape_var_map or {}, var_map or {}
    known = erase(ty, sizes.keys(), variables.keys())
    if isinstance(known, TensorType) and isinstance(known.shape, Var):
        shape = variables[known.shape]
        known = TensorType(shape, known.dtype, known.ndim, known.vdevice)
    return substitute_type(known, sizes)


def derive_call_ret_type(func_ty: FuncType, call: Call, ctx: object = None) -> Type:
    """The type of a call's result by the type of the function; `call.op` does not count."""
    return call_type(replace(call, op=Var("function", func_ty), ty=None))


def tir_vars_in_type(ty: Type) -> list[SymbolicVar]:
    """The symbolic dimensions in a type."""
    return list(type_symbols(ty))


def definable_tir_vars_in_type(ty: Type) -> list[SymbolicVar]:
    """The symbolic dimensions that a value of a type tells."""
    return list(definable_symbols(ty))


def collect_non_negative_expressions(ty: Type) -> list[SymbolicExpr]:
    """The sizes in a type that are no numbers, each once."""
    return list(dict.fromkeys(_sizes(ty)))


def defined_symbolic_vars(func: Function) -> list[SymbolicVar]:
    """The symbolic dimensions that the parameters and the match_casts of a function tell."""
    casts = [binding.ty for binding in nested_bindings(func) if isinstance(binding, MatchCast)]
    types = [*(param.ty for param in func.params), *casts]
    return list(dict.fromkeys(var for ty in types for var in definable_symbols(ty)))


def free_symbolic_vars(func: Function) -> list[SymbolicVar]:
    """The symbolic dimensions of a function that it does not define."""
    defined = set(defined_symbolic_vars(func))
    used = (*expr_symbols(func), *type_symbols(func.ret_ty))
    return [var for var in dict.fromkeys(used) if var not in defined]


def _sizes(ty: Type) -> Iterator[SymbolicExpr]:
    match ty:
        case TensorType(shape=tuple() as dims) | ShapeType(values=tuple() as dims):
            yield from (dim for dim in dims if isinstance(dim, SymbolicExpr))
        case TupleType(fields=fields):
            for item in fields:
                yield from _sizes(item)
