"""The types of compound expressions: of calls by their callee, of branches, of sequences."""

from collections.abc import Iterable, Iterator, Sequence

from .dims import Dim, DimExpr, SymbolicVar
from .expr import Call, Expr, ExternFunc, Var
from .function import Function, If, MatchCast, SeqExpr
from .lattice import Fit, common_type, erase, fits
from .node import check_part, replace
from .op import Op, typed
from .types import FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type
from .walk import bound_vars, free_vars, nested_bindings, substitute_type, type_symbols, type_vars
from .wording import counted


def infer(expr: Expr) -> Expr:
    """`expr` with its type, inferred from the types of what is inside it."""
    if expr.ty is not None:
        return expr
    match expr:
        case Call():
            check_part("what is called", expr.op, Expr, "an operator or a function")
            for arg in expr.args:
                check_part(f"an argument of `{expr.op}`", arg, Expr, "an expression")
            return typed(expr) if isinstance(expr.op, Op) else replace(expr, ty=call_type(expr))
        case If():
            if not is_condition(expr.cond.ty):
                raise TypeError(
                    f"a condition is a scalar of dtype bool, but `{expr.cond}` is of type "
                    f"{expr.cond.ty}"
                )
            return replace(expr, ty=_branches_type(expr))
        case _:
            return expr


def call_type(call: Call) -> Type:
    """The result type of calling a function: its own, in terms of the caller's dimensions."""
    if isinstance(call.op, ExternFunc) and call.ty_args:
        return _stated_type(call)
    match call.op.ty:
        case FuncType(derive=derive) if derive is not None:
            return derive(call)
        case FuncType(params=None) as ty:
            return _stated_type(call) if call.ty_args else ty.ret
        case FuncType() as ty:
            return _derived_type(call, ty)
        case None | ObjectType():
            return _stated_type(call)
        case other:
            raise TypeError(f"`{call.op}` is called, but it is no function: its type is {other}")


def is_pure_call(call: Call) -> bool:
    """Whether calling has no effect but its value."""
    if isinstance(call.op, Op):
        return call.op.pure
    return isinstance(call.op.ty, FuncType) and call.op.ty.pure


def unify_dims(
    expected: tuple[Dim, ...], given: tuple[Dim, ...], found: dict[SymbolicVar, Dim]
) -> None:
    """Read symbolic variables of `expected` off `given`; the first value found is kept.

    They stand alone, or in a dimension such as `2 * n` that is the very same on both sides, as
    where a function within another one is called.
    """
    for want, have in zip(expected, given, strict=True):
        if isinstance(want, SymbolicVar):
            found.setdefault(want, have)
        elif want == have and (var := _told_variable(want)) is not None:
            found.setdefault(var, var)


def _told_variable(dim: Dim) -> SymbolicVar | None:
    """The variable of a dimension such as `2 * n + 3`, which has this size for one value alone."""
    if not isinstance(dim, DimExpr):
        return None
    match [monomial for monomial, _ in dim.terms if monomial]:
        case [((SymbolicVar() as var, 1),)]:
            return var
    return None


def dims_told(params: Iterable[Var], values: Iterable[Expr]) -> dict[SymbolicVar, Dim]:
    """The symbolic dimensions of parameters as the types of what is given for them tell them."""
    found: dict[SymbolicVar, Dim] = {}
    for param, value in zip(params, values, strict=True):
        if param.ty is not None:
            unify(param.ty, value.ty, found)
    return found


def unify(expected: Type, given: Type | None, found: dict[SymbolicVar, Dim]) -> None:
    """Read the values of the symbolic variables of a parameter's type off an argument's type."""
    match expected, given:
        case TensorType(shape=tuple() as want), TensorType(shape=tuple() as have):
            if len(want) == len(have):
                unify_dims(want, have, found)
        case ShapeType(values=tuple() as want), ShapeType(values=tuple() as have):
            if len(want) == len(have):
                unify_dims(want, have, found)
        case TupleType(fields=wanted), TupleType(fields=fields) if len(wanted) == len(fields):
            for item, field in zip(wanted, fields, strict=True):
                unify(item, field, found)


def _stated_type(call: Call) -> Type:
    if not call.ty_args:
        return ObjectType()
    return call.ty_args[0] if len(call.ty_args) == 1 else TupleType(call.ty_args)


def _derived_type(call: Call, ty: FuncType) -> Type:
    params = ty.params or ()
    if len(params) != len(call.args):
        raise TypeError(
            f"`{call.op}` takes {counted(len(params), 'argument')}, but {len(call.args)} were given"
        )
    found: dict[SymbolicVar, Dim] = {}
    for param, arg in zip(params, call.args, strict=True):
        unify(param, arg.ty, found)
    for index, (param, arg) in enumerate(zip(params, call.args, strict=True)):
        expected = substitute_type(param, found)
        if fits(arg.ty, expected) is Fit.NEVER:
            raise TypeError(
                f"argument {index + 1} of `{call.op}` must be of type {expected}, "
                f"but `{arg}` is of type {arg.ty}"
            )
    # What no parameter mentions is a dimension of the function around a closure: it stays.
    own = {symbol for param in params for symbol in type_symbols(param)}
    visible = set(type_symbols(ty.ret)) - (own - set(found))
    return substitute_type(erase(ty.ret, visible), found)


def is_condition(ty: Type | None) -> bool:
    """Whether a value of this type may say which branch is taken."""
    match ty:
        case TensorType(dtype="bool" | None, ndim=0 | -1) | PrimType("bool") | ObjectType() | None:
            return True
        case _:
            return False


def _branches_type(choice: If) -> Type:
    """What both branches have in common, as far as it can be said outside them."""
    branches = choice.true_branch.ty, choice.false_branch.ty
    return said_outside(common_type(*(ty or ObjectType() for ty in branches)), choice)


def said_outside(ty: Type, expr: Expr, params: Sequence[Var] = ()) -> Type:
    """A type as far as it can be said outside the expression that it is of.

    Dimensions that a match_cast inside defines are unknown there, unless a variable of outside or
    one of `params` has them too; all others belong to functions around.
    """
    symbols, variables = set(type_symbols(ty)), set(type_vars(ty))
    if not symbols and not variables:
        return ty
    outer = {symbol for var in (*free_vars(expr), *params) for symbol in type_symbols(var.ty)}
    inner = {
        symbol
        for binding in nested_bindings(expr)
        if isinstance(binding, MatchCast)
        for symbol in type_symbols(binding.ty)
    }
    return erase(ty, symbols - (inner - outer), variables - set(bound_vars(expr)))


def impure_call(function: Function) -> Call | None:
    """The first impure call of a function. Its closures answer for themselves."""
    return next(_impure_in(function.body), None)


def _impure_in(seq: SeqExpr) -> Iterator[Call]:
    for binding in seq.bindings():
        value = binding.value
        if isinstance(value, Call) and not is_pure_call(value):
            yield value
        if isinstance(value, If):
            yield from _impure_in(value.true_branch)
            yield from _impure_in(value.false_branch)
