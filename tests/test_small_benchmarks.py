"""Benchmarks of single questions run, and print what they say that they do."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
if not BENCHMARKS.exists():
    pytest.skip("there is no checkout around these tests", allow_module_level=True)
sys.path.append(str(BENCHMARKS))

import suite  # noqa: E402  # found by the path above
import transposes  # noqa: E402  # found by the path above


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


def test_both_forms_of_a_transposed_product_are_the_same() -> None:
    a, b = (np.random.default_rng(0).normal(size=(5, n)).astype("float32") for n in (3, 4))
    forms = [jax.jit(form)(a, b) for form in (transposes.as_it_is, transposes.written_out)]
    chex.assert_trees_all_close(*forms, jnp.asarray(a.T @ b), rtol=1e-5)


def test_the_table_of_transposes_has_a_row_for_each_product(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(transposes, "SIZES", [(8, 4, 8), (512, 256, 512)])
    monkeypatch.setattr(transposes, "WORK", 1)
    monkeypatch.setattr(sys, "argv", ["transposes.py", "--rounds", "1"])
    transposes.main()
    *_, small, large = capsys.readouterr().out.splitlines()
    assert small.startswith("8 x 4 x 8, 2^8.0 ")
    assert small.endswith(" as it is")
    assert large.startswith("512 x 256 x 512, 2^26.0 ")
    assert large.endswith(" written out")


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
