"""What `executed_lines.py` noted: which tests execute the lines of a fault.

What is not noted, or was noted of other code than there is now, is taken to execute every line.
"""

import ast
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from checkout import ROOT
from executed_lines import PACKAGES, digest_of
from faults import Fault

NOTES = ROOT / ".mutants"  # git ignores it
_SOURCES = "sources.json"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

Cases = dict[str, float]  # tests of a file, and the seconds that each takes


def lines_of(fault: Fault) -> set[int] | None:
    """The lines one of which runs where a fault does; None if it runs where it is imported."""
    text = (ROOT / fault.path).read_bytes()
    start = fault.start - sum(map(len, text.splitlines(keepends=True)[: fault.line - 1]))
    place, end = (fault.line, start), fault.line + fault.old.count("\n")
    found: set[int] | None = None
    inside = False
    for node in _around(ast.parse(text).body, place):
        if isinstance(node, _FUNCTIONS):
            bodies = [node.body] if isinstance(node, ast.Lambda) else node.body
            inside = inside or any(_holds(body, place) for body in bodies)
        if inside and isinstance(node, ast.Lambda):
            found = set(range(node.body.lineno, (node.body.end_lineno or end) + 1))
        elif inside and isinstance(node, ast.stmt) and not isinstance(node, _FUNCTIONS):
            found = set(range(node.lineno, _end_of_head(node)))
    return None if found is None else found.union(range(fault.line, end + 1))


def _around(nodes: Iterable[ast.AST], place: tuple[int, int]) -> Iterator[Any]:
    """The nodes that hold a place, from the outermost to the innermost."""
    for node in nodes:
        if _holds(node, place):
            if hasattr(node, "lineno"):
                yield node
            yield from _around(ast.iter_child_nodes(node), place)


def _holds(node: Any, place: tuple[int, int]) -> bool:
    if not hasattr(node, "lineno"):
        return True  # such as the arguments of a function
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
    begins = (first, node.col_offset if first == node.lineno else 0)
    return begins <= place < (node.end_lineno, node.end_col_offset)


def _end_of_head(node: ast.stmt) -> int:
    """The line after a statement, or after what it has before the statements inside."""
    inner = [one.lineno for one in ast.walk(node) if isinstance(one, ast.stmt) and one is not node]
    return max(node.lineno + 1, min(inner, default=(node.end_lineno or node.lineno) + 1))


def sources() -> dict[str, str]:
    """Each file of the package, and the digest of what it holds."""
    paths = (path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): digest_of(path) for path in sorted(paths)}


def begin(notes: Path = NOTES) -> None:
    """Keep what is noted if it is of the code that there is now, and forget it if not."""
    notes.mkdir(exist_ok=True)
    known = notes / _SOURCES
    if known.exists() and json.loads(known.read_text()) == sources():
        return
    for path in notes.iterdir():
        path.unlink()
    known.write_text(json.dumps(sources(), indent=1))


def noted(stage: str, notes: Path = NOTES) -> list[str]:
    """The files of tests of which a stage is noted, if they are as they were."""
    found = [_read(path) for path in notes.glob(f"{stage}.tests.*.json.gz")]
    return sorted(one["tests"] for one in found if _is_as_noted(one))


def read_notes(notes: Path = NOTES) -> Iterator[tuple[str, dict[str, Any]]]:
    """What was noted of each file of tests that is as it was, behind its stage."""
    for path in sorted(notes.glob("*.tests.*.json.gz")):
        found = _read(path)
        if _is_as_noted(found):
            yield path.name.partition(".")[0], found


def _is_as_noted(found: dict[str, Any]) -> bool:
    tests = ROOT / found["tests"]
    return tests.exists() and digest_of(tests) == str(found["digest"])


def _read(path: Path) -> Any:
    with gzip.open(path, "rt") as file:
        return json.load(file)


class Executing:
    """Which tests execute which of some faults; by stage and file of tests."""

    def __init__(self, faults: Sequence[Fault], notes: Path = NOTES) -> None:
        known = notes / _SOURCES
        noted = json.loads(known.read_text()) if known.exists() else {}
        now = sources()
        self.lines = {
            fault: lines_of(fault)
            for fault in faults
            if now.get(fault.path) == noted.get(fault.path, "")
        }
        self.by_all: set[Fault] = {fault for fault, lines in self.lines.items() if lines is None}
        self.cases: dict[tuple[str, str], dict[Fault, Cases]] = {}
        for path in notes.glob("*.outside.*.json.gz"):
            self._add_outside({(place, line) for place, line in _read(path)})
        for stage, one in read_notes(notes):
            self._add(stage, one)

    def _add_outside(self, found: set[tuple[str, int]]) -> None:
        for fault, lines in self.lines.items():
            if found & {(fault.path, line) for line in lines or ()}:
                self.by_all.add(fault)

    def _add(self, stage: str, found: dict[str, Any]) -> None:
        by_fault = self.cases[stage, found["tests"]] = {}
        for fault, lines in self.lines.items():
            masks = found["lines"].get(fault.path, {})
            mask = 0
            for line in lines or ():
                mask |= int(masks.get(str(line), "0"), 16)
            by_fault[fault] = {
                case: seconds
                for number, (case, (seconds, is_known)) in enumerate(found["cases"].items())
                if mask >> number & 1 or fault in self.by_all or not is_known
            }

    def __call__(self, fault: Fault, stage: str, tests: str) -> Cases | None:
        """The cases of a file that execute a fault; None if that is not known, and all may."""
        return self.cases.get((stage, tests), {}).get(fault)
