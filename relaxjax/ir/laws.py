"""Laws: what a call of an operator is equal to. A table of them is looked up by the operator."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .expr import Call, Expr
from .op import Op, operator_of
from .rewriting import Rules, Written
from .uses import Uses

Write = Callable[[Call, Op, Uses], Expr | None]
Chosen = Callable[[Op], bool]


@dataclass(frozen=True, eq=False)
class Law:
    """One equality: of which operators it looks at calls, and what it writes instead of one.

    `write` is given a call, its operator and the use-def view around it, and gives an expression
    of the same value, or None where the law does not apply.
    """

    write: Write
    operators: frozenset[str]
    chosen: Chosen | None = None  # what else it looks at

    @property
    def name(self) -> str:
        return self.write.__name__

    def concerns(self, op: Op) -> bool:
        return op.name in self.operators or (self.chosen is not None and self.chosen(op))


def law(*operators: str, where: Chosen | None = None) -> Callable[[Write], Law]:
    """Make a function a law on calls of some operators, by their names or by what they say."""

    def made(write: Write) -> Law:
        return Law(write, frozenset(operators), where)

    return made


def says(*facts: str) -> Chosen:
    """The operators that say one of some facts of themselves."""
    return lambda op: any(op.facts.get(fact) is not None for fact in facts)


class Laws(Rules):
    """A table of laws: where several apply to a call, the first does."""

    def __init__(self, laws: Sequence[Law]) -> None:
        self.laws = tuple(laws)
        self._by_operator: dict[Op, tuple[Law, ...]] = {}

    def __iter__(self) -> Iterator[Law]:
        return iter(self.laws)

    def on(self, op: Op) -> tuple[Law, ...]:
        """The laws that look at calls of an operator."""
        found = self._by_operator.get(op)
        if found is None:
            found = tuple(one for one in self.laws if one.concerns(op))
            self._by_operator[op] = found
        return found

    def concern(self, value: Expr) -> bool:
        """Whether one of the laws looks at a value."""
        operator = operator_of(value)
        return operator is not None and bool(self.on(operator))

    def written(self, value: Expr, known: Uses) -> Written | None:
        """What the first law that applies makes of a value, None where none does."""
        if not isinstance(value, Call) or not isinstance(value.op, Op):
            return None
        for one in self.on(value.op):
            changed = one.write(value, value.op, known)
            if changed is not None:
                return Written(one.name, changed)
        return None
