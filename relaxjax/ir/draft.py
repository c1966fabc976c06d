"""The draft of a function that the rewriter works on."""

from collections.abc import Iterable

from .expr import Expr, Var
from .function import Binding, BindingBlock, SeqExpr, VarBinding
from .node import replace
from .uses import Uses, direct_uses
from .walk import map_children


class Draft(Uses):
    """The view of a function that is rewritten; it notes which variables are asked about.

    A variable that is gone is replaced in the bindings that use it when these are next looked at:
    what is wide, such as a tuple, may use many of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[Var] = set()
        self.names: dict[int, Var] = {}  # of values, by their identities
        self.gone: dict[Var, Expr] = {}  # what stands for variables that are gone
        self.stale: set[Var] = set()  # whose bindings have such variables in them still

    def bind(self, binding: Binding, block: BindingBlock, used: Iterable[Var]) -> None:
        super().bind(binding, block, used)
        if isinstance(binding, VarBinding):
            self.names[id(binding.value)] = binding.var

    def unbind(self, var: Var) -> list[Var]:
        """Take a binding out; what it used."""
        used = direct_uses(self.binding(var).value)
        del self.bindings[var]
        self._forget(var)
        for other in used:
            self.counts[other] -= 1
            self.users[other].pop(var, None)
        return used

    def rename(self, var: Var, value: Expr) -> list[Var]:
        """Have a value stand for a variable, which is gone; whose bindings used that."""
        self.gone[var] = value
        users, uses = self.users.pop(var, {}), self.counts.pop(var, 0)
        if isinstance(value, Var):
            self.counts[value] = self.count(value) + uses
            known = self.users.setdefault(value, {})
            for user, times in users.items():
                known[user] = known.get(user, 0) + times
        self.stale |= users.keys()
        return list(users)

    def standing(self, var: Var) -> Expr:
        """What stands for a variable that may be gone."""
        value: Expr = var
        while isinstance(value, Var) and value in self.gone:
            value = self.gone[value]
        return value

    def current(self, expr: Expr) -> Expr:
        """An expression without variables that are gone, but for the sequences in it."""
        if isinstance(expr, Var):
            return self.standing(expr)
        return expr if isinstance(expr, SeqExpr) else map_children(expr, self.current)

    def binding(self, var: Var) -> Binding:
        if var in self.stale:
            self.stale.discard(var)
            self._forget(var)
            binding = self.bindings[var]
            changed = replace(binding, value=self.current(binding.value))
            self.bind(changed, self.blocks[var], ())
        return self.bindings[var]

    def value(self, expr: Expr) -> Expr | None:
        if not isinstance(expr, Var):
            return None
        self.asked.add(expr)
        if expr in self.stale:
            self.binding(expr)
        return self.values.get(expr)

    def count(self, var: Var) -> int:
        self.asked.add(var)
        return self.counts.get(var, 0)

    def users_of(self, expr: Expr) -> tuple[Var, ...]:
        if isinstance(expr, Var):
            self.asked.add(expr)
        return super().users_of(expr)

    def _forget(self, var: Var) -> None:
        value = self.values.pop(var, None)
        if self.names.get(id(value)) is var:
            del self.names[id(value)]
