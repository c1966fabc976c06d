"""What changed from one program to another: of each function, the lines that differ.

A variable that is only called otherwise is no change. Lines are matched where their text is the
same, and in the gaps between these where they are the same but for the names of variables.
"""

import html
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal, TypeAlias

from .expr import ExternFunc
from .function import Function
from .highlight import Style, painted
from .module import BaseFunc, IRModule, check_module
from .printer import print_lines
from .script_exprs import ScriptExprs
from .structural import structural_equal
from .wording import counted

Sign: TypeAlias = Literal["-", "+", " "]

_CONTEXT = 2  # lines around those that differ
_LEFT_OUT = "…"
_ATTRIBUTES = "attributes of the module"
_STYLES: dict[str, Style] = {"-": "red", "+": "green", "#": "bold", _LEFT_OUT: "faint"}
_BACKGROUNDS = {"-": "rgba(220,40,40,.18)", "+": "rgba(40,160,60,.18)"}

_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_BOUND = re.compile(r"(?:^\s*|[(,]\s?)([A-Za-z_]\w*)(?=: | = )")

Line: TypeAlias = tuple[Sign, str]
Pair: TypeAlias = tuple[str | None, str | None]  # lines that stand for each other


def diff(before: IRModule | Function, after: IRModule | Function) -> "ModuleDiff":
    """What changed from one module to another, or from one function to another.

        print(relaxjax.diff(mod, FoldConstant()(mod)))

    `.show()` prints it in colour on a terminal, and a notebook shows it as it is. It is false where
    nothing changed.
    """
    old, new = (
        IRModule.from_expr(one) if isinstance(one, Function) else check_module(one, "`diff`")
        for one in (before, after)
    )
    parts = [_diff_of(_ATTRIBUTES, _attributes(old), _attributes(new))]
    befores, afters = (
        {var.name: function for var, function in mod.functions.items()} for mod in (old, new)
    )
    names = sorted({*old, *new}, key=lambda name: (name == "main", name))  # as a module prints them
    parts += [_function_diff(name, befores.get(name), afters.get(name)) for name in names]
    return ModuleDiff(tuple(part for part in parts if part is not None))


@dataclass(frozen=True, slots=True)
class FunctionDiff:
    """What changed of one function: each hunk is the lines of one place, with their signs.

    `kind` is "new" or "removed" for a whole function. `note` says what no line shows.
    """

    name: str
    kind: Literal["new", "removed", "changed"]
    hunks: tuple[tuple[Line, ...], ...]
    note: str = ""

    @property
    def added(self) -> int:
        return self._count("+")

    @property
    def removed(self) -> int:
        return self._count("-")

    @property
    def title(self) -> str:
        """The name of the function, and how much of it changed."""
        if self.kind != "changed":
            return f"{self.name}: {self.kind}, {_lines(self.added or self.removed)}"
        counts = [
            f"{_lines(count)} {what}"
            for count, what in ((self.removed, "removed"), (self.added, "added"))
            if count
        ]
        return f"{self.name}: {', '.join(counts) or self.note}"

    def lines(self) -> Iterator[tuple[str, str]]:
        """Each line with its sign; the sign … stands where lines are left out."""
        for place, hunk in enumerate(self.hunks):
            if place:
                yield _LEFT_OUT, ""
            yield from hunk

    def _count(self, sign: Sign) -> int:
        return sum(each == sign for hunk in self.hunks for each, _ in hunk)


@dataclass(frozen=True, slots=True, repr=False)
class ModuleDiff:
    """What changed from one module to another, function by function."""

    functions: tuple[FunctionDiff, ...]

    def __bool__(self) -> bool:
        return bool(self.functions)

    def __str__(self) -> str:
        return "\n".join(f"{sign} {text}".rstrip() for sign, text in self._lines())

    def __repr__(self) -> str:
        return f"<ModuleDiff of {'; '.join(one.title for one in self.functions) or 'nothing'}>"

    def show(self) -> None:
        """Print it, in colour on a terminal: what is gone in red, what is new in green."""
        for sign, text in self._lines():
            style = _STYLES.get(sign)
            line = f"{sign} {text}".rstrip()
            print(line if style is None else painted(line, style, sys.stdout))

    def _repr_html_(self) -> str:
        rows = (
            f"<div style='background:{_BACKGROUNDS.get(sign, 'none')};"
            f"font-weight:{'bold' if sign == '#' else 'normal'}'>"
            f"{html.escape(f'{sign} {text}'.rstrip()) or '&nbsp;'}</div>"
            for sign, text in self._lines()
        )
        return f"<pre style='overflow-x:auto'>{''.join(rows)}</pre>"

    def _lines(self) -> Iterator[tuple[str, str]]:
        """Every line with its sign; # is that of a title."""
        if not self.functions:
            yield "#", "nothing changed"
        for one in self.functions:
            yield "#", one.title
            yield from one.lines()


def _attributes(mod: IRModule) -> list[str]:
    exprs = ScriptExprs("cls", True)
    values: Mapping[str, Any] = {**mod.attrs, **mod.global_infos}
    return [f"{key}: {exprs.value_text(value)}" for key, value in values.items()]


