"""The fast part of the tests, `-m fast`: what most faults are caught by, in a few minutes.

It leaves out what the suite leaves out, the tests that are listed in `slow.txt`, those that compile
as for users, and of a long table two cases in three. Tests of differentiation all stay. The list is
made anew from the durations of a whole run; until then it gets new tests of half a second or more:

    RELAXJAX_ROWS=all python -m pytest -n 2 --junitxml=durations.xml
    python tests/fast_part.py durations.xml > tests/slow.txt
"""

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from xml.etree import ElementTree
from zlib import crc32

import pytest

TESTS = Path(__file__).parent
SLOW = TESTS / "slow.txt"
# A test is slow where one of its cases, in the mean, takes more than this share of the whole run:
# a tenth of a second where nothing else runs, and the same tests where the machine is busy.
_SLOW = 1 / 11_000
# Tests in this folder are never slow: a wrong gradient is the worst fault.
_STAY = "passes/differentiation/"
# A table of more cases than this is long, and one case in so many stands for the others.
_LONG, _ONE_IN = 100, 3


def mark_fast(items: list[pytest.Item]) -> None:
    """Mark the tests of the fast part."""
    slow, cases = slow_tests(), Counter(map(test_of, items))
    for item in items:
        test = test_of(item)
        stands = cases[test] <= _LONG or crc32(item.name.encode()) % _ONE_IN == 0
        if test not in slow and stands and not item.get_closest_marker("as_users"):
            item.add_marker(pytest.mark.fast)


def slow_tests() -> set[tuple[str, str]]:
    """The file and the name of each test that is listed."""
    lines = (line.split() for line in SLOW.read_text().splitlines())
    return {(path, name) for path, *names in lines for name in names}


def test_of(item: pytest.Item) -> tuple[str, str]:
    """The file and the name of a test, whatever its case."""
    return path_of(item.path), item.name.partition("[")[0]


@cache
def path_of(file: Path) -> str:
    """The name of a file of tests, as the lists have it."""
    return file.relative_to(TESTS).as_posix()


def unknown(tests: Iterable[tuple[str, str]]) -> list[str]:
    """Those of the tests that there are not: a list of tests is made anew where it names one."""
    wanted = defaultdict[str, set[str]](set)
    for path, name in tests:
        wanted[path].add(name)
    return [f"{path}::{name}" for path in wanted for name in wanted[path] - _names_in(path)]


def _names_in(path: str) -> set[str]:
    """The names of the functions of a file."""
    body = ast.parse((TESTS / path).read_text()).body if (TESTS / path).is_file() else []
    return {part.name for part in body if isinstance(part, ast.FunctionDef)}


def durations(junit: Path) -> dict[tuple[str, str], list[float]]:
    """The seconds of each case of each test of a run."""
    seconds = defaultdict[tuple[str, str], list[float]](list)
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        path = case.attrib["classname"].removeprefix("tests.").replace(".", "/") + ".py"
        test = path, case.attrib["name"].partition("[")[0]
        seconds[test].append(float(case.attrib["time"]))
    return seconds


def listed(junit: Path) -> str:
    """The list of what was slow, a line for each file."""
    seconds = durations(junit)
    limit = _SLOW * sum(map(sum, seconds.values()))
    names = defaultdict[str, list[str]](list)
    for (path, name), times in sorted(seconds.items()):
        if sum(times) > limit * len(times) and not path.startswith(_STAY):
            names[path].append(name)
    return "\n".join(" ".join([path, *found]) for path, found in names.items())


if __name__ == "__main__":
    print(listed(Path(sys.argv[1])))
