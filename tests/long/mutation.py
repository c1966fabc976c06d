"""Small faults put into the code, one at a time: which of them do the tests catch?

    python3 dev.py mutants draw --seed 1    # the faults of a seed, without trying them
    python3 dev.py mutants try --seed 1     # try them; goes on where it stopped
    python3 dev.py mutants table            # what was caught, by kind and by place

Faults are drawn from all gradient rules and lowerings of operators, passes, the planner of memory
and the lowering. Each is tried in a copy of the checkout: by the tests that are marked `fast`, and,
where these pass, by the others in the folder that mirrors its own, and then by all. One that
changes nothing that a program does is no fault; such are listed in `EQUIVALENT`, each with its
reason.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from itertools import cycle, islice, pairwise
from pathlib import Path
from typing import Any

from checkout import RESULTS, ROOT
from timing import table

RECORD = RESULTS / "mutation.json"
AREAS = {
    "rules": ("relaxjax/ops",),
    "passes": ("passes", "relaxjax/autodiff"),
    "planner": ("passes/memory",),
    "lowering": ("relaxjax/lowering",),
}
EQUIVALENT = {
    "relaxjax/ops/gathering.py:68: 0 -> 1": "a scalar was refused before, for it has no axis",
}
# What tests a mutant, in this order, and the seconds after which it hangs, which is caught too.
STAGES = {
    "fast": ("fast and not as_users", 400),
    "folder": ("not fast and not as_users", 1800),
    "suite": ("not fast and not as_users", 3600),
    "as_users": ("as_users", 1800),
}
SURVIVED = "survived"
NONE_CHOSEN = 5  # pytest's status where no test was chosen

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

    def put_into(self, root: Path) -> None:
        path = root / self.path
        data = path.read_bytes()
        if data[self.start : self.end] != self.old.encode():
            raise ValueError(f"{self.name}: the file has changed since this fault was drawn")
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


def caught_by(fault: Fault, stages: Sequence[str]) -> str:
    """The stage whose tests fail, or hang, with a fault."""
    with tempfile.TemporaryDirectory(prefix="relaxjax-") as folder:
        copy = Path(folder) / "copy"
        left = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")
        shutil.copytree(ROOT, copy, symlinks=True, ignore=left)
        fault.put_into(copy)
        for stage in stages:
            if not _pass(copy, stage, fault.path):
                return stage
    return SURVIVED


def _pass(copy: Path, stage: str, path: str) -> bool:
    """Whether the tests of a stage pass; if it has all, those of the file's folder are first."""
    chosen, seconds = STAGES[stage]
    command = [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "worksteal", "-x", "-q"]
    command += ["-m", chosen, "--ignore", "tests/checkout"]
    env = {**os.environ, "PYTHONPATH": str(copy), "CI": "true"}
    if stage == "as_users":
        env["XLA_FLAGS"] = ""
    folder = _mirror(path)
    near, far = [folder], ["tests", "--ignore", folder]
    for tests in {"folder": [near], "suite": [far]}.get(stage, [near, far]):
        try:
            run = subprocess.run(
                [*command, *tests], cwd=copy, env=env, capture_output=True, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return False
        if run.returncode not in (0, NONE_CHOSEN):
            return False
    return True


def _mirror(path: str) -> str:
    """The folder of the tests of a file."""
    folder = Path("tests", path.removeprefix("relaxjax/")).parent
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    return str(folder)


def recorded() -> list[dict[str, Any]]:
    return list(json.loads(RECORD.read_text())) if RECORD.exists() else []


def attempt(seed: int, count: int, stages: Sequence[str]) -> None:
    """Try the faults of a seed by the stages that have not tried them, until one catches them.

    Those that are recorded stay what they are: of other code, others would be drawn.
    """
    for number, fault in enumerate(drawn(seed, count)):
        done = {(one["seed"], one["number"]): one for one in recorded()}
        row = done.get((seed, number), {"caught": SURVIVED, "tried": [], **asdict(fault)})
        fault = Fault(**{item.name: row[item.name] for item in fields(Fault)})
        left = [stage for stage in stages if stage not in row["tried"]]
        if row["caught"] != SURVIVED or not left:
            continue
        stage = caught_by(fault, left)
        print(f"{number}: {stage}: {fault.name}", flush=True)
        reached = left[: left.index(stage) + 1] if stage in left else left
        tried = [*row["tried"], *reached]
        own = {"seed": seed, "number": number, "caught": stage, "tried": tried, **asdict(fault)}
        done = {(one["seed"], one["number"]): one for one in recorded()}
        done[seed, number] = own
        RECORD.write_text(json.dumps([done[key] for key in sorted(done)], indent=1) + "\n")


def summary() -> str:
    """How many faults each stage caught, by seed and kind, and those that nothing caught."""
    rows = recorded()
    heads = [*STAGES, SURVIVED, "equivalent"]

    def counts(chosen: Iterable[dict[str, Any]]) -> list[str]:
        found = Counter("equivalent" if _is_equivalent(one) else one["caught"] for one in chosen)
        return [str(found[head]) for head in heads]

    kinds = sorted({one["kind"] for one in rows})
    lines = [[kind, *counts(one for one in rows if one["kind"] == kind)] for kind in kinds]
    for seed in sorted({one["seed"] for one in rows}):
        lines.append([f"seed {seed}", *counts(one for one in rows if one["seed"] == seed)])
    left = [one for one in rows if one["caught"] == SURVIVED and not _is_equivalent(one)]
    return "\n".join([table(["caught by", *heads], lines), "", *map(_name, left)])


def _is_equivalent(one: dict[str, Any]) -> bool:
    return _name(one) in EQUIVALENT


def _name(one: dict[str, Any]) -> str:
    return f"{one['path']}:{one['line']}: {one['old']} -> {one['new']}"


def main() -> None:
    own = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="dev.py mutants", description=__doc__, formatter_class=own
    )
    parser.add_argument("what", choices=["draw", "try", "table"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--stages", nargs="+", choices=list(STAGES), default=list(STAGES))
    options = parser.parse_args()
    if options.what == "draw":
        print(
            "\n".join(f"{fault.kind}: {fault.name}" for fault in drawn(options.seed, options.count))
        )
    elif options.what == "try":
        attempt(options.seed, options.count, options.stages)
    else:
        print(summary())


if __name__ == "__main__":
    main()
