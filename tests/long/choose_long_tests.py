"""Print the long tests whose lines others execute as well: `tests/long_tests.txt` is made of it.

    python3 dev.py mutants record                   # with Python 3.12 or later
    python tests/long/choose_long_tests.py > tests/long_tests.txt

The longest go first, and each goes only if all lines that it executes are executed by two others
that stay. Rows of a table go before whole tests. What starts processes stays, for nobody saw what
it executes there; and so do tests that are known to have caught a small fault (`mutation.py`).
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))

from checkout import RESULTS, ROOT
from line_records import NOTES, read_notes
from long_tests import long_tests

LONG = 0.2  # seconds
OTHERS = 2  # so many tests that stay execute each line
# What users run, what looks for what is new, random programs, which differ each time, and whatever
# may show a gradient that is wrong without a word: lines that are executed do not tell of it.
STAY = (
    "tests/examples/",
    "tests/ops/test_rule_decisions.py",
    "tests/passes/test_pass_decisions.py",
    "tests/passes/differentiation/",
    "random",
)


@dataclass(frozen=True)
class Noted:
    """A test, the seconds that it takes, and the numbers of the lines that it executes."""

    name: str
    seconds: float
    lines: np.ndarray
    may_go: bool

    @property
    def function(self) -> str:
        return self.name.partition("[")[0]


def tests(notes: Path) -> Iterator[Noted]:
    """Every test that was noted."""
    faults = json.loads((RESULTS / "mutation.json").read_text())
    catching = {fault.get("by", "") for fault in faults}
    numbers: dict[tuple[str, int], int] = {}
    for stage, found in read_notes(notes):
        if stage == "as_users":
            continue
        lines: list[list[int]] = [[] for _ in found["cases"]]
        for path, masks in found["lines"].items():
            for line, digits in masks.items():
                number, mask = numbers.setdefault((path, line), len(numbers)), int(digits, 16)
                if mask < 0:
                    continue  # it runs for all of the file, whichever tests stay
                while mask:
                    least = mask & -mask
                    lines[least.bit_length() - 1].append(number)
                    mask ^= least
        for (case, (seconds, is_known)), own in zip(found["cases"].items(), lines, strict=True):
            name = f"{found['tests']}::{case}"
            stays = name in catching or any(word in name for word in STAY)
            may_go = is_known and not stays
            yield Noted(name, seconds, np.array(own, np.int32), may_go)


def names_in_the_suite() -> set[str]:
    """The tests that the suite tries, and those that are listed now."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not as_users"]
    told = subprocess.run([*command, "tests"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {*told.stdout.splitlines(), *(f"tests/{name}" for name in long_tests())}


def left_out(known: Iterable[Noted]) -> list[Noted]:
    """The tests that may go, rows of tables first, the longest before the others."""
    found, stay = list(known), Counter[str]()
    lines = 1 + max(int(test.lines.max(initial=-1)) for test in found)
    times = np.zeros(lines, np.int64)
    for test in found:
        times[test.lines] += 1
        stay[test.function] += 1
    gone = list[Noted]()
    longest = sorted((one for one in found if one.may_go), key=lambda one: -one.seconds)
    for whole in (False, True):
        for test in longest:
            if test.seconds < LONG or test in gone or (not whole and stay[test.function] == 1):
                continue
            if (times[test.lines] > OTHERS).all():
                times[test.lines] -= 1
                stay[test.function] -= 1
                gone.append(test)
    return gone


def main() -> None:
    suite = names_in_the_suite()
    gone = left_out(test for test in tests(NOTES) if test.name in suite)
    print(f"{len(gone)} tests, {sum(test.seconds for test in gone):.0f} s", file=sys.stderr)
    print("\n".join(sorted(test.name.removeprefix("tests/") for test in gone)))


if __name__ == "__main__":
    main()
