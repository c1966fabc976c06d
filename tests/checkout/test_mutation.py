"""The small faults that the tests are to catch are what they say, and leave a file that runs."""

import ast
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "long"))

import faults  # these are found by the path above
import line_records
import mutation
import trial
from line_records import Executing

LONG = Path(__file__).parents[1] / "long"


@pytest.mark.parametrize(
    ("text", "kind", "faulty"),
    [
        ("y = a - (b * c)", "sign", "y = a + (b * c)"),
        ("y = -x", "sign", "y = x"),
        ("y = a <= b", "comparison", "y = a < b"),
        ("y = x[0]", "off by one", "y = x[1]"),
        ("y = a and b", "condition", "y = (a) or (b)"),
        ("if a:\n    f()", "condition", "if (not (a)):\n    f()"),
        ("f(x)", "dropped statement", "pass"),
        ("x = g(x, 'é')", "stale value", "pass"),
        ("y = call('sum', x, axes)", "missing reduction", "y = x"),
        ("y = 'é', f(a, b.c)", "swapped arguments", "y = 'é', f(b.c, a)"),
        ('"""Says."""\nraise E(a - b)', None, ""),
        ("y = [x for x in z if isinstance(x, T)]", None, ""),
    ],
)
def test_the_faults_of_a_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, kind: str | None, faulty: str
) -> None:
    monkeypatch.setattr(faults, "ROOT", tmp_path)
    path = tmp_path / "file.py"
    path.write_text(text)
    found = {fault.kind: fault for fault in faults.Faults(path).found}
    if kind is None:
        assert not found
        return
    found[kind].put_into(tmp_path)
    assert path.read_text() == faulty


def test_what_is_drawn_is_the_same_for_a_seed_and_leaves_files_that_can_be_read(
    tmp_path: Path,
) -> None:
    drawn = faults.drawn(seed=1, count=40)
    assert drawn == faults.drawn(seed=1, count=40)
    assert len({fault.name for fault in drawn}) == 40
    for fault in drawn:
        path = tmp_path / fault.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((Path(__file__).parents[2] / fault.path).read_bytes())
        fault.put_into(tmp_path)
        ast.parse(path.read_bytes())


def test_a_fault_is_tried_by_the_stages_that_did_not_try_it_until_one_catches_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[list[str]] = []

    def verdict(copy: Path, fault: object, stages: list[str], executing: object) -> trial.Verdict:
        asked.append(stages)
        stage = {"fast": trial.SURVIVED, "folder": trial.NOT_EXECUTED}.get(
            " ".join(stages), "suite"
        )
        return trial.Verdict(stage, "test", 2.0)

    monkeypatch.setattr(mutation, "RECORD", tmp_path / "mutation.json")
    monkeypatch.setattr(mutation, "verdict", verdict)
    monkeypatch.setattr(mutation, "copied", lambda: nullcontext(tmp_path))
    monkeypatch.setattr(mutation, "Executing", lambda faults: None)
    monkeypatch.setattr(mutation, "ROOT", tmp_path)
    (tmp_path / "file.py").write_text("x = 1\n")
    few = [faults.Fault("file.py", "off by one", line, 4, 5, "1", "2") for line in range(4)]
    monkeypatch.setattr(mutation, "drawn", lambda seed, count: few[:count])
    for stages in (["fast"], ["fast", "folder"]):
        mutation.attempt(seed=1, count=4, stages=stages)
    assert {one["caught"] for one in mutation.recorded()} == {trial.SURVIVED}
    for stages in (["fast", "suite", "as_users"], ["fast", "suite", "as_users"]):
        mutation.attempt(seed=1, count=4, stages=stages)
    assert asked == [["fast"]] * 4 + [["folder"]] * 4 + [["suite", "as_users"]] * 4
    found = {(one["caught"], tuple(one["tried"]), one["seconds"]) for one in mutation.recorded()}
    assert found == {("suite", ("fast", "folder", "suite"), 6.0)}


