"""What XLA's text of a compiled program says: its computations, instruction by instruction."""

import re
from dataclasses import dataclass

_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_NAMED = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$")
_CALLED = re.compile(
    r"(body|condition|calls|to_apply|branch_computations|true_computation|false_computation)="
    r"(\{[^}]*\}|%?[\w.\-]+)"
)
_NAME = re.compile(r"%([\w.\-]+)")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; `text` is all of it behind its shape."""

    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]
    text: str

    @property
    def calls(self) -> list[tuple[str, str]]:
        """The computations that it runs: in which way, such as `body`, and which."""
        return [
            (way, name)
            for way, names in _CALLED.findall(self.text)
            for name in re.findall(r"[\w.\-]+", names)
        ]


def computations_of(text: str) -> tuple[dict[str, list[Instruction]], str]:
    """The instructions of each computation, and the name of the one that is run."""
    found: dict[str, list[Instruction]] = {}
    current: list[Instruction] = []
    entry = ""
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head is not None:
            current = found.setdefault(head[2], [])
            entry = head[2] if head[1] else entry
            continue
        named = _NAMED.match(line)
        if named is not None:
            current.append(_instruction(named[1], named[2]))
    return found, entry


def _instruction(name: str, rest: str) -> Instruction:
    shape, rest = _shape_first(rest)
    opcode, _, arguments = rest.partition("(")
    inside = arguments[: _closing(arguments)]
    return Instruction(name, shape, opcode.strip(), tuple(_NAME.findall(inside)), rest)


def _shape_first(text: str) -> tuple[str, str]:
    """The shape that a text begins with, and what comes after it."""
    end = _closing(text[1:]) + 2 if text.startswith("(") else text.find(" ")
    return text[:end], text[end:].lstrip()


def _closing(text: str) -> int:
    """Where the parenthesis ends that was opened before a text."""
    depth = 1
    for at, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if not depth:
            return at
    return len(text)


def place_of(text: str) -> str:
    """Where in the program an instruction comes from, as the scopes name it that it is in."""
    found = re.search(r'op_name="([^"]*)"', text)
    return "" if found is None else found[1]
