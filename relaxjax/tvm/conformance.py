"""Tests that are written for TVM, run as they stand, a file at a time, and summed up."""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

OUTCOMES = ("passed", "failed", "out of scope", "skipped")
_SHOWN_REASONS = 30


@dataclass(slots=True)
class FileResult:
    """What became of the tests of a file: how many of each outcome, and why."""

    file: str
    counts: Counter[str] = field(default_factory=Counter)
    reasons: list[tuple[str, str, str]] = field(default_factory=list)  # outcome, reason, test

    def add(self, outcome: str, reason: str = "", test: str = "") -> None:
        self.counts[outcome] += 1
        if reason:
            self.reasons.append((outcome, reason, test))


def main(argv: Sequence[str]) -> int:
    """Run the tests of files and folders; 0 where none failed."""
    options = _parsed(argv)
    if find_spec("pytest") is None:
        print("`--pytest` needs pytest: pip install pytest", file=sys.stderr)
        return 2
    files = list(test_files(options.paths))
    if not files:
        print(f"no test_*.py in {' '.join(options.paths)}", file=sys.stderr)
        return 2
    width = max(len(str(file)) for file in files)
    print(f"{'file':{width}}  {'  '.join(OUTCOMES)}")
    results = []
    for file in files:
        results.append(tested(file, options.limit))
        print(f"{results[-1].file:{width}}  {_cells(results[-1].counts)}", flush=True)
    total = sum((result.counts for result in results), Counter[str]())
    print(f"{'all':{width}}  {_cells(total)}")
    for outcome in ("failed", "out of scope"):
        _print_reasons(outcome, results, options.list)
    return 1 if total["failed"] else 0


def test_files(paths: Sequence[str]) -> Iterator[Path]:
    """The files that are given, and those named test_*.py in the folders that are."""
    for path in map(Path, paths):
        if path.is_dir():
            yield from sorted(path.rglob("test_*.py"))
        elif path.is_file():
            yield path
        else:
            raise SystemExit(f"there is no file or folder `{path}`")


def tested(file: Path, limit: float) -> FileResult:
    """Run the tests of a file in a process of its own, for `limit` seconds at most."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "result.json")
        command = [sys.executable, "-m", "relaxjax.tvm.file_tests", str(file), str(answer)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return _broken(file, f"the file takes longer than {limit:g} s")
        if not answer.exists():
            last = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
            return _broken(file, f"the process ended with code {done.returncode}: {last}")
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return FileResult(str(file), Counter(found["counts"]), [*map(tuple, found["reasons"])])


def _broken(file: Path, reason: str) -> FileResult:
    result = FileResult(str(file))
    result.add("failed", reason, str(file))
    return result


def _cells(counts: Counter[str]) -> str:
    return "  ".join(f"{counts[outcome]:{len(outcome)}d}" for outcome in OUTCOMES)


def _print_reasons(outcome: str, results: Sequence[FileResult], listed: bool) -> None:
    """The reasons of one outcome, the most frequent first, and the tests if they are asked for."""
    found: dict[str, list[str]] = {}
    for result in results:
        for kind, reason, test in result.reasons:
            if kind == outcome:
                found.setdefault(reason, []).append(test)
    if not found:
        return
    print(f"\n{outcome}, by reason")
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    for reason, tests in ordered if listed else ordered[:_SHOWN_REASONS]:
        print(f"{len(tests):5d}  {reason}")
        for test in tests if listed else ():
            print(f"         {test}")
    if len(ordered) > _SHOWN_REASONS and not listed:
        print(f"       and {len(ordered) - _SHOWN_REASONS} more reasons: --list shows them all")


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m relaxjax.tvm --pytest")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, or folders of test_*.py")
    parser.add_argument("--limit", type=float, default=600, help="seconds for a file (600)")
    parser.add_argument("--list", action="store_true", help="list what failed, too")
    return parser.parse_args(argv)
