"""Small faults put into the code, one at a time: which of them do the tests catch?

    python3 dev.py mutants draw --seed 1    # the faults of a seed, without trying them
    python3 dev.py mutants record           # note which tests execute which lines: once, for hours
    python3 dev.py mutants try --seed 1     # try them; goes on where it stopped
    python3 dev.py mutants table            # what was caught, by kind and by place

Each fault is tried in a copy of the checkout: by the tests that are marked `fast`, and, where
these pass, by the others in the folder that mirrors its own, by all others of the suite, and by
what is left to the full tests. A test that executes no line of a fault cannot catch it and is left
out, as far as that was recorded: `executed_lines.py` says how. One that changes nothing that a
program does is no fault; such are listed in `EQUIVALENT`, each with its reason.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import Any

from checkout import RESULTS, ROOT
from faults import Fault, drawn
from line_records import NOTES, Executing, begin, noted
from timing import table
from trial import NOT_EXECUTED, STAGES, SURVIVED, Verdict, copied, verdict

RECORD = RESULTS / "mutation.json"
EQUIVALENT = {
    "relaxjax/ops/gathering.py:68: 0 -> 1": "a scalar was refused before, for it has no axis",
    "relaxjax/ops/shape_layouts.py:81: 1 -> 2": "both products, which are compared, begin so",
    "relaxjax/ops/placements.py:24: rule is None -> rule is not None": (
        "a shortcut: where no argument is placed, no rule gives another place than the type has"
    ),
    "relaxjax/lowering/collectives.py:107: taken, made -> made, taken": "the larger of both counts",
}


def recorded() -> list[dict[str, Any]]:
    return list(json.loads(RECORD.read_text())) if RECORD.exists() else []


def attempt(seed: int, count: int, stages: Sequence[str]) -> None:
    """Try the faults of a seed by the stages that have not tried them, until one catches them.

    Those that are recorded stay what they are: of other code, others would be drawn.
    """
    left = dict[int, tuple[Fault, list[str]]]()
    done = {(one["seed"], one["number"]): one for one in recorded()}
    for number, one in enumerate(drawn(seed, count)):
        row = done.get((seed, number), {"caught": SURVIVED, "tried": [], **asdict(one)})
        missing = [stage for stage in stages if stage not in row["tried"]]
        fault = Fault(**{item.name: row[item.name] for item in fields(Fault)})
        if row["caught"] not in (SURVIVED, NOT_EXECUTED) or not missing or _is_equivalent(row):
            continue
        if fault.fits(ROOT):
            left[number] = fault, missing
        else:
            print(f"{number}: the file has changed since it was drawn: {fault.name}", flush=True)
    executing = Executing([fault for fault, _ in left.values()])
    with copied() as copy:
        for number, (fault, missing) in left.items():
            found = verdict(copy, fault, missing, executing)
            print(f"{number}: {found.stage} {found.by}: {fault.name}", flush=True)
            _keep(seed, number, fault, missing, found)


def _keep(seed: int, number: int, fault: Fault, stages: Sequence[str], found: Verdict) -> None:
    """Record what came out, beside what others have recorded in the meantime."""
    done = {(one["seed"], one["number"]): one for one in recorded()}
    row = done.get((seed, number), {"caught": NOT_EXECUTED, "tried": [], "seconds": 0.0})
    caught = SURVIVED if (found.stage, row["caught"]) == (NOT_EXECUTED, SURVIVED) else found.stage
    reached = stages[: stages.index(caught) + 1] if caught in stages else stages
    own = {"caught": caught, "by": found.by, "tried": [*row["tried"], *reached]}
    seconds = round(row.get("seconds", 0.0) + found.seconds, 1)
    done[seed, number] = dict(seed=seed, number=number, **own, seconds=seconds, **asdict(fault))
    RECORD.write_text(json.dumps([done[key] for key in sorted(done)], indent=1) + "\n")


def record(stages: Sequence[str]) -> None:
    """Note which tests execute which lines, file by file; goes on where it stopped."""
    if not hasattr(sys, "monitoring"):
        sys.exit("`dev.py mutants record` needs Python 3.12 or later: it has sys.monitoring.")
    begin()
    marks = {name: mark for mark, name in (STAGES[stage] for stage in stages)}
    for name, mark in marks.items():
        path = os.pathsep.join(str(folder) for folder in (ROOT, ROOT / "tests" / "long"))
        env = {**os.environ, "PYTHONPATH": path, "CI": "true"}
        env |= {"RELAXJAX_LINES": str(NOTES), "RELAXJAX_STAGE": name}
        if name == "as_users":
            env["XLA_FLAGS"] = ""
        command = [sys.executable, "-m", "pytest", "-p", "executed_lines", "-q", "-m", mark]
        command += ["-n", "auto", "--dist", "loadfile", "tests", "--ignore", "tests/checkout"]
        command += [word for tests in noted(name) for word in ("--ignore", tests)]
        subprocess.run(command, cwd=ROOT, env=env, check=False)


def summary() -> str:
    """How many faults each stage caught, by seed and kind, and those that nothing caught."""
    rows = recorded()
    heads = [*STAGES, SURVIVED, NOT_EXECUTED, "equivalent"]

    def counts(chosen: Iterable[dict[str, Any]]) -> list[str]:
        found = Counter("equivalent" if _is_equivalent(one) else one["caught"] for one in chosen)
        return [str(found[head]) for head in heads]

    kinds = sorted({one["kind"] for one in rows})
    lines = [[kind, *counts(one for one in rows if one["kind"] == kind)] for kind in kinds]
    for seed in sorted({one["seed"] for one in rows}):
        lines.append([f"seed {seed}", *counts(one for one in rows if one["seed"] == seed)])
    left = [one for one in rows if one["caught"] not in STAGES and not _is_equivalent(one)]
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
    parser.add_argument("what", choices=["draw", "record", "try", "table"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--stages", nargs="+", choices=list(STAGES), default=list(STAGES))
    options = parser.parse_args()
    if options.what == "draw":
        print(
            "\n".join(f"{fault.kind}: {fault.name}" for fault in drawn(options.seed, options.count))
        )
    elif options.what == "record":
        record(options.stages)
    elif options.what == "try":
        attempt(options.seed, options.count, options.stages)
    else:
        print(summary())


if __name__ == "__main__":
    main()