def test_a_fault_is_not_tried_where_its_file_has_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mutation, "RECORD", tmp_path / "mutation.json")
    monkeypatch.setattr(mutation, "ROOT", tmp_path)
    monkeypatch.setattr(mutation, "copied", lambda: nullcontext(tmp_path))
    monkeypatch.setattr(mutation, "Executing", lambda faults: None)
    one = faults.Fault("file.py", "off by one", 1, 4, 5, "1", "2")
    monkeypatch.setattr(mutation, "drawn", lambda seed, count: [one])
    (tmp_path / "file.py").write_text("y  = 1\n")
    mutation.attempt(seed=1, count=1, stages=["fast"])
    assert (
        "0: the file has changed since it was drawn: file.py:1: 1 -> 2" in capsys.readouterr().out
    )
    assert not mutation.recorded()


def test_a_fault_of_a_file_that_has_changed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("y = a - b")
    fault = faults.Fault("file.py", "sign", 1, 4, 9, "a + b", "a - b")
    with pytest.raises(ValueError, match=r"file.py:1: a \+ b -> a - b: the file has changed since"):
        fault.put_into(tmp_path)


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("passes/memory/storage/heap.py", "tests/passes/memory/storage"),
        ("relaxjax/ops/nn/norm.py", "tests/ops"),
        ("relaxjax/lowering/emit/source.py", "tests/lowering"),
    ],
)
def test_the_tests_of_a_file_are_in_the_folder_that_mirrors_it(path: str, folder: str) -> None:
    assert trial.mirror(path) == folder


TEXT = """\
LIMIT = 1 + 2


def f(x, y):
    if (
        x < y
    ):
        return g(
            x,
            y - 1,
        )
    table = lambda z: (
        z + x)
    return table


LAWS = [lambda x: x + 1]
"""


@pytest.mark.parametrize(
    ("old", "lines"),
    [
        ("1 + 2", None),
        ("x < y", {5, 6, 7}),
        ("y - 1", {8, 9, 10, 11}),
        ("z + x", {13}),
        ("x + 1", {17}),
    ],
)
def test_the_lines_that_run_with_a_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: str, lines: set[int] | None
) -> None:
    monkeypatch.setattr(line_records, "ROOT", tmp_path)
    (tmp_path / "file.py").write_text(TEXT)
    start = TEXT.index(old)
    line = TEXT[:start].count("\n") + 1
    fault = faults.Fault("file.py", "sign", line, start, start + len(old), old, "0")
    assert line_records.lines_of(fault) == lines


def test_a_copy_has_a_fault_for_a_while_and_nothing_compiled_of_it(tmp_path: Path) -> None:
    file, compiled = tmp_path / "file.py", tmp_path / "__pycache__" / "file.cpython-311.pyc"
    compiled.parent.mkdir()
    file.write_text("y = a + b")
    compiled.touch()
    with trial.with_fault(tmp_path, faults.Fault("file.py", "sign", 1, 4, 9, "a + b", "a - b")):
        assert file.read_text() == "y = a - b"
        assert not compiled.exists()
        compiled.touch()
    assert file.read_text() == "y = a + b"
    assert not compiled.exists()


