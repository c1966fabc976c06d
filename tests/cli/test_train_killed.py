"""A training on files that is killed in the middle of an epoch repeats and skips no batch."""

import json
import os
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import chex
import numpy as np
import pytest
from forked_programs import run_program
from full import FULL
from safetensors.numpy import load_file, save_file

MODEL = """
@R.function
def backbone(x: R.Tensor((8, 4), "float32"), w: R.Tensor((4, 3), "float32")):
    out = R.matmul(x, w)
    return out
"""
SAMPLES, STEPS, KEPT = 40, 10, 8  # two epochs of five batches; the last checkpoint is at step 8

# Each sample has its number in it. What is trained on is noted, until there are so many steps.
PROGRAM = """
import json, os, signal, sys
import jax
import numpy as np
from relaxjax.cli import main
from relaxjax.training import Trainer

jax.config.update("jax_disable_most_optimizations", True)
notes, most = open(sys.argv[1], "w"), int(sys.argv[2])
made = 0


def noted(update):
    def call(trainer, x, y, *steps):
        global made
        arrays = np.asarray(x)[: steps[0]] if steps else np.asarray(x)[None]
        if made + len(arrays) > most:
            os.kill(os.getpid(), signal.SIGKILL)
        made += len(arrays)
        for array in arrays:
            print(json.dumps(np.rint(array[:, 0] * 100).astype(int).tolist()), file=notes)
        notes.flush()
        return update(trainer, x, y, *steps)

    return call


Trainer.update, Trainer.update_many = noted(Trainer.update), noted(Trainer.update_many)
sys.exit(main(sys.argv[3:]))
"""


def as_folder(place: Path, arrays: dict[str, Any]) -> Path:
    (place / "data").mkdir()
    for name, array in arrays.items():
        np.save(place / "data" / f"{name}.npy", array)
    return place / "data"


def as_safetensors(place: Path, arrays: dict[str, Any]) -> Path:
    save_file(arrays, place / "data.safetensors")
    return place / "data.safetensors"


@pytest.fixture
def arrays(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "program.py").write_text(PROGRAM)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SAMPLES, 4)).astype("float32")
    x[:, 0] = np.arange(SAMPLES) / 100
    return {"x": x, "y": rng.integers(0, 3, SAMPLES).astype("int32")}


def trained(
    place: Path, data: Path, out: str, processes: int = 1, most: int = STEPS, *options: str
) -> list[list[int]]:
    """The samples of each step that was made, of all processes, which end after so many steps."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def one(number: int) -> list[list[int]]:
        notes = place / f"notes-{number}"
        given = ["train", str(place / "model.py"), "--data", str(data), "--epochs", "2"]
        given += ["--out", str(place / out), "--every", "2", *options]
        if processes > 1:
            given += ["--coordinator", f"127.0.0.1:{port}", "--processes", str(processes)]
            given += ["--process-id", str(number), "--cpu-devices", "1"]
        done = run_program(
            place / "program.py",
            [str(notes), str(most), *given],
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )
        assert done.returncode == (0 if most == STEPS else -9), done.stderr
        return [json.loads(line) for line in notes.read_text().splitlines()]

    with ThreadPoolExecutor(processes) as pool:
        found: Sequence[list[list[int]]] = list(pool.map(one, range(processes)))
    return [[*chain(*parts)] for parts in zip(*found, strict=True)]


CASES = [pytest.param(as_folder, 1, 1, id="one process")]
if FULL:
    CASES += [
        pytest.param(as_safetensors, 2, 1, id="two processes, then one"),
        pytest.param(as_folder, 1, 2, id="one process, then two"),
        pytest.param(as_safetensors, 2, 2, id="two processes"),
    ]


@pytest.mark.parametrize(("saved", "before", "after"), CASES)
def test_no_batch_is_repeated_or_skipped(
    saved: Any, before: int, after: int, tmp_path: Path, arrays: dict[str, Any]
) -> None:
    data = saved(tmp_path, arrays)
    whole = trained(tmp_path, data, "whole")
    for start in (0, 5):
        assert sorted(chain(*whole[start : start + 5])) == [*range(SAMPLES)]
    assert whole[:5] != whole[5:]
    killed = trained(tmp_path, data, "run", before, 9)
    assert killed == whole[: len(killed)]
    assert KEPT <= len(killed) <= 9
    assert trained(tmp_path, data, "run", after, STEPS, "--resume") == whole[KEPT:]
    found, wanted = (load_file(tmp_path / out / "model.safetensors") for out in ("run", "whole"))
    near = {"rtol": 0.0, "atol": 0.0} if before == after == 1 else {"rtol": 1e-5, "atol": 1e-6}
    chex.assert_trees_all_close(found, wanted, **near)
