"""Small faults that can be put into the code: where each stands, and what stands there instead.

They are drawn by a seed from all gradient rules and lowerings of operators, passes, the planner of
memory and the lowering.
"""

import ast
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice, pairwise
from pathlib import Path
from typing import Any

from checkout import ROOT

AREAS = {
    "rules": ("relaxjax/ops",),
    "passes": ("passes", "relaxjax/autodiff"),
    "planner": ("passes/memory",),
    "lowering": ("relaxjax/lowering",),
}

_OTHER_SIGN = {ast.Add: "-", ast.Sub: "+"}
_OTHER_COMPARISON = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!="} | {
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
_REDUCES = {"sum", "mean", "collapse_sum_to", "with_reduced_axes", "fitted", "unbroadcast"}
_LONGEST = 300  # bytes of what is replaced
# Parts of a file in which no fault changes what a program computes.
_SPEAKING = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class Fault:
    """A place of a file, by its line and columns, and what stands there instead."""

    path: str
    kind: str
    line: int
    start: int
    end: int
    old: str
    new: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}: {self.old} -> {self.new}"

    def fits(self, root: Path) -> bool:
        """Whether its place is as it was when the fault was drawn."""
        path = root / self.path
        return path.exists() and path.read_bytes()[self.start : self.end] == self.old.encode()

    def put_into(self, root: Path) -> None:
        path = root / self.path
        if not self.fits(root):
            raise ValueError(f"{self.name}: the file has changed since this fault was drawn")
        data = path.read_bytes()
        path.write_bytes(data[: self.start] + self.new.encode() + data[self.end :])


class Faults:
    """All faults that a file can have."""

    def __init__(self, path: Path) -> None:
        self.path = path.relative_to(ROOT).as_posix()
        self.data = path.read_bytes()
        lengths = [len(line) for line in self.data.splitlines(keepends=True)]
        self.starts = [sum(lengths[:number]) for number in range(len(lengths))]
        self.found: list[Fault] = []
        for node in ast.parse(self.data).body:
            self.visit(node)

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, _SPEAKING) or _is_docstring(node):
            return
        for kind, at, new in self.at(node):
            self.add(kind, at, new)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params", "bases"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    self.visit(child)

    def at(self, node: Any) -> Iterator[tuple[str, Any, str]]:
        """The kind of each fault of a node, what it replaces, and by what."""
        text = self.text
        match node:
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                sign = _OTHER_SIGN[type(node.op)]
                yield "sign", node, f"{text(node.left)} {sign} ({text(node.right)})"
            case ast.UnaryOp(op=ast.USub(), operand=ast.AST() as operand):
                if not isinstance(operand, ast.Constant):
                    yield "sign", node, text(operand)
            case ast.Compare(ops=[one]) if type(one) in _OTHER_COMPARISON:
                other = _OTHER_COMPARISON[type(one)]
                yield "comparison", node, f"{text(node.left)} {other} {text(node.comparators[0])}"
            case ast.Constant(value=int() as value) if not isinstance(value, bool):
                yield "off by one", node, str(value + 1)
            case ast.BoolOp(values=[first, second]):
                word = "or" if isinstance(node.op, ast.And) else "and"
                yield "condition", node, f"({text(first)}) {word} ({text(second)})"
            case ast.If() | ast.IfExp():
                yield "condition", node.test, f"(not ({text(node.test)}))"
            case ast.Expr(value=ast.Call()) | ast.AugAssign():
                yield "dropped statement", node, "pass"
            case ast.Assign(targets=[ast.Name(id=name)]) if name in _names(node.value):
                yield "stale value", node, "pass"
            case ast.Call(func=function) if self.text(function) != "isinstance":
                yield from self.of_call(node)

    def of_call(self, node: ast.Call) -> Iterator[tuple[str, Any, str]]:
        function, args = self.text(node.func), [*node.args]
        if len(args) > 1 and isinstance(args[0], ast.Constant) and isinstance(args[0].value, str):
            function, args = args[0].value, args[1:]  # as call("sum", x)
        if function.rpartition(".")[2] in _REDUCES and args:
            yield "missing reduction", node, self.text(args[0])
        plain = (ast.Name, ast.Attribute, ast.Subscript)
        for one, other in pairwise(args):
            first, second = self.text(one), self.text(other)
            if isinstance(one, plain) and isinstance(other, plain) and first != second:
                between = self.data[self.end(one) : self.offset(other)].decode()
                self.add("swapped arguments", one, f"{second}{between}{first}", other)
                return

    def add(self, kind: str, at: Any, new: str, last: Any = None) -> None:
        start, end = self.offset(at), self.end(at if last is None else last)
        old = self.data[start:end].decode()
        if len(old) <= _LONGEST and old != new:
            self.found.append(Fault(self.path, kind, at.lineno, start, end, old, new))

    def offset(self, node: Any) -> int:
        return int(self.starts[node.lineno - 1] + node.col_offset)

    def end(self, node: Any) -> int:
        return int(self.starts[node.end_lineno - 1] + node.end_col_offset)

    def text(self, node: Any) -> str:
        return self.data[self.offset(node) : self.end(node)].decode()


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _names(node: ast.AST) -> set[str]:
    """The names that an expression has from around it."""
    names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    own = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return {name.id for name in names} - own


def drawn(seed: int, count: int) -> list[Fault]:
    """Faults of a seed: of each area as many, and in each of each kind as many as there can be."""
    dice = random.Random(seed)
    found: list[Fault] = []
    for folders in AREAS.values():
        faults = [fault for path in _files(folders) for fault in faults_of(path)]
        kinds = sorted({fault.kind for fault in faults})
        groups = cycle([fault for fault in faults if fault.kind == kind] for kind in kinds)
        filled = (group for group in groups if group)
        for group in islice(filled, count // len(AREAS)):
            found.append(group.pop(dice.randrange(len(group))))
    return found


@cache
def faults_of(path: Path) -> list[Fault]:
    return Faults(path).found


def _files(folders: Iterable[str]) -> list[Path]:
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in paths if path.name != "__init__.py"]