def _function_diff(
    name: str, before: BaseFunc | None, after: BaseFunc | None
) -> FunctionDiff | None:
    if before is after:
        return None
    found = _diff_of(name, _text(name, before), _text(name, after))
    if found is None and not structural_equal(before, after):
        note = "what is left out of the text changed, such as big constants"
        return FunctionDiff(name, "changed", (), note)
    return found


def _text(name: str, function: BaseFunc | None) -> list[str]:
    """The lines of a function, with a parameter on each of those of its signature."""
    if function is None:
        return []
    lines, places = print_lines(IRModule({name: function}), show_meta=False)
    if isinstance(function, ExternFunc):
        return [line.strip() for line in lines[2:]]
    place = places[id(function)]
    signature = list(_signature(lines[place].strip()))
    body = [line.removeprefix("    ") for line in lines[place + 1 :]]
    return [*signature, *(line for line in body if line.strip() != "cls = Module")]


def _signature(line: str) -> Iterator[str]:
    """The line of a `def`, broken after each of its parameters."""
    begin = line.index("(") + 1
    yield line[:begin]
    start, depth = begin, 0
    for place in range(begin, len(line)):
        depth += (line[place] in "([{") - (line[place] in ")]}")
        if depth < 0 or (depth == 0 and line[place] == ","):
            parameter = line[start:place].strip()
            if parameter:
                yield f"    {parameter},"
            start = place + 1
        if depth < 0:
            yield line[place:]
            return


def _diff_of(name: str, before: list[str], after: list[str]) -> FunctionDiff | None:
    """What differs between the lines of two functions, one of which may have none at all."""
    if before == after:
        return None
    lines = list(_signed(_aligned(before, after)))
    hunks = tuple(_hunks(lines))
    if not hunks:
        return None
    if name == _ATTRIBUTES or (before and after):
        return FunctionDiff(name, "changed", hunks)
    return FunctionDiff(name, "new" if after else "removed", hunks)


def _aligned(before: list[str], after: list[str]) -> Iterator[Pair]:
    """The lines that stand for each other: by their text, and in the gaps by their shape.

    Where none of a gap is alike, as many lines on both sides stand for each other one by one.
    """
    names = {name for line in (*before, *after) for name in _BOUND.findall(line)}
    for same, old, new in _matched(before, after, before, after):
        if same:
            yield from zip(old, new, strict=True)
            continue
        shapes = [[_shape(line, names) for line in part] for part in (old, new)]
        for alike, left, right in _matched(old, new, *shapes):
            if alike or len(left) == len(right):
                yield from zip(left, right, strict=True)
            else:
                yield from ((line, None) for line in left)
                yield from ((None, line) for line in right)


def _matched(
    before: list[str], after: list[str], keys: list[str], other_keys: list[str]
) -> Iterator[tuple[bool, list[str], list[str]]]:
    """Stretches of lines in order, and whether those of the two sides have the same keys.

    What is the same at the beginning and at the end is set apart first: `SequenceMatcher` compares
    each line with all of the same key.
    """
    head = _same(keys, other_keys)
    tail = _same(keys[head:][::-1], other_keys[head:][::-1])
    yield True, before[:head], after[:head]
    left, right = (side[head : len(side) - tail] for side in (keys, other_keys))
    for tag, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        yield tag == "equal", before[head + a : head + b], after[head + c : head + d]
    yield True, before[len(before) - tail :], after[len(after) - tail :]


def _same(left: Sequence[str], right: Sequence[str]) -> int:
    """How many of the first keys are the same."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(left), len(right)))


def _shape(line: str, names: set[str]) -> str:
    """A line without the names of its variables."""
    return _WORD.sub(lambda word: "·" if word[0] in names else word[0], line)


def _signed(pairs: Iterator[Pair]) -> Iterator[Line]:
    """The lines with their signs; one whose names alone changed is none of those that differ."""
    called: dict[str, str] = {}  # what the variables of before are called after
    for old, new in pairs:
        if old is None or new is None:
            yield ("+", new or "") if old is None else ("-", old)
            continue
        bound = list(zip(_BOUND.findall(old), _BOUND.findall(new), strict=False))
        called.update(bound)
        if old == new:
            yield " ", new
        elif _WORD.sub(lambda word: called.get(word[0], word[0]), old) == new:
            others = ", ".join(name for name, other in bound if name != other)
            yield " ", f"{new}  # {others} before" if others else new
        else:
            yield "-", old
            yield "+", new


def _hunks(lines: Sequence[Line]) -> Iterator[tuple[Line, ...]]:
    """The lines that differ, with a few around them."""
    near = [
        any(sign != " " for sign, _ in lines[max(0, i - _CONTEXT) : i + _CONTEXT + 1])
        for i in range(len(lines))
    ]
    hunk: list[Line] = []
    for line, is_near in zip(lines, near, strict=True):
        if is_near:
            hunk.append(line)
        elif hunk:
            yield tuple(hunk)
            hunk = []
    if hunk:
        yield tuple(hunk)


def _lines(count: int) -> str:
    return counted(count, "line")
