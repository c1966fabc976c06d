"""The rewriter: rules are tried on every binding, and again only where they may find more.

It works on one draft of the function. The draft notes what each try has looked at: the values of
variables, and how often they are used. A binding is tried again when one of these has changed, so
that the end is the fixed point of all rules, whatever they look at.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from math import inf
from operator import attrgetter
from typing import NamedTuple

from .builder import BlockBuilder
from .draft import Draft
from .expr import Call, Constant, DataflowVar, Expr, Tuple, TupleGetItem, Var
from .function import Binding, BindingBlock, DataflowBlock, Function, SeqExpr, VarBinding
from .infer import is_pure_call
from .lattice import Fit, fits
from .node import replace
from .span import located
from .types import ShapeType
from .uses import direct_uses
from .walk import (
    all_vars,
    free_vars,
    kept,
    map_children,
    names_of_vars,
    nested_bindings,
    nested_sequences,
    post_order,
)


class Written(NamedTuple):
    """What a rule writes instead of a value, and the rule's name."""

    rule: str
    value: Expr


class Rewrite(NamedTuple):
    """That a rule has rewritten what a variable is bound to."""

    rule: str
    var: Var
    before: Expr
    after: Expr


# Where rewrites are to be told, the list of those that were made.
REWRITES: ContextVar[list[Rewrite] | None] = ContextVar("rewrites", default=None)


class Rules(ABC):
    """What rewrites values: a table of laws, or of patterns."""

    # Whether a variable may go for another or a constant wherever it is used, or only where its
    # dataflow block alone sees it, and for another variable.
    renames_outputs = True

    @abstractmethod
    def concern(self, value: Expr) -> bool:
        """Whether a rule looks at such values."""

    @abstractmethod
    def written(self, value: Expr, known: "Draft") -> Written | None:
        """What is to stand instead of a value, None where it stays."""

    def wrote(self, origin: Binding) -> None:  # noqa: B027  # most rules come to an end
        """Learn that a binding of the function, or what has come of it, was rewritten."""

    def unknown(self, var: Var, why: str) -> None:  # noqa: B027  # laws use what they have found
        """Learn that a rule's result uses a variable that no place of its value could use."""


def fixed_point(function: Function, rules: Rules) -> Function:
    """`function` with what rules make of its values, until they make no more of them.

    What is nested in a result is bound to variables of its own, before the binding that is
    rewritten. A variable that becomes another name of a value is replaced by that, and what this
    leaves unused goes. Where no rule applies the result is the very function.
    """
    if not any(rules.concern(binding.value) for binding in nested_bindings(function)):
        return function
    return _Rewriting(function, rules).end()


# Values in which there are no sequences.
_PLAIN = (Call, Tuple, TupleGetItem, Var, Constant)


@dataclass(eq=False)
class _Slot:
    """A place for a binding, which stays where it is whatever comes to stand in it.

    `path` orders the slots of a function: what is made for a binding has its path and one more
    number, and comes before it.
    """

    var: Var | None  # whose binding stands in it
    block: BindingBlock
    path: tuple[int, ...]
    made: int = 0

    @property
    def order(self) -> tuple[float, ...]:
        return (*self.path, inf)


class _Scopes:
    """Which sequence a block is in, and which binding holds that, if it is not the function's."""

    def __init__(self, function: Function) -> None:
        self.sequences: dict[int, int] = {}
        self.holders: dict[int, Binding] = {}
        for seq in nested_sequences(function):
            for block in seq.blocks:
                self.sequences[id(block)] = id(seq)
            for binding in seq.bindings():
                if not isinstance(binding.value, _PLAIN):
                    # What is nested deeper is noted again, by the binding that is nearest to it.
                    inside = nested_sequences(binding.value)
                    self.holders |= {id(inner): binding for inner in inside}

    def sequence(self, block: BindingBlock) -> int:
        return self.sequences[id(block)]


