"""Random programs whose gradients are compiled in many ways and compared, until a time is up.

    python3 dev.py fuzz --minutes 30              # compiled as for users
    python3 dev.py fuzz --minutes 30 --quick      # equation by equation: nothing is compiled
    python3 dev.py fuzz --first 4711 --programs 1 # one of them again
    python3 dev.py fuzz --table                   # what the recorded runs add up to

Each program has a number, which is its seed, and is compiled in one of all ways, by turns. A run
goes on behind the numbers that are recorded, and `--record` adds it to them. A program that comes
out wrong is shrunk, and written to `tests/testing/found`, where a test tries it from then on.
"""

import argparse
import gc
import itertools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
from checkout import RESULTS, ROOT
from norm_networks import WAYS, Loss, random_loss
from timing import table

from relaxjax.testing import CompilationError, Way, compare_compilations

RECORD = RESULTS / "fuzz.json"
FOUND = ROOT / "tests" / "testing" / "found"
# After so many programs what was compiled is forgotten: it would fill the memory. Traces take less.
_FORGET, _FORGET_QUICKLY = 25, 250


@dataclass
class Run:
    """Programs tried one after another, and what came of them."""

    first: int
    quick: bool
    programs: int = 0
    loose: int = 0
    cells: dict[str, int] = field(default_factory=dict)
    mismatches: list[str] = field(default_factory=list)
    tried_again: str = ""  # what was said to be wrong and is not, told by hand
    commit: str = ""
    jaxlib: str = version("jaxlib")
    xla_flags: str = os.environ.get("XLA_FLAGS", "")

    def go(self, minutes: float, programs: int) -> None:
        until = time.monotonic() + 60 * minutes
        # Garbage is looked for among all objects seldom, and never among those that stay.
        gc.freeze()
        gc.set_threshold(*gc.get_threshold()[:2], 1000)
        forget = _FORGET_QUICKLY if self.quick else _FORGET
        while self.programs < programs and time.monotonic() < until:
            self.one(self.first + self.programs)
            self.programs += 1
            if self.programs % forget == 0:
                jax.clear_caches()
                print(f"{self.programs} programs, the last of seed {self.seed}", flush=True)

    @property
    def seed(self) -> int:
        return self.first + self.programs - 1

    def one(self, seed: int) -> None:
        ways = [] if self.quick else [WAYS[seed % len(WAYS)]]
        problem, loosely = tried(random_loss(seed), ways)
        self.loose += loosely
        for way in map(str, ways):
            self.cells[way] = self.cells.get(way, 0) + 1
        if problem is not None:
            self.mismatches.append(f"seed {seed}: {problem}")
            print(f"seed {seed}: {problem}\nshrunk: {shrunk(seed, ways)}", flush=True)


def tried(loss: Loss, ways: Sequence[Way]) -> tuple[str | None, bool]:
    """What is wrong with a program, and whether rounding explains a large part of its numbers."""
    try:
        found = compare_compilations(loss.module, "main", loss.args, ways=ways)
    except CompilationError as error:
        return str(error), False
    except Exception as error:  # whatever it is, a program that is well formed should not raise it
        return f"{type(error).__name__}: {error}", False
    return None, any(one.loosely for one in found)


def shrunk(seed: int, ways: Sequence[Way]) -> Path:
    """The file of what is left of a program where no step can go without its problem going too."""
    loss, without = random_loss(seed), set[int]()
    for number in reversed(loss.steps):
        smaller = random_loss(seed, without | {number})
        if tried(smaller, ways)[0] is not None:
            loss, without = smaller, without | {number}
    # A seed gives another program where the kinds of steps are others than they were.
    ends = itertools.chain([""], (f"_{number}" for number in itertools.count(2)))
    path = next(path for end in ends if not (path := FOUND / f"seed_{seed}{end}.txt").exists())
    lines = [f"# seed: {seed}", *(f"# way: {json.dumps(asdict(way))}" for way in ways)]
    FOUND.mkdir(exist_ok=True)
    path.write_text("\n".join([*lines, str(loss.module.script())]) + "\n")
    return path


def recorded() -> list[dict[str, Any]]:
    return json.loads(RECORD.read_text()) if RECORD.exists() else []


def record(run: Run) -> None:
    commit = ["git", "rev-parse", "--short", "HEAD"]
    run.commit = subprocess.run(commit, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    RECORD.write_text(json.dumps([*recorded(), asdict(run)], indent=1) + "\n")


def summary() -> str:
    """What all recorded runs add up to."""
    rows, cells = [], Counter[str]()
    for quick in (False, True):
        runs = [run for run in recorded() if run["quick"] is quick]
        for run in runs:
            cells.update(run["cells"])
        sums = [sum(run[name] for run in runs) for name in ("programs", "loose")]
        wrong = sum(len(run["mismatches"]) for run in runs)
        kind = "equation by equation" if quick else "compiled as for users"
        rows.append([kind, str(len(runs)), *(f"{count:,}" for count in (*sums, wrong))])
    counts = [cells[str(way)] for way in WAYS]
    return "\n".join(
        [
            table(["programs", "runs", "tried", "loosely compared", "wrong"], rows),
            "",
            f"Each of the {len(WAYS)} ways was tried {min(counts)} to {max(counts)} times.",
        ]
    )


def main() -> int:
    own = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="dev.py fuzz", description=__doc__, formatter_class=own)
    add = parser.add_argument
    add("--minutes", type=float, default=10, help="when to stop (default: 10)")
    add("--programs", type=int, default=10**9, help="after how many to stop, if before")
    add("--first", type=int, help="the first seed (default: behind what is recorded)")
    add("--quick", action="store_true", help="compile nothing")
    add("--record", action="store_true", help=f"add the run to {RECORD.relative_to(ROOT)}")
    add("--table", action="store_true", help="show what is recorded, and run nothing")
    options = parser.parse_args()
    if options.table:
        print(summary())
        return 0
    ends = [run["first"] + run["programs"] for run in recorded() if run["quick"] is options.quick]
    run = Run(max(ends, default=0) if options.first is None else options.first, options.quick)
    run.go(options.minutes, options.programs)
    print(
        f"seeds {run.first} to {run.seed}: {run.programs} programs, {run.loose} compared loosely, "
        f"{len(run.mismatches)} wrong"
    )
    if options.record:
        record(run)
    return 1 if run.mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
