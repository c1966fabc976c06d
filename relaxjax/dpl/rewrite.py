"""Rewriting what patterns fit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from relaxjax.ir.blocks import in_order
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, DataflowVar, Expr, Var
from relaxjax.ir.function import Binding, DataflowBlock, Function, If, MatchCast, SeqExpr
from relaxjax.ir.infer import is_pure_call
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.module import check_function
from relaxjax.ir.node import replace
from relaxjax.ir.types import Type
from relaxjax.ir.walk import (
    all_vars,
    free_vars,
    kept,
    map_children,
    nested_sequences,
    rewrite,
    substitute,
)

from .context import PatternContext
from .matching import Matching, first
from .pattern import DFPattern

Matched: TypeAlias = dict[DFPattern, Expr]
CallRewriter = Callable[[Expr, Matched], Expr]
BindingsRewriter = Callable[[Matched, dict[Var, Expr]], Mapping[Var, Expr]]

_OF_MODULES = "PatternMatchingRewriter.from_pattern"

# A rewriter whose results match its own pattern never ends; no honest one comes near this.
MOST_REWRITES = 10_000


def get_var2val(function: Function) -> dict[Var, Expr]:
    """What each variable of a function, its branches and its closures is bound to."""
    check_function(function, "`get_var2val`")
    return {
        binding.var: binding.value
        for seq in nested_sequences(function)
        for binding in seq.bindings()
        if not isinstance(binding, MatchCast)
    }


def rewrite_call(pattern: DFPattern, rewriter: CallRewriter, func: Function) -> Function:
    """`func` with each value that the pattern fits replaced, until it fits none.

    The rewriter takes the value and what the patterns stand for, and gives another value, or the
    same one to leave it. What nothing needs any more is removed. Where nothing is replaced the
    result is the very function.
    """
    check_function(func, "`rewrite_call`", f", or call {_OF_MODULES}(pattern, rewriter)(mod)")
    return rewritten([(pattern, rewriter)], func)


def rewritten(rules: Sequence[tuple[DFPattern, CallRewriter]], func: Function) -> Function:
    """`func` with each value replaced by the first of some rules that fits it, until none does."""
    count = 0

    def rule(binding: Binding, builder: BlockBuilder) -> Expr | None:
        nonlocal count
        changed = None if isinstance(binding, MatchCast) else changes.get(binding.var)
        count += changed is not None
        if count > MOST_REWRITES:
            raise RecursionError(
                f"rewrite_call: after {MOST_REWRITES} rewrites the pattern still fits what the "
                "rewriter makes; let it return the value that it was given to leave it as it is"
            )
        return changed

    function = func
    while True:
        values = get_var2val(function)
        changes = _changes(rules, function, values)
        if not changes:
            return function
        aliases = {var: expr for var, expr in changes.items() if _is_alias(var, expr, values)}
        for var in aliases:
            del changes[var]
        function = _without(aliases, expand_bindings(function, rule))


def _is_alias(var: Var, expr: Expr, values: Mapping[Var, Expr]) -> bool:
    """Whether a variable may be forgotten for another: nothing sees it but its block."""
    value = values[var]
    pure = not isinstance(value, Call) or is_pure_call(value)
    return isinstance(var, DataflowVar) and isinstance(expr, Var) and pure


def _without(aliases: Mapping[Var, Expr], function: Function) -> Function:
    """`function` with other variables in the place of some, and without what that leaves unused."""

    def last(var: Var) -> Expr:
        expr = aliases[var]
        return last(expr) if isinstance(expr, Var) and expr in aliases else expr

    renamed = substitute(function, {var: last(var) for var in aliases})
    assert isinstance(renamed, Function)
    return remove_all_unused(renamed)


def _changes(
    rules: Sequence[tuple[DFPattern, CallRewriter]], function: Function, values: Mapping[Var, Expr]
) -> dict[Var, Expr]:
    """What is to stand in the place of values, where all that it needs can be seen there."""
    names = {id(value): var for var, value in values.items()}
    changes: dict[Var, Expr] = {}
    for binding, visible in _in_scope(function, set()):
        if binding.var not in values:
            continue
        changed = _changed(rules, binding.value, values, names)
        if changed is not binding.value and visible.issuperset(free_vars(changed)):
            changes[binding.var] = changed
    return changes


def _in_scope(function: Function, outer: set[Var]) -> Iterator[tuple[Binding, set[Var]]]:
    """Each binding, those in branches and closures too, with the variables that it can see."""
    yield from _in_sequence(function.body, outer | set(function.params))


def _in_sequence(seq: SeqExpr, outer: set[Var]) -> Iterator[tuple[Binding, set[Var]]]:
    visible = set(outer)
    for block in seq.blocks:
        for binding in block.bindings:
            match binding.value:
                case If(true_branch=true, false_branch=false):
                    yield from _in_sequence(true, visible)
                    yield from _in_sequence(false, visible)
                case Function() as closure:
                    yield from _in_scope(closure, visible | {binding.var})
                case _:
                    yield binding, visible
            visible.add(binding.var)
        visible -= {b.var for b in block.bindings if isinstance(b.var, DataflowVar)}


def _changed(
    rules: Sequence[tuple[DFPattern, CallRewriter]],
    value: Expr,
    values: Mapping[Var, Expr],
    names: Mapping[int, Var],
) -> Expr:
    """What the first rule that changes `value` makes of it; the very value where none does."""
    for pattern, rewriter in rules:
        found = first(pattern.search(value, Matching(values)))
        if found is None:
            continue
        changed = rewriter(value, found.values())
        _check(changed, value.ty)
        changed = _by_name(changed, value, names)  # the same, spelt out, is no change
        if changed != value:
            return changed
    return value


def _check(changed: object, ty: Type | None) -> None:
    if not isinstance(changed, Expr):
        raise TypeError(
            f"the rewriter must give an expression, found `{changed!r}`; "
            "to leave a value as it is, give back the one that it got"
        )
    if changed.ty is not None and fits(changed.ty, ty) is Fit.NEVER:
        raise TypeError(f"the rewriter gives {changed.ty} in the place of a value of type {ty}")


def _by_name(expr: Expr, itself: Expr, names: Mapping[int, Var]) -> Expr:
    """`expr` with the values that variables are bound to already written as those variables."""
    written: dict[int, Expr] = {}

    def visit(item: Expr) -> Expr:
        known = None if item is itself else names.get(id(item))
        if known is not None:
            return known  # what is inside has its place already
        if id(item) not in written:
            written[id(item)] = map_children(item, visit)
        return written[id(item)]

    return visit(expr)


def rewrite_bindings(ctx: PatternContext, rewriter: BindingsRewriter, func: Function) -> Function:
    """`func` with several bindings of a dataflow block replaced at once, wherever a graph fits.

    The rewriter takes the variables (or constants) that the patterns stand for, and the values of
    the block's variables; it gives new values for some of those, which may share what they need.
    The block is put in order again, and what nothing needs any more is removed.
    """
    check_function(func, "`rewrite_bindings`")
    builder = BlockBuilder()

    def rule(expr: Expr) -> Expr:
        if not isinstance(expr, SeqExpr):
            return expr
        blocks = (
            _rewritten_block(ctx, rewriter, block, builder)
            if isinstance(block, DataflowBlock)
            else block
            for block in expr.blocks
        )
        return replace(expr, blocks=kept(expr.blocks, blocks))

    with builder.scope(taken=[var.name for var in all_vars(func)]):
        changed = rewrite(func, rule)
    assert isinstance(changed, Function)
    return func if changed is func else remove_all_unused(changed)


def _rewritten_block(
    ctx: PatternContext, rewriter: BindingsRewriter, block: DataflowBlock, builder: BlockBuilder
) -> DataflowBlock:
    offered: set[frozenset[tuple[DFPattern, Expr]]] = set()
    while True:
        for matched in ctx.matches(block):
            key = frozenset((p, e) for p, e in matched.items() if isinstance(e, Var))
            if key in offered:
                continue
            offered.add(key)
            values = {binding.var: binding.value for binding in block.bindings}
            changes = rewriter(matched, values)
            if changes:
                block = _replaced(block, changes, builder)
                break
        else:
            return block
        if len(offered) > MOST_REWRITES:
            raise RecursionError(
                f"rewrite_bindings: after {MOST_REWRITES} rewrites the patterns still fit what the "
                "rewriter makes; let it return an empty dictionary to leave bindings as they are"
            )


def _replaced(
    block: DataflowBlock, changes: Mapping[Var, Expr], builder: BlockBuilder
) -> DataflowBlock:
    """A block with new values for some variables, put in an order that their uses allow."""
    own = {binding.var for binding in block.bindings}
    unknown = [var for var in changes if var not in own]
    if unknown:
        raise ValueError(
            f"the rewriter gives a value for `{unknown[0].name}`, which the block does not bind"
        )
    for var, value in changes.items():
        _check(value, var.ty)
    bindings = [replace(b, value=changes.get(b.var, b.value)) for b in block.bindings]
    with builder.scope():
        with builder.dataflow(block.span):
            for binding in in_order(bindings):
                builder.emit_binding(binding)
        (changed,) = builder.sequence(()).blocks
    return replace(block, bindings=changed.bindings)