PACKAGE = """\
from functools import cache


def plain():
    return 1


@cache
def kept():
    return plain()


def at_import():
    return 2


VALUE = at_import()
"""
TESTS = """\
import subprocess
import sys

import pytest
from relaxjax import code


@pytest.fixture(scope="module")
def shared():
    return code.plain()


def test_keeps():
    code.kept()


def test_nothing():
    pass


def test_process():
    subprocess.run([sys.executable, "-c", ""], check=True)
"""
FIXTURE = "\n\ndef test_shares(shared):\n    pass\n"


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="sys.monitoring is new in Python 3.12")
def test_what_runs_once_for_several_tests_counts_for_all_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In `test_a.py` a function keeps its result, in `test_b.py` a fixture does."""
    texts = {
        "relaxjax/__init__.py": "",
        "relaxjax/code.py": PACKAGE,
        "tests/test_a.py": TESTS,
        "tests/test_b.py": TESTS.replace("code.kept()", "pass") + FIXTURE,
        "tests/test_c.py": TESTS.replace("code.kept()", "code.plain()"),
        "tests/long/executed_lines.py": (LONG / "executed_lines.py").read_text(),
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for module in (faults, line_records, trial):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(trial, "TESTS", tmp_path / "tests")
    notes = tmp_path / "notes"
    line_records.begin(notes)
    env = {"PYTHONPATH": f"{tmp_path}:{tmp_path / 'tests' / 'long'}", "RELAXJAX_STAGE": "fast"}
    command = [sys.executable, "-m", "pytest", "-p", "executed_lines", "-n", "1", "tests"]
    subprocess.run(command, cwd=tmp_path, env=env | {"RELAXJAX_LINES": str(notes)}, check=True)

    def cases(old: str) -> dict[str, set[str]]:
        start = PACKAGE.index(old)
        line = PACKAGE[:start].count("\n") + 1
        fault = faults.Fault("relaxjax/code.py", "sign", line, start, start + 1, old, "0")
        found = trial.chosen_tests(fault, "fast", Executing([fault], notes))
        return {Path(path).stem: {*(tests or ())} for path, (_, tests) in found.items()}

    every, process = {"test_keeps", "test_nothing", "test_process"}, {"test_process"}
    shares = {*every, "test_shares"}
    assert cases("1") == {"test_a": every, "test_b": shares, "test_c": {"test_keeps", *process}}
    assert cases("2") == {"test_a": every, "test_b": shares, "test_c": every}
    assert line_records.noted("fast", notes) == [f"tests/test_{name}.py" for name in "abc"]

    (tmp_path / "tests" / "test_a.py").write_text("# changed")
    assert "test_a" in cases("1")
    assert cases("1")["test_a"] == set()
    assert line_records.noted("fast", notes) == ["tests/test_b.py", "tests/test_c.py"]


SUITE = ["near.py::test_quick", "near.py::test_slow", "far.py::test_far"]
LEFT = ["far.py::test_left"]


@pytest.mark.parametrize(
    ("stage", "wanted"), [("suite", SUITE), ("full", LEFT), ("fast", SUITE + LEFT)]
)
def test_chosen_tests_run_the_nearest_first(tmp_path: Path, stage: str, wanted: list[str]) -> None:
    """And of these the quickest; what is not chosen is not even read."""
    left = "def left_out(items): return {item for item in items if item.name == 'test_left'}"
    texts = {
        "test_near": "def test_slow(): pass\n\ndef test_quick(): pass\n\ndef test_other(): pass",
        "test_far": "def test_far(): pass\n\ndef test_left(): pass",
        "test_out": "raise ValueError",
        "suite_part": left,
        "long/chosen_tests": (LONG / "chosen_tests.py").read_text(),
    }
    (tmp_path / "tests" / "long").mkdir(parents=True)
    for name, text in texts.items():
        (tmp_path / "tests" / f"{name}.py").write_text(text)
    near = {"test_slow": 2.0, "test_quick": 1.0}
    chosen = {"tests/test_far.py": (2, None), "tests/test_near.py": (0, near)}
    (tmp_path / "chosen.json").write_text(json.dumps(chosen))
    folders = (tmp_path / "tests", tmp_path / "tests" / "long")
    env = {"PYTHONPATH": os.pathsep.join(map(str, folders)), "RELAXJAX_STAGE": stage}
    env["RELAXJAX_CHOSEN"] = str(tmp_path / "chosen.json")
    command = [sys.executable, "-m", "pytest", "-v", "-p", "chosen_tests", "tests"]
    run = subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True, text=True)
    ran = [line.split()[0] for line in run.stdout.splitlines() if "PASSED" in line]
    assert ran == [f"tests/test_{name}" for name in wanted]
