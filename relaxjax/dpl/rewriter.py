"""Rewriters as objects: a rule that is applied to functions and modules, and joined with others."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from relaxjax.ir.expr import Call, Expr, ShapeExpr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function, MatchCast
from relaxjax.ir.infer import infer
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.types import TensorType, Type
from relaxjax.ir.walk import map_children, type_symbols

from .leaves import ExprPattern, PrimArrPattern, WildcardPattern
from .pattern import DFPattern, TupleGetItemPattern, TuplePattern
from .rewrite import CallRewriter, Matched, rewritten

Program = TypeVar("Program", Function, IRModule)


class PatternMatchingRewriter:
    """Rules that rewrite what their patterns fit, in a function or all functions of a module."""

    def __init__(self, rules: Sequence[tuple[DFPattern, CallRewriter]]) -> None:
        self.rules = tuple(rules)

    @staticmethod
    def from_pattern(pattern: DFPattern, func: CallRewriter) -> "PatternMatchingRewriter":
        """The rule that `rewrite_call` would apply."""
        return PatternMatchingRewriter([(pattern, func)])

    @staticmethod
    def from_module(mod: IRModule) -> "PatternMatchingRewriter":
        """A rule written as two functions of the same parameters, `pattern` and `replacement`."""
        before, after = _function(mod, "pattern"), _function(mod, "replacement")
        if len(before.params) != len(after.params):
            raise ValueError(
                "`pattern` and `replacement` must have the same parameters, found "
                f"{len(before.params)} and {len(after.params)}"
            )
        params = [_parameter(param.ty) for param in before.params]
        pattern = _pattern(before, params)

        def rewriter(expr: Expr, found: Matched) -> Expr:
            return _replacement(after, [found[param] for param in params])

        return PatternMatchingRewriter([(pattern, rewriter)])

    def __call__(self, program: Program) -> Program:
        if isinstance(program, Function):
            return rewritten(self.rules, program)
        functions = program.relax_functions()
        return program.with_functions({n: rewritten(self.rules, f) for n, f in functions.items()})

    def __or__(self, other: "PatternMatchingRewriter") -> "PatternMatchingRewriter":
        """Both, each where it applies; where both do, this one."""
        return PatternMatchingRewriter([*self.rules, *other.rules])


class ExprPatternRewriter(PatternMatchingRewriter):
    """The rewriter of one pattern."""

    def __init__(self, pattern: DFPattern, func: CallRewriter) -> None:
        super().__init__([(pattern, func)])


def _function(mod: IRModule, name: str) -> Function:
    function = mod[name]
    if not isinstance(function, Function):
        raise TypeError(f"`{name}` must be a Relax function")
    return function


def _parameter(ty: Type | None) -> DFPattern:
    """What may stand for a parameter: a value of its type, whatever its symbolic dimensions are."""
    if isinstance(ty, TensorType) and type_symbols(ty):
        ty = TensorType(None, ty.dtype, ty.ndim)
    return WildcardPattern() if ty is None else WildcardPattern().has_ty(ty)


def _pattern(function: Function, params: Sequence[DFPattern]) -> DFPattern:
    known: dict[Var, DFPattern] = dict(zip(function.params, params, strict=True))
    for binding in function.body.bindings():
        if isinstance(binding, MatchCast):
            raise ValueError("a match_cast cannot be a part of a pattern")
        known[binding.var] = _pattern_of(binding.value, known)
    if isinstance(function.body.body, Tuple):
        raise ValueError("`pattern` must return one value: write rewrite_bindings for several")
    return _pattern_of(function.body.body, known)


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


def _replacement(function: Function, args: Sequence[Expr]) -> Expr:
    """The value of a function's body at some arguments, typed for them."""
    known: dict[Var, Expr] = dict(zip(function.params, args, strict=True))

    def at(expr: Expr) -> Expr:
        if isinstance(expr, Var):
            return known[expr]
        changed = map_children(expr, at)
        return infer(replace(changed, ty=None)) if isinstance(changed, Call) else changed

    for binding in function.body.bindings():
        known[binding.var] = at(binding.value)
    return at(function.body.body)
