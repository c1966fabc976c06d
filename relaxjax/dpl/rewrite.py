"""Rewriting what patterns fit."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from relaxjax.ir.span import located
from relaxjax.ir.types import Type
from relaxjax.ir.uses import Uses, values_of
from relaxjax.ir.walk import (
    all_vars,
    free_vars,
    kept,
    map_children,
    nested_bindings,
    rewrite,
    substitute,
)

from .context import PatternContext
from .matching import Matching, first
from .pattern import DFPattern

Matched: TypeAlias = dict[DFPattern, Expr]
CallRewriter = Callable[[Expr, Matched], Expr]
_Offer: TypeAlias = frozenset[tuple[DFPattern, Var]]
BindingsRewriter = Callable[[Matched, dict[Var, Expr]], Mapping[Var, Expr]]

_OF_MODULES = "PatternMatchingRewriter.from_pattern"

# So often may one binding be rewritten, with all that comes of it. A rewriter whose results match
# its own pattern never ends; no honest one comes near this.
MOST_REWRITES = 100


def get_var2val(function: Function) -> dict[Var, Expr]:
    """What each variable of a function, its branches and its closures is bound to."""
    check_function(function, "`get_var2val`")
    return Uses.of(function).values


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
    count = _Count("rewrite_call", nested_bindings(func))

    def rule(binding: Binding, builder: BlockBuilder) -> Expr | None:
        return None if isinstance(binding, MatchCast) else changes.get(binding.var)

    function = func
    while True:
        values = get_var2val(function)
        changes = _changes(rules, function, values)
        if not changes:
            return function
        aliases = {var: expr for var, expr in changes.items() if _is_alias(var, expr, values)}
        for var in aliases:
            del changes[var]
        count.add(changes)
        function = _without(aliases, expand_bindings(function, rule))
        count.follow(nested_bindings(function))


class _Count:
    """How often each binding of a function, or of a block, is rewritten with what comes of it."""

    def __init__(self, caller: str, bindings: Iterable[Binding]) -> None:
        self.caller = caller
        self.origins: dict[Var, Binding] = {binding.var: binding for binding in bindings}
        self.counts = Counter[Var]()

    def add(self, changes: Iterable[Var]) -> None:
        """Count a rewrite of what each of some variables is bound to."""
        for var in changes:
            origin = self.origins[var]
            self.counts[origin.var] += 1
            if self.counts[origin.var] > MOST_REWRITES:
                with located(origin.span):
                    raise RecursionError(
                        f"{self.caller}: after {MOST_REWRITES} rewrites of `{origin.var.name}` and "
                        "of what came of it, the pattern still fits what the rewriter makes; let "
                        "it leave that as it is"
                    )

    def follow(self, bindings: Iterable[Binding]) -> None:
        """Note what new bindings come of: they stand before the one that they are made for."""
        new: list[Var] = []
        origin: Binding | None = None
        for binding in bindings:
            new.append(binding.var)
            if binding.var in self.origins:
                origin = self.origins[binding.var]
                self.origins |= dict.fromkeys(new, origin)
                new = []
        if origin is not None:
            self.origins |= dict.fromkeys(new, origin)


def _is_alias(var: Var, expr: Expr, values: Mapping[Var, Expr]) -> bool:
    """Whether a variable may be forgotten for another: nothing sees it but its block."""
    value = values[var]
    pure = not isinstance(value, Call) or is_pure_call(value)
    return isinstance(var, DataflowVar) and isinstance(expr, Var) and pure


def _without(aliases: Mapping[Var, Expr], function: Function) -> Function:
    """`function` with other variables in the place of some, and without what that leaves unused."""

    last: dict[Var, Expr] = {}
    for var, expr in aliases.items():  # in order, so what it is another name for is known
        last[var] = last.get(expr, expr) if isinstance(expr, Var) else expr
    renamed = substitute(function, last)
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


def _in_scope(function: Function, visible: set[Var]) -> Iterator[tuple[Binding, set[Var]]]:
    """Each binding, those in branches and closures too, with the variables that it can see.

    The set is the same each time, and changes from one binding to the next.
    """
    own = set(function.params) - visible
    visible |= own
    yield from _in_sequence(function.body, visible)
    visible -= own


def _in_sequence(seq: SeqExpr, visible: set[Var]) -> Iterator[tuple[Binding, set[Var]]]:
    own: list[Var] = []
    for block in seq.blocks:
        for binding in block.bindings:
            match binding.value:
                case If(true_branch=true, false_branch=false):
                    yield from _in_sequence(true, visible)
                    yield from _in_sequence(false, visible)
                case Function() as closure:
                    visible.add(binding.var)
                    yield from _in_scope(closure, visible)
                case _:
                    yield binding, visible
            visible.add(binding.var)
            own.append(binding.var)
        visible -= {b.var for b in block.bindings if isinstance(b.var, DataflowVar)}
    visible -= set(own)


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
    offered: set[_Offer] = set()
    count = _Count("rewrite_bindings", block.bindings)
    while changes := _block_changes(ctx, rewriter, block, offered):
        count.add(changes)
        block = _replaced(block, changes, builder)
        count.follow(block.bindings)
    return block


def _block_changes(
    ctx: PatternContext, rewriter: BindingsRewriter, block: DataflowBlock, offered: set[_Offer]
) -> dict[Var, Expr]:
    """What is to change in a block: of all that fits, what has no binding in common.

    What was offered to the rewriter once is not offered again.
    """
    values = values_of(block.bindings)
    found: dict[Var, Expr] = {}
    touched: set[Var] = set()
    for matched in ctx.matches(block):
        key = frozenset((p, e) for p, e in matched.items() if isinstance(e, Var))
        own = {var for _, var in key if var in values}
        if key in offered or not touched.isdisjoint(own):
            continue
        offered.add(key)
        changes = rewriter(matched, values)
        if changes:
            _check_changes(changes, values)
            found |= changes
            touched |= {*own, *changes}
    return found


def _check_changes(changes: Mapping[Var, Expr], values: Mapping[Var, Expr]) -> None:
    """Raise where what a rewriter gives is for no binding of the block, or of no fitting type."""
    for var, value in changes.items():
        if var not in values:
            raise ValueError(
                f"the rewriter gives a value for `{var.name}`, which the block does not bind"
            )
        _check(value, var.ty)


def _replaced(
    block: DataflowBlock, changes: Mapping[Var, Expr], builder: BlockBuilder
) -> DataflowBlock:
    """A block with new values for some variables, put in an order that their uses allow."""
    bindings = [replace(b, value=changes.get(b.var, b.value)) for b in block.bindings]
    with builder.scope():
        with builder.dataflow(block.span):
            for binding in in_order(bindings):
                builder.emit_binding(binding)
        (changed,) = builder.sequence(()).blocks
    return replace(block, bindings=changed.bindings)
