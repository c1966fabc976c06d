"""What is wrong with a program, and how a person is shown it."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from .expr import Expr
from .function import Function, If, MatchCast, SeqExpr, VarBinding
from .module import IRModule
from .node import Node
from .printer import print_lines
from .span import Span, excerpt_of
from .wording import counted

RULES = {
    1: "a variable or function is defined before it is used, and once",
    2: "the `global_symbol` of a function is its name in the module",
    3: "a variable is a parameter of one function only",
    4: "a dataflow variable stays in its own dataflow block",
    5: "what a branch defines stays in it",
    6: "a sequence is the body of a function or a branch, and nothing else",
    7: "arguments are leaves, or tuples of leaves (A-normal form)",
    8: "every expression has a type",
    9: "no choice stands in a dataflow block",
    10: "a pure function or dataflow block holds no impure call",
    11: "an operator is called as it is declared",
    12: "a symbolic dimension is defined before it is used",
    13: "a value fits the type of the place where it goes",
    14: "a function is called with the type that it has in the module",
}

OF_VALUES, OF_BLOCKS = (1, 5), 4  # those that say which variables can be used where

_MAX_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Fault:
    """One breach of a rule.

    `rule` is a key of `RULES`; `function` names the function of the module, and `part` is the
    binding at fault, or the function or the sequence whose signature or result is. `span` is the
    place in the user's own text, where it is known.
    """

    rule: int
    message: str
    function: str
    part: Node
    span: Span | None = None

    @property
    def binding(self) -> VarBinding | MatchCast | None:
        """The binding at fault, None where a signature or a result is."""
        return self.part if isinstance(self.part, VarBinding | MatchCast) else None

    def __str__(self) -> str:
        return f"in `{self.function}`: {self.message} (rule {self.rule}: {RULES[self.rule]})"


class WellFormedError(ValueError):
    """A program breaks the rules of the IR; `faults` are all places where it does."""

    def __init__(self, program: IRModule | Function, faults: Sequence[Fault]) -> None:
        super().__init__(_report(program, faults))
        self.program = program
        self.faults = tuple(faults)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return WellFormedError, (self.program, self.faults)


def _report(program: IRModule | Function, faults: Sequence[Fault]) -> str:
    noun = "module" if isinstance(program, IRModule) else "function"
    count = counted(len(faults), "fault")
    lines, places = _printed(program)
    parts = [f"the {noun} is not well-formed: {count}"]
    for number, fault in enumerate(faults[:_MAX_SHOWN], start=1):
        place = places.get(id(fault.part))
        excerpt = "" if place is None else f"\n{_excerpt(lines, place)}"
        location = excerpt_of(fault.span)
        parts.append(f"{number}. {fault}{excerpt}{location}")
    if len(faults) > _MAX_SHOWN:
        parts.append(f"and {len(faults) - _MAX_SHOWN} more")
    return "\n\n".join(parts)


def _printed(program: IRModule | Function) -> tuple[list[str], dict[int, int]]:
    try:
        return print_lines(program, show_meta=False)
    except Exception:
        # A program may be too broken to print: what is wrong with it must be said all the same.
        return [], {}


def _excerpt(lines: Sequence[str], place: int) -> str:
    """The line at fault between its neighbours, with a mark before it."""
    first = max(0, place - 1)
    around = textwrap.dedent("\n".join(lines[first : place + 2])).split("\n")
    marks = (">" if first + index == place else " " for index in range(len(around)))
    return "\n".join(f"  {mark} {line}".rstrip() for mark, line in zip(marks, around, strict=True))


def span_of(*nodes: Node | None) -> Span | None:
    """The place of the first node that knows its own."""
    return next((node.span for node in nodes if node is not None and node.span), None)


def described(expr: Expr) -> str:
    """What an expression is, as a message names it: its text where that is short."""
    match expr:
        case SeqExpr():
            return "a sequence"
        case If():
            return "a choice between branches"
        case Function():
            return "a function"
        case _:
            return f"`{expr!r}`"
