"""Use-def: what variables are bound to, in which blocks, and by whom and how often they are used.

A pass that rewrites binding by binding keeps one view in step with its changes.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Self, TypeVar

from .expr import Call, DataflowVar, Expr, Var
from .function import Binding, BindingBlock, SeqExpr, VarBinding
from .op import Op
from .walk import children, free_vars, is_call_of_leaves, nested_sequences, post_order, used_vars

E = TypeVar("E", bound=Expr)


class Uses:
    """The use-def view of a function.

    `values` leads from variables to what they are bound to, casts excepted; `bindings` and `blocks`
    have the casts too. `users` are the variables of the bindings that use a variable, each with how
    often. `counts` has all uses, those in the results of sequences as well.
    """

    def __init__(self) -> None:
        self.bindings: dict[Var, Binding] = {}
        self.values: dict[Var, Expr] = {}
        self.blocks: dict[Var, BindingBlock] = {}
        self.users: dict[Var, dict[Var, int]] = {}
        self.counts: dict[Var, int] = {}
        # Of sets of variables, which others are known to depend on nothing else, or on more.
        self._following: dict[frozenset[Var], dict[Var, bool]] = {}

    @classmethod
    def of(cls, function: Expr) -> Self:
        """The view of a function, its branches and closures.

        What uses a variable inside of these is the innermost binding there.
        """
        known = cls()
        for seq in nested_sequences(function):
            for block in seq.blocks:
                for binding in block.bindings:
                    known.bind(binding, block, direct_uses(binding.value))
            known.add_result(seq.body)
        return known

    @classmethod
    def of_block(cls, block: BindingBlock) -> Self:
        """The view of one block by itself, to which what a closure uses is used by its binding."""
        known = cls()
        for binding in block.bindings:
            inside = (item for item in post_order(binding.value) if isinstance(item, Var))
            known.bind(binding, block, inside)
        return known

    def bind(self, binding: Binding, block: BindingBlock, used: Iterable[Var]) -> None:
        """Enter a binding of a block, and the uses of variables in it."""
        var = binding.var
        self.bindings[var] = binding
        self.blocks[var] = block
        if isinstance(binding, VarBinding):
            self.values[var] = binding.value
        for other in used:
            self.counts[other] = self.counts.get(other, 0) + 1
            users = self.users.setdefault(other, {})
            users[var] = users.get(var, 0) + 1

    def add_result(self, result: Expr) -> None:
        """Count the uses in the result of a sequence."""
        for var in direct_uses(result):
            self.counts[var] = self.counts.get(var, 0) + 1

    def binding(self, var: Var) -> Binding:
        """The binding of a variable that has one."""
        return self.bindings[var]

    def value(self, expr: Expr) -> Expr | None:
        """What a variable is bound to, None for a parameter, a cast and any other expression."""
        return self.values.get(expr) if isinstance(expr, Var) else None

    def count(self, var: Var) -> int:
        """How often a variable is used."""
        return self.counts.get(var, 0)

    def used_once(self, expr: Expr) -> bool:
        return isinstance(expr, Var) and self.count(expr) == 1

    def users_of(self, expr: Expr) -> tuple[Var, ...]:
        """The variables of the bindings that use a variable, in order, each once."""
        return tuple(self.users.get(expr, ())) if isinstance(expr, Var) else ()

    def call(self, expr: Expr, name: str = "") -> Call | None:
        """The operator's call that `expr` is bound to, where what it mentions is still visible."""
        value = self.value(expr)
        if not isinstance(value, Call) or not isinstance(value.op, Op):
            return None
        if name and value.op.name != name:
            return None
        if isinstance(expr, DataflowVar):
            return value
        return None if any(isinstance(var, DataflowVar) for var in used_vars(value)) else value

    def share_block(self, var: Var, other: Var) -> bool:
        return var in self.blocks and self.blocks[var] is self.blocks.get(other)

    def call_beside(self, expr: Expr, beside: Var) -> Call | None:
        """The operator's call that `expr` is bound to in the block of another variable."""
        if not isinstance(expr, Var) or not self.share_block(expr, beside):
            return None
        value = self.value(expr)
        return value if isinstance(value, Call) and isinstance(value.op, Op) else None

    def follows_from(self, value: Expr, variables: frozenset[Var]) -> bool:
        """Whether a value depends on some variables, and on nothing else."""
        if not variables:
            return False
        known = self._following.setdefault(variables, dict.fromkeys(variables, True))
        waiting = [var for var in free_vars(value) if var not in known]
        while waiting:
            var = waiting[-1]
            known.setdefault(var, False)  # a closure may call itself
            used = free_vars(self.binding(var).value) if var in self.bindings else None
            missing = [other for other in used or () if other not in known]
            if missing:
                waiting += missing
            else:
                known[waiting.pop()] = used is not None and all(known[other] for other in used)
        return all(known[var] for var in free_vars(value))


def count_uses(expr: Expr) -> dict[Var, int]:
    """How often each variable is used inside an expression."""
    return dict(Counter(item for item in post_order(expr) if isinstance(item, Var)))


def direct_uses(expr: Expr) -> list[Var]:
    """Each use of a variable in an expression, outside of the sequences in it, in order."""
    if is_call_of_leaves(expr):
        return [item for item in (expr.op, *expr.args) if isinstance(item, Var)]
    found: list[Var] = []
    waiting = [expr]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Var):
            found.append(item)
        elif not isinstance(item, SeqExpr):
            waiting += reversed(children(item))
    return found


def values_of(bindings: Iterable[Binding]) -> dict[Var, Expr]:
    """What bindings, casts too, give their variables: of a block, a sequence, or of more."""
    return {binding.var: binding.value for binding in bindings}


def values_of_kind(bindings: Iterable[Binding], kind: type[E]) -> dict[Var, E]:
    """What bindings give their variables, as far as it is of one kind, such as `Function`."""
    return {binding.var: binding.value for binding in bindings if isinstance(binding.value, kind)}
