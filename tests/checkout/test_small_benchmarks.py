"""Benchmarks of single questions run, and print what they say that they do."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))

import suite  # noqa: E402  # found by the path above


@pytest.mark.parametrize("kept", [True, False])
def test_the_suite_keeps_memory_before_anything_is_measured(
    kept: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run with kept memory does not overwrite the results of one without."""
    events: list[str] = []

    def measured(name: str, *args: Any) -> dict[str, suite.Row]:
        events.append(name)
        return {}

    monkeypatch.setattr(suite, "keep_freed_memory", lambda: events.append("keep"))
    monkeypatch.setattr(suite, "started", lambda names: events.append("start"))
    monkeypatch.setattr(suite, "measured", measured)
    monkeypatch.setattr(suite, "__file__", str(tmp_path / "suite.py"))
    options = ["--quick", "--only", "MLP", *["--keep-memory"] * kept]
    monkeypatch.setattr(sys, "argv", ["suite.py", *options])
    suite.main()
    assert events == [*["keep"] * kept, "start", "MLP"]
    (path,) = tmp_path.rglob("*.json")
    assert path.stem.endswith("-quick-kept" if kept else "-quick")
    assert list(json.loads(path.read_text())["models"]) == ["MLP"]


@pytest.mark.parametrize(
    "name",
    ["suite", "update_share", "drop_in", "libraries", "depth", "scaling", "many_devices"],
)
def test_compile_times_are_of_programs_that_no_run_before_has_kept(name: str) -> None:
    """Else a second run would read what the passes of the first one made."""
    off = 'os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"\n'
    assert off in (BENCHMARKS / f"{name}.py").read_text()


def test_the_kernels_of_a_step_are_listed_with_their_sum() -> None:
    """In a process of its own: XLA reads what it is told to profile when it starts."""
    command = [sys.executable, "step_kernels.py", "tutorial's MLP, SGD"]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()[1:]
    assert head.split() == ["kernel", "us"]
    times = {" ".join(row.split()[:-1]): float(row.split()[-1]) for row in rows[1:]}
    together = times.pop("together")
    assert any("dot" in name or "fusion" in name for name in times)
    assert abs(sum(times.values()) - together) <= 0.1 * len(times)
