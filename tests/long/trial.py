"""A fault is tried by the tests that execute its lines, the nearest first, in a copy of it all."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from checkout import ROOT
from faults import Fault
from line_records import Cases, Executing

TESTS = ROOT / "tests"
# What tests a fault, in this order: a mark of pytest, and what `executed_lines.py` calls it.
STAGES = {
    "fast": ("fast and not as_users", "fast"),
    "folder": ("not fast and not as_users", "rest"),
    "suite": ("not fast and not as_users", "rest"),
    "full": ("not fast and not as_users", "rest"),
    "as_users": ("as_users", "as_users"),
}
SURVIVED, NOT_EXECUTED = "survived", "not executed"
TIMED_OUT = "takes too long"
NONE_CHOSEN = 5  # pytest's status where no test was chosen
_ALONE = 60  # seconds of tests that one process runs: others would take longer to start
_LEAST, _TIMES = 300, 20  # when a fault hangs: seconds, and times what the tests take
_UNKNOWN = {"fast": 900, "folder": 900}  # seconds for tests of which nothing is known, or an hour

Chosen = dict[str, tuple[int, Cases | None]]


@dataclass(frozen=True)
class Verdict:
    """The stage that caught a fault, what failed there, and the CPU seconds of all that was run."""

    stage: str
    by: str
    seconds: float


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the checkout, for all faults: Python compiles its files once."""
    with tempfile.TemporaryDirectory(prefix="relaxjax-") as folder:
        copy = Path(folder) / "copy"
        left = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")
        yield Path(shutil.copytree(ROOT, copy, symlinks=True, ignore=left))


@contextmanager
def with_fault(copy: Path, fault: Fault) -> Iterator[None]:
    """A copy that has a fault for a while, and nothing that was compiled of it before or after."""
    path = copy / fault.path
    before = path.read_bytes()
    try:
        fault.put_into(copy)
        _forget_compiled(path)
        yield
    finally:
        path.write_bytes(before)
        _forget_compiled(path)


def _forget_compiled(path: Path) -> None:
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def verdict(copy: Path, fault: Fault, stages: Sequence[str], executing: Executing) -> Verdict:
    """The stage whose tests fail, or hang, with a fault."""
    start, survived = _cpu_seconds(), NOT_EXECUTED
    with with_fault(copy, fault):
        for stage in stages:
            chosen = chosen_tests(fault, stage, executing)
            if not chosen:
                continue
            status, failed = _run(copy, stage, chosen)
            if status not in (0, NONE_CHOSEN):
                return Verdict(stage, failed, _cpu_seconds() - start)
            survived = SURVIVED if status == 0 else survived
    return Verdict(survived, "", _cpu_seconds() - start)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def chosen_tests(fault: Fault, stage: str, executing: Executing) -> Chosen:
    """The files of tests of a stage, how far each is from a fault, and which cases execute it."""
    folder = mirror(fault.path)
    near = f"{folder}/test_{Path(fault.path).stem}"
    found: Chosen = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        tests = path.relative_to(ROOT).as_posix()
        in_folder = tests.startswith(f"{folder}/")
        elsewhere = {"folder": not in_folder, "suite": in_folder}.get(stage, False)
        if elsewhere or tests.startswith("tests/checkout/"):
            continue
        cases = executing(fault, STAGES[stage][1], tests)
        if cases is None or cases:
            found[tests] = (0 if tests.startswith(near) else 1 if in_folder else 2), cases
    return found


def mirror(path: str) -> str:
    """The folder of the tests of a file."""
    folder = Path("tests", path.removeprefix("relaxjax/")).parent
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    return str(folder)


def _run(copy: Path, stage: str, chosen: Chosen) -> tuple[int, str]:
    """How the chosen tests end, and the first that failed."""
    names = copy.parent / "chosen.json"
    names.write_text(json.dumps(chosen))
    known = sum(sum(cases.values()) for _, cases in chosen.values() if cases is not None)
    unknown = any(cases is None for _, cases in chosen.values())
    processes = ["auto", "--dist", "worksteal"] if unknown or known > _ALONE else ["0"]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", STAGES[stage][0], "-n", *processes]
    command += ["-p", "chosen_tests", "-p", "no:cacheprovider", "--ignore", "tests/checkout"]
    path = os.pathsep.join(map(str, (copy, copy / "tests", copy / "tests" / "long")))
    env = {**os.environ, "PYTHONPATH": path, "CI": "true", "RELAXJAX_CHOSEN": str(names)}
    env["RELAXJAX_STAGE"] = stage
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    if stage == "as_users":
        env["XLA_FLAGS"] = ""
    limit = max(_LEAST, _TIMES * known) + unknown * _UNKNOWN.get(stage, 3600)
    try:
        run = subprocess.run(
            [*command, "tests"], cwd=copy, env=env, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return 1, TIMED_OUT
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE)
    return run.returncode, failed[0] if failed else run.stderr.strip().rpartition("\n")[2]
