"""Rewriting what patterns fit."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from relaxjax.ir.blocks import in_order
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.check import variable_faults
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.draft import Draft
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.function import Binding, BindingBlock, DataflowBlock, Function, If
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.module import check_function
from relaxjax.ir.node import replace
from relaxjax.ir.op import operator_name
from relaxjax.ir.rewriting import Rules, Written, fixed_point
from relaxjax.ir.span import located
from relaxjax.ir.types import Type
from relaxjax.ir.uses import Uses, values_of
from relaxjax.ir.walk import all_vars, map_blocks, map_children

from .context import PatternContext
from .matching import Matching, first
from .pattern import DFPattern

Matched: TypeAlias = dict[DFPattern, Expr]
CallRewriter = Callable[[Expr, Matched], Expr]
Rule: TypeAlias = tuple[DFPattern, CallRewriter]
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
    result is the very function. A value stays that would need what is hidden from it, in a dataflow
    block or a branch before; one that would need a variable not bound before it is an error.
    """
    check_function(func, "`rewrite_call`", f", or call {_OF_MODULES}(pattern, rewriter)(mod)")
    return rewrite_by([(pattern, rewriter)], func)


def rewrite_by(rules: Sequence[Rule], func: Function) -> Function:
    """`func` with each value replaced by the first of some rules that fits it, until none does."""
    changed = fixed_point(func, _PatternRules(rules))
    return func if changed is func else remove_all_unused(changed)


class _PatternRules(Rules):
    """Patterns with what rewrites the values that they fit, looked up by the operator of a value.

    Rewriters are given values as they are bound, and so may give them back inside of others:
    there they are the variables that they are bound to.
    """

    renames_outputs = False

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        for pattern, rewriter in self.rules:
            _check_rule(pattern, rewriter)
        self.counts = _Counts("rewrite_call")
        self._by_operator: dict[str | None, tuple[Rule, ...]] = {}

    def on(self, value: Expr) -> tuple[Rule, ...]:
        """The rules whose patterns may fit a value; behind a variable there may be any."""
        if isinstance(value, Var):
            return self.rules
        name = operator_name(value)
        if name not in self._by_operator:
            self._by_operator[name] = tuple(
                (pattern, rewriter)
                for pattern, rewriter in self.rules
                if (heads := pattern.heads()) is None or name in heads
            )
        return self._by_operator[name]

    def concern(self, value: Expr) -> bool:
        return not isinstance(value, If | Function) and bool(self.on(value))

    def written(self, value: Expr, known: Draft) -> Written | None:
        for pattern, rewriter in self.on(value):
            found = first(pattern.search(value, Matching(_Values(known))))
            if found is None:
                continue
            changed = rewriter(value, found.values())
            _check(changed, value.ty)
            changed = _by_name(changed, value, known.names)  # the same, spelt out, is no change
            if changed != value:
                return Written(_name(rewriter), changed)
        return None

    def wrote(self, origin: Binding) -> None:
        self.counts.add(origin)

    def unknown(self, var: Var, why: str) -> None:
        raise ValueError(
            f"the rewriter gives a value that uses `{var.name}`, {why}: a value can use what the "
            "patterns stand for, parameters, and what is bound before it"
        )


def _name(rewriter: CallRewriter) -> str:
    """What a rule is called: as its function is, if that has a name."""
    name = getattr(rewriter, "__name__", "")
    return name if name.isidentifier() else "pattern"


class _Values(Mapping[Var, Expr]):
    """What variables are bound to, as the draft tells it, which notes what it is asked."""

    def __init__(self, known: Draft) -> None:
        self.known = known

    def __getitem__(self, var: Var) -> Expr:
        value = self.known.value(var)
        if value is None:
            raise KeyError(var)
        return value

    def __contains__(self, var: object) -> bool:
        return isinstance(var, Var) and self.known.value(var) is not None

    def __iter__(self) -> Iterator[Var]:
        return iter(self.known.values)

    def __len__(self) -> int:
        return len(self.known.values)


class _Counts:
    """How often each binding was rewritten, with what comes of it."""

    def __init__(self, caller: str) -> None:
        self.caller = caller
        self.counts = Counter[Var]()

    def add(self, origin: Binding) -> None:
        self.counts[origin.var] += 1
        if self.counts[origin.var] > MOST_REWRITES:
            with located(origin.span):
                raise RecursionError(
                    f"{self.caller}: after {MOST_REWRITES} rewrites of `{origin.var.name}` and "
                    "of what came of it, the pattern still fits what the rewriter makes; let "
                    "it leave that as it is"
                )


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

    def change(block: BindingBlock) -> BindingBlock:
        if not isinstance(block, DataflowBlock):
            return block
        return _rewritten_block(ctx, rewriter, block, builder)

    with builder.scope(taken=[var.name for var in all_vars(func)]):
        changed = map_blocks(func, change)
    if changed is func:
        return func
    _check_visible(changed, func)
    return remove_all_unused(changed)


def _check_visible(changed: Function, func: Function) -> None:
    """Raise where new values use variables that are not to be seen where these stand."""
    known = {fault.message for fault in variable_faults(func, with_blocks=True)}
    for fault in variable_faults(changed, with_blocks=True):
        if fault.message not in known:
            raise ValueError(
                f"the rewriter gives a value for which {fault.message}: a value can use what the "
                "patterns stand for, parameters, and what the block or one before it binds"
            )


class _Origins:
    """What the bindings of a block come of."""

    def __init__(self, bindings: Iterable[Binding]) -> None:
        self.origins: dict[Var, Binding] = {binding.var: binding for binding in bindings}

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


def _rewritten_block(
    ctx: PatternContext, rewriter: BindingsRewriter, block: DataflowBlock, builder: BlockBuilder
) -> DataflowBlock:
    offered: set[_Offer] = set()
    counts, known = _Counts("rewrite_bindings"), _Origins(block.bindings)
    while changes := _block_changes(ctx, rewriter, block, offered):
        for var in changes:
            counts.add(known.origins[var])
        block = _replaced(block, changes, builder)
        known.follow(block.bindings)
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


def _check_rule(pattern: object, rewriter: object) -> None:
    if not isinstance(pattern, DFPattern) or not callable(rewriter):
        raise TypeError(
            'a rule is a pattern, such as is_op("relax.exp")(wildcard()), and a function '
            f"of the value and of what was found, but it is {pattern!r} and {rewriter!r}"
        )


def _are_by_variable(changes: object) -> bool:
    return isinstance(changes, Mapping) and all(isinstance(var, Var) for var in changes)


def _check_changes(changes: Mapping[Var, Expr], values: Mapping[Var, Expr]) -> None:
    """Raise where what a rewriter gives is for no binding of the block, or of no fitting type."""
    if not _are_by_variable(changes):
        raise TypeError(
            "the rewriter must give a dictionary from variables, such as found[pattern], to their "
            f"new values, found {changes!r}"
        )
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
