"""Rules written as two functions: what `pattern` computes, `replacement` computes otherwise."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.ir.expr import Call, Expr, GlobalVar, PrimExpr, ShapeExpr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function, MatchCast
from relaxjax.ir.infer import infer, unify
from relaxjax.ir.lattice import Fit, erase, fits
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.renew import substitute_symbols
from relaxjax.ir.types import ObjectType, Type
from relaxjax.ir.walk import (
    definable_symbols,
    global_vars,
    map_children,
    post_order,
    rewrite,
    substitute_type,
    value_symbols,
)
from relaxjax.ir.wording import quoted

from .leaves import ExprPattern, PrimArrPattern, WildcardPattern
from .pattern import DFPattern, SizedPattern
from .rewrite import Matched
from .structures import TupleGetItemPattern, TuplePattern


@dataclass(frozen=True)
class Replacement:
    """What a rule puts in the place of a value that its pattern fits: a function of the parameters.

    `helpers` are the functions that it calls. They go with it into the module that is rewritten.
    """

    before: Function
    after: Function
    params: tuple[DFPattern, ...]
    helpers: Mapping[str, Function] = field(default_factory=dict)

    def __call__(self, expr: Expr, found: Matched) -> Expr:
        args = [found[param] for param in self.params]
        known = _dims(self.after, args)
        if known is None or not _agree(self.before, args):
            return expr
        return _applied(substitute_symbols(self.after, known), args)

    def renamed(self, names: Mapping[str, str]) -> "Replacement":
        """This, with its helpers under other names."""
        after = _calling(self.after, names)
        helpers = {names[name]: _calling(f, names) for name, f in self.helpers.items()}
        return Replacement(self.before, after, self.params, helpers)


def written_rule(mod: IRModule) -> tuple[DFPattern, Replacement]:
    """The pattern of a module of `pattern` and `replacement`, and what it is replaced by."""
    before, after = _function(mod, "pattern"), _function(mod, "replacement")
    _check_params(before.params, after.params)
    if any(isinstance(binding, MatchCast) for binding in after.body.bindings()):
        raise ValueError("a match_cast cannot be a part of a replacement")
    params = tuple(_parameter(param.ty) for param in before.params)
    return _pattern(before, params), Replacement(before, after, params, _helpers(mod))


def _check_params(before: Sequence[Var], after: Sequence[Var]) -> None:
    """Raise where the two functions do not take the same: what one gets goes to the other."""
    if len(before) != len(after):
        raise ValueError(
            "`pattern` and `replacement` must have the same parameters, found "
            f"{len(before)} and {len(after)}"
        )
    first, second = ([param.name for param in params] for params in (before, after))
    if first != second and sorted(first) == sorted(second):
        raise ValueError(
            f"`pattern` takes {quoted(first)}, but `replacement` {quoted(second)}: parameters "
            "correspond by their places, so write them in one order"
        )
    for one, other in zip(before, after, strict=True):
        if fits(erase(one.ty or ObjectType()), erase(other.ty or ObjectType())) is Fit.NEVER:
            raise ValueError(
                f"`pattern` takes `{one.name}` as {one.ty}, but `replacement` takes "
                f"`{other.name}` in its place as {other.ty}: give both the same type"
            )


def _function(mod: IRModule, name: str) -> Function:
    function = mod[name]
    if not isinstance(function, Function):
        raise TypeError(f"`{name}` must be a Relax function")
    return function


def _helpers(mod: IRModule) -> dict[str, Function]:
    names = [name for name in mod.relax_functions() if name not in ("pattern", "replacement")]
    for name in names:
        if "global_symbol" in mod[name].attrs:
            raise ValueError(
                f"`{name}` is public, but a rule has two public functions, `pattern` and "
                "`replacement`: declare what they call with @R.function(private=True)"
            )
    return {name: mod[name] for name in names}


def _parameter(ty: Type | None) -> DFPattern:
    """What may stand for a parameter: a value of its type, whatever its symbolic dimensions are."""
    if ty is None:
        return WildcardPattern()
    return SizedPattern(WildcardPattern().has_ty(erase(ty)), ty)


def _pattern(function: Function, params: Sequence[DFPattern]) -> DFPattern:
    known: dict[Var, DFPattern] = dict(zip(function.params, params, strict=True))
    for binding in function.body.bindings():
        if isinstance(binding, MatchCast):
            raise ValueError("a match_cast cannot be a part of a pattern")
        known[binding.var] = _pattern_of(binding.value, known)
    pattern = _pattern_of(function.body.body, known)
    if isinstance(pattern, TuplePattern):
        raise ValueError("`pattern` must return one value: write rewrite_bindings for several")
    return pattern


def _pattern_of(expr: Expr, known: Mapping[Var, DFPattern]) -> DFPattern:
    match expr:
        case Var():
            return known[expr]
        case Call(op=op, args=args, attrs=attrs):
            pattern = ExprPattern(op)(*(_pattern_of(arg, known) for arg in args))
            return pattern.has_attr(attrs) if attrs else pattern
        case Tuple(fields=fields):
            return TuplePattern(tuple(_pattern_of(field, known) for field in fields))
        case TupleGetItem(tuple_value=value, index=index):
            return TupleGetItemPattern(_pattern_of(value, known), index)
        case ShapeExpr(values=values):
            return PrimArrPattern(values)
        case _:
            return ExprPattern(expr)


def _dims(function: Function, args: Sequence[Expr]) -> dict[SymbolicVar, Dim] | None:
    """What the dimensions of a function are at some arguments; None where one is not known."""
    known: dict[SymbolicVar, Dim] = {}
    for param, arg in zip(function.params, args, strict=True):
        unify(param.ty or ObjectType(), arg.ty, known)
    own = {symbol for param in function.params for symbol in definable_symbols(param.ty)}
    return known if known.keys() >= own & set(_written(function)) else None


def _written(function: Function) -> Iterator[SymbolicVar]:
    """The symbolic dimensions that stand in the expressions of a function, not in their types."""
    for expr in post_order(function):
        match expr:
            case ShapeExpr(values=value) | PrimExpr(value=value):
                yield from value_symbols(value)
            case Call():
                yield from value_symbols((*expr.attrs.values(), *expr.ty_args))


def _agree(function: Function, args: Sequence[Expr]) -> bool:
    """Whether dimensions of one name in the parameters are the same in the arguments."""
    known: dict[SymbolicVar, Dim] = {}
    types = [param.ty or ObjectType() for param in function.params]
    for ty, arg in zip(types, args, strict=True):
        unify(ty, arg.ty, known)
    expected = [substitute_type(erase(ty, known.keys()), known) for ty in types]
    return all(fits(arg.ty, ty) is Fit.ALWAYS for arg, ty in zip(args, expected, strict=True))


def _applied(function: Expr, args: Sequence[Expr]) -> Expr:
    """The value of a function's body at some arguments, typed for them."""
    assert isinstance(function, Function)
    known: dict[Var, Expr] = dict(zip(function.params, args, strict=True))

    def at(expr: Expr) -> Expr:
        if isinstance(expr, Var):
            return known[expr]
        changed = map_children(expr, at)
        return infer(replace(changed, ty=None)) if isinstance(changed, Call) else changed

    for binding in function.body.bindings():
        known[binding.var] = at(binding.value)
    return at(function.body.body)


def _calling(function: Function, names: Mapping[str, str]) -> Function:
    """A function that calls others by other names."""

    def rule(expr: Expr) -> Expr:
        if isinstance(expr, GlobalVar) and expr.name in names:
            return replace(expr, name=names[expr.name])
        return expr

    return rewrite(function, rule)


def called(functions: Mapping[str, Function], roots: Sequence[Function]) -> dict[str, Function]:
    """Those of some functions that others call, directly or not."""
    found: dict[str, Function] = {}
    waiting = list(roots)
    while waiting:
        for var in global_vars(waiting.pop()):
            if var.name in functions and var.name not in found:
                found[var.name] = functions[var.name]
                waiting.append(functions[var.name])
    return found