class _Rewriting:
    """The worklist, and the draft that it works on.

    Each round takes the last bindings first: so a rule for something large is tried while its parts
    are still as they were written. What is to be tried again is so in the next round, once.
    """

    def __init__(self, function: Function, rules: Rules) -> None:
        self.function = function
        self.rules = rules
        self.known = Draft.of(function)
        self.builder = BlockBuilder()
        self.slots: dict[Var, _Slot] = {}
        self.contents: dict[int, list[_Slot]] = {}  # of blocks, by their identities
        self.watchers: dict[Var, set[Var]] = {}  # whose rules asked about a variable
        self.round = 0
        self.waiting: list[tuple[int, tuple[float, ...], int, Var]] = []
        self.serial = count()  # so that no two on the list are compared by themselves
        self.pending: set[Var] = set()
        self.origins = tuple(self.known.bindings.values())
        for place, binding in enumerate(self.origins):
            self.enter(_Slot(binding.var, self.known.blocks[binding.var], (place,)), binding.var)

    @cached_property
    def scopes(self) -> _Scopes:
        """Those of the function as it was; nobody asks where no rule applies."""
        return _Scopes(self.function)

    def end(self) -> Function:
        """The function that is left when no rule applies any more."""
        changed = False
        with self.builder.scope(taken=names_of_vars(self.function)):
            while self.waiting:
                number, *_, var = heappop(self.waiting)
                self.round = number + 1
                self.pending.discard(var)
                if var in self.known.bindings:
                    changed |= self.tried(self.known.binding(var))
        if not changed:
            return self.function
        return replace(self.function, body=self.current(self.function.body))

    def enter(self, slot: _Slot, var: Var) -> None:
        """Add the slot of a variable that the draft knows of, and put that on the list."""
        self.slots[var] = slot
        self.contents.setdefault(id(slot.block), []).append(slot)
        self.push(var)

    def push(self, var: Var) -> None:
        """Have the rules tried on what a variable is bound to."""
        value = self.known.values.get(var)
        if var not in self.pending and value is not None and self.rules.concern(value):
            self.pending.add(var)
            place = tuple(-number for number in self.slots[var].order)
            heappush(self.waiting, (self.round, place, next(self.serial), var))

    def touch(self, var: Var) -> None:
        """Have the rules tried again wherever they have asked about a variable."""
        for other in self.watchers.pop(var, ()):
            self.push(other)

    def tried(self, binding: Binding) -> bool:
        """Whether a rule rewrites a binding."""
        var = binding.var
        self.known.asked = set()
        with located(binding.span):
            written = self.rules.written(binding.value, self.known)
        for asked in self.known.asked:
            self.watchers.setdefault(asked, set()).add(var)
        slot = self.slots[var]
        if written is None or not self.sees_all(slot, written.value):
            return False
        self.rules.wrote(self.origins[slot.path[0]])
        told = REWRITES.get()
        if told is not None:
            told.append(Rewrite(written.rule, var, binding.value, written.value))
        *made, last = self.normal(replace(binding, value=written.value))
        used = self.known.unbind(var)
        for one in made:
            self.known.bind(one, slot.block, direct_uses(one.value))
            self.enter(_Slot(one.var, slot.block, (*slot.path, slot.made)), one.var)
            slot.made += 1
        self.settle(slot, last)
        self.less_used(used)
        return True

    def sees_all(self, slot: _Slot, value: Expr) -> bool:
        """Whether a value can stand in a slot: blocks and branches hide what they bind."""
        unseen = [var for var in free_vars(value) if not self.sees(slot, var)]
        for var in unseen:
            own = self.slots.get(var)
            if own is None and var not in all_vars(self.function):
                self.rules.unknown(var, "which the function does not have")
            elif own is not None and var not in self.known.bindings:
                self.rules.unknown(var, "which a rewrite before has replaced or left unused")
            elif own is not None and own.order >= slot.order:
                self.rules.unknown(var, "which is not bound before it")
        return not unseen

    def sees(self, slot: _Slot, var: Var) -> bool:
        """Whether a variable can be used in a slot."""
        at, own = slot, self.slots.get(var)
        if own is not None and var not in self.known.bindings:
            return False  # it is gone
        while own is None or self.scopes.sequence(own.block) != self.scopes.sequence(at.block):
            holder = self.scopes.holders.get(self.scopes.sequence(at.block))
            if holder is None:
                return var in self.function.params
            if isinstance(holder.value, Function) and var in holder.value.params:
                return True
            at = self.slots[holder.var]
        if own is at:  # a closure may call itself
            return at is not slot and isinstance(self.known.bindings[var].value, Function)
        return own.order < at.order and (own.block is at.block or not isinstance(var, DataflowVar))

    def normal(self, binding: Binding) -> list[Binding]:
        """A binding of a new value, and before it those of what is nested in that."""
        block = self.slots[binding.var].block
        with self.builder.scope():
            dataflow = isinstance(block, DataflowBlock)
            with (
                self.builder.dataflow(block.span) if dataflow else nullcontext(),
                self.builder.origin(binding.span, binding.derived_from),
            ):
                self.builder.emit_binding(binding)
            return list(self.builder.sequence(()).bindings())

    def settle(self, slot: _Slot, binding: Binding) -> None:
        """Put a new binding into its slot, or let go a variable that it only gives a name to."""
        var, value = binding.var, binding.value
        is_output = isinstance(slot.block, DataflowBlock) and not isinstance(var, DataflowVar)
        stays = not isinstance(var, DataflowVar) or not isinstance(value, Var)
        if not _is_alias(binding) or (stays and not self.rules.renames_outputs):
            self.fill(slot, binding)
        elif not (is_output and isinstance(value, DataflowVar)):
            slot.var = None
            self.put(var, value)
        elif self.slots[value].block is slot.block and value.ty == var.ty:
            # The value is bound to the output itself, instead of a variable that the block hides.
            slot.var, source = None, self.known.binding(value)
            self.known.unbind(value)
            self.fill(self.slots[value], replace(source, var=var))
            self.put(value, var)
        else:
            self.fill(slot, binding)

    def fill(self, slot: _Slot, binding: Binding) -> None:
        slot.var = binding.var
        self.slots[binding.var] = slot
        self.known.bind(binding, slot.block, direct_uses(binding.value))
        self.push(binding.var)
        self.touch(binding.var)

    def put(self, var: Var, value: Expr) -> None:
        """Use a value wherever a variable is used, which is gone."""
        for user in self.known.rename(var, value):
            self.push(user)
            self.touch(user)
        self.touch(var)
        if isinstance(value, Var):
            self.touch(value)

    def less_used(self, variables: Iterable[Var]) -> None:
        """Note that variables have fewer uses; a pure value without any goes."""
        waiting = list(dict.fromkeys(variables))
        while waiting:
            var = waiting.pop()
            self.touch(var)
            binding = self.known.bindings.get(var)
            if binding is not None and not self.known.counts.get(var) and _may_go(binding):
                waiting += self.dropped(binding)

    def dropped(self, binding: Binding) -> list[Var]:
        """Let a binding go, with all that is nested in it; what it used."""
        self.slots[binding.var].var = None
        used = self.known.unbind(binding.var)
        for seq in nested_sequences(binding.value):
            inside = (slot for block in seq.blocks for slot in self.contents.get(id(block), ()))
            for slot in inside:
                if slot.var is not None:
                    used += self.known.unbind(slot.var)
                    slot.var = None
            for var in direct_uses(self.known.current(seq.body)):
                self.known.counts[var] -= 1
                used.append(var)
        return used

    def current(self, expr: Expr) -> Expr:
        """An expression with its sequences as the slots have them now."""
        if not isinstance(expr, SeqExpr):
            return map_children(expr, self.current)
        blocks = kept(expr.blocks, map(self.current_block, expr.blocks))
        return replace(expr, blocks=blocks, body=self.known.current(expr.body))

    def current_block(self, block: BindingBlock) -> BindingBlock:
        slots = sorted(self.contents.get(id(block), ()), key=attrgetter("order"))
        bindings = (self.known.binding(slot.var) for slot in slots if slot.var is not None)
        return replace(block, bindings=kept(block.bindings, map(self.current_binding, bindings)))

    def current_binding(self, binding: Binding) -> Binding:
        plain = isinstance(binding.value, _PLAIN)
        return binding if plain else replace(binding, value=self.current(binding.value))


def _is_alias(binding: Binding) -> bool:
    """Whether the variable of a binding may be forgotten for its value.

    Shapes keep all their names: types may be written with them. So do values whose own type does
    not prove the declared one, which is checked where the program runs.
    """
    var, value = binding.var, binding.value
    if not isinstance(value, Var | Constant) or isinstance(var.ty, ShapeType):
        return False
    return fits(value.ty, var.ty) is not Fit.MAYBE


def _may_go(binding: Binding) -> bool:
    """Whether a binding may go when nothing uses its variable; types may be written with shapes."""
    if not isinstance(binding, VarBinding) or isinstance(binding.var.ty, ShapeType):
        return False
    inside = () if isinstance(binding.value, Function) else post_order(binding.value)
    return all(is_pure_call(item) for item in inside if isinstance(item, Call))
