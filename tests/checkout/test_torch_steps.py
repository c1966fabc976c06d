"""tests/long/torch_steps.py: it goes on where it was, tells what failed, and writes a table."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "long"))

import torch_steps  # found by the path above


def _row(eager: float = 0.04, taken: int = 100) -> dict[str, Any]:
    seconds = {"here": 0.02, "balanced": 0.03, "eager": eager, "compiled": 0.01}
    return {
        "seconds": seconds,
        "ratios": {f"{a} / {b}": seconds[a] / seconds[b] for a, b in torch_steps.PAIRS},
        "bytes": {"here": taken, "balanced": 50, "eager": 200, "compiled": 0},
    }


def test_it_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What failed is tried again; what is done is not, unless it is named."""
    rows = {"a": _row(), "b": {"failed": "ValueError: too deep"}, "c": _row()}
    asked: list[str] = []

    def measured(name: str, rounds: int) -> Any:
        asked.append(name)
        return rows[name]

    monkeypatch.setattr(torch_steps, "RESULTS", tmp_path / "steps.json")
    monkeypatch.setattr(torch_steps, "measured_apart", measured)
    assert torch_steps.measure(["c"], list(rows), 1) == 0
    assert torch_steps.measure([], list(rows), 1) == 1
    assert list(json.loads((tmp_path / "steps.json").read_text())["models"]) == ["a", "b", "c"]
    rows["b"] = _row()
    assert torch_steps.measure([], list(rows), 1) == 0
    assert asked == ["c", "a", "b", "b"]
    with pytest.raises(SystemExit, match="no such model: d; there are: a, b, c"):
        torch_steps.measure(["d"], list(rows), 1)


def test_the_page_has_what_was_measured_and_what_failed() -> None:
    where = {"processor": "a CPU", "cores": 2, "python": "3.11", "jax": "0.10.2", "date": "today"}
    models = {"a": _row(), "b": {"failed": "of memory"}, "c": _row(eager=0.16, taken=50)}
    page = f"before\n{torch_steps.BEGIN}old\n{torch_steps.END}after"
    found = torch_steps.page_with(page, {**where, "models": models})
    assert "old" not in found
    assert found.endswith("after")
    assert (
        "a CPU, 2 cores, Python 3.11, jax 0.10.2, today. Not measured, because they failed: b."
        in found
    )
    rows = [line for line in found.splitlines() if line.startswith("| ")]
    assert (
        rows[2] == "| a | 40.0 | 20.0 | 0.50 | 2.00 | 0.75 | 3.00 | 0.50 | 100.00 | 0.25 | 50.00 |"
    )
    assert rows[-1].startswith("| geometric mean |  |  | 0.25 | 2.00 | 0.38 | 3.00 | 0.35 |")
    assert torch_steps.page_with(found, {**where, "models": models}) == found


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ({"returncode": 1, "stderr": "a warning\nValueError: too deep\n"}, "ValueError: too deep"),
        ({"returncode": -9, "stderr": ""}, "it said nothing"),
    ],
)
def test_a_model_that_fails_is_told(
    result: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **options: Any) -> Any:
        assert command[2:] == ["--child", "deep", "--rounds", "3"]
        return subprocess.CompletedProcess(command, stdout="", **result)

    monkeypatch.setattr(subprocess, "run", run)
    assert torch_steps.measured_apart("deep", 3) == {"failed": told}


def test_a_model_that_takes_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **options: Any) -> Any:
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(subprocess, "run", run)
    assert torch_steps.measured_apart("deep", 3) == {"failed": "it took more than 30 minutes"}
