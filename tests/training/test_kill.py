"""A training that is killed at random moments and resumed ends with the very same weights.

It is killed once, a loss in JAX. If `RELAXJAX_FULL` is set, it is killed twenty times, and so is a
module, on two devices and in two processes, too, with checkpoints in one file or of shards.
"""

import os
import subprocess
import sys
from pathlib import Path

import chex
import numpy as np
import pytest
from full import FULL

HERE = Path(__file__).parent
KILLS, EPOCHS = (20, 12) if FULL else (1, 6)
STEPS = 25 * EPOCHS
MODELS = [("jax", "params_w0")]
if FULL:
    MODELS.append(("relax", "w0"))
    MODELS += [(name, "params_w0") for name in ("devices", "shards", "processes")]


@pytest.mark.smoke
@pytest.mark.skipif(
    sys.platform != "linux", reason="children are forks, which not all platforms bear"
)
@pytest.mark.parametrize(("model", "first"), MODELS)
def test_kills_leave_no_trace_in_the_weights(tmp_path: Path, model: str, first: str) -> None:
    given = filter(None, [os.environ.get("PYTHONPATH")])
    paths = [str(HERE.parent / "support"), *given, str(HERE.parents[1])]
    arguments = [str(tmp_path), str(KILLS), str(EPOCHS), model]
    command = [sys.executable, str(HERE / "killed_training.py"), *arguments]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    found, expected = (dict(np.load(path / "done.npz")) for path in (tmp_path, tmp_path / "whole"))
    chex.assert_trees_all_equal(found, expected)
    assert np.any(found[first])
    left = sorted(os.listdir(tmp_path / "run"))
    ending = "" if model in ("shards", "processes") else ".safetensors"
    assert left == [f"step-{steps:09}{ending}" for steps in (STEPS - 4, STEPS - 2, STEPS)]
