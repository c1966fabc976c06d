"""The small faults that the tests are to catch are what they say, and leave a file that runs."""

import ast
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "long"))

import mutation  # found by the path above


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
    monkeypatch.setattr(mutation, "ROOT", tmp_path)
    path = tmp_path / "file.py"
    path.write_text(text)
    found = {fault.kind: fault for fault in mutation.Faults(path).found}
    if kind is None:
        assert not found
        return
    found[kind].put_into(tmp_path)
    assert path.read_text() == faulty


def test_what_is_drawn_is_the_same_for_a_seed_and_leaves_files_that_can_be_read(
    tmp_path: Path,
) -> None:
    faults = mutation.drawn(seed=1, count=40)
    assert faults == mutation.drawn(seed=1, count=40)
    assert len({fault.name for fault in faults}) == 40
    for fault in faults:
        path = tmp_path / fault.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((Path(__file__).parents[2] / fault.path).read_bytes())
        fault.put_into(tmp_path)
        ast.parse(path.read_bytes())


def test_a_fault_is_tried_by_the_stages_that_did_not_try_it_until_one_catches_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[list[str]] = []

    def caught_by(fault: object, stages: list[str]) -> str:
        asked.append(stages)
        return "suite" if "suite" in stages else mutation.SURVIVED

    monkeypatch.setattr(mutation, "RECORD", tmp_path / "mutation.json")
    monkeypatch.setattr(mutation, "caught_by", caught_by)
    for stages in (["fast"], ["fast"], ["fast", "suite"], ["fast", "suite", "as_users"]):
        mutation.attempt(seed=1, count=4, stages=stages)
    assert asked == [["fast"]] * 4 + [["suite"]] * 4
    assert {(one["caught"], tuple(one["tried"])) for one in mutation.recorded()} == {
        ("suite", ("fast", "suite"))
    }


def test_a_fault_of_a_file_that_has_changed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("y = a - b")
    fault = mutation.Fault("file.py", "sign", 1, 4, 9, "a + b", "a - b")
    with pytest.raises(ValueError, match=r"file.py:1: a \+ b -> a - b: the file has changed since"):
        fault.put_into(tmp_path)


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("passes/memory/heap.py", "tests/passes/memory"),
        ("relaxjax/ops/nn/norm.py", "tests/ops"),
        ("relaxjax/lowering/emit/source.py", "tests/lowering"),
    ],
)
def test_the_tests_of_a_file_are_in_the_folder_that_mirrors_it(path: str, folder: str) -> None:
    assert mutation._mirror(path) == folder
