"""Training on several devices from the command line."""

import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from forked_programs import run_program
from full import FULL
from several_devices import printed_lines

from relaxjax.cli import main

MODEL = """
@R.function
def backbone(x: R.Tensor((8, 4), "float32"), w0: R.Tensor((4, 8), "float32"),
             w1: R.Tensor((8, 4), "float32")):
    with R.dataflow():
        hidden = R.nn.relu(R.matmul(x, w0))
        out = R.matmul(hidden, w1)
        R.output(out)
    return out
"""

PROGRAM = """
import jax
from relaxjax.cli import main

jax.config.update("jax_disable_most_optimizations", True)
folder = {folder!r}
options = ["train", folder + "/model.py", "--data", folder + "/data.npz", "--epochs", "2"]
for name, more in {runs!r}.items():
    assert main([*options, "--out", folder + "/" + name, *more]) == 0
"""


def losses(folder: Path) -> list[float]:
    lines = (folder / "log.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


def written(folder: Path) -> None:
    rng = np.random.default_rng(0)
    (folder / "model.py").write_text(MODEL)
    x, y = rng.normal(size=(32, 4)).astype("f"), rng.integers(0, 4, 32).astype("i")
    np.savez(folder / "data.npz", x=x, y=y, x_test=x[:8], y_test=y[:8])


@pytest.mark.skipif(not FULL, reason="the trainer's own tests try as much: RELAXJAX_FULL=1")
def test_a_mesh_trains_as_one_device_does(tmp_path: Path) -> None:
    written(tmp_path)
    runs = {"alone": [], "mixed": ["--mesh", "data=2,model=2", "--sharding", "w0=-,model;w1=model"]}
    printed = printed_lines(PROGRAM.format(folder=str(tmp_path), runs=runs), 4)
    assert sum("64 parameters, 32 examples in batches of 8" in line for line in printed) == 2
    np.testing.assert_allclose(losses(tmp_path / "mixed"), losses(tmp_path / "alone"), rtol=1e-4)


@pytest.mark.skipif(not FULL, reason="it starts three processes: RELAXJAX_FULL=1")
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    """They are started by a command, which is none of them."""
    written(tmp_path)
    two = ["--cpu-devices", "1", "--processes", "2", "--sharding", "fsdp"]
    printed_lines(PROGRAM.format(folder=str(tmp_path), runs={"alone": [], "two": two}), 1)
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "alone"), rtol=1e-4)


@pytest.mark.skipif(not FULL, reason="it starts five processes: RELAXJAX_FULL=1")
def test_two_processes_read_their_parts_of_files(tmp_path: Path) -> None:
    """A training of which they make one epoch, and another one that goes on, is that of one."""
    written(tmp_path)
    (tmp_path / "data").mkdir()
    with np.load(tmp_path / "data.npz") as arrays:
        for name, array in arrays.items():
            np.save(tmp_path / "data" / f"{name}.npy", array)
    two = ["--cpu-devices", "1", "--processes", "2", "--data", str(tmp_path / "data")]
    begun = PROGRAM.format(folder=str(tmp_path), runs={"alone": [], "two": [*two, "--epochs", "1"]})
    printed_lines(begun, 1)
    assert len(losses(tmp_path / "two")) == 1
    rest = PROGRAM.format(folder=str(tmp_path), runs={"two": [*two, "--resume"]})
    printed_lines(rest, 1)
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "alone"), rtol=1e-4)


@pytest.mark.skipif(not FULL, reason="two processes compile what they run: RELAXJAX_FULL=1")
def test_two_tasks_of_slurm_train_as_one(tmp_path: Path) -> None:
    written(tmp_path)
    program = tmp_path / "program.py"
    program.write_text("import sys\nfrom relaxjax.cli import main\nsys.exit(main(sys.argv[1:]))\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    slurm = {
        "SLURM_JOB_ID": "1",
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NTASKS": "2",
        "SLURM_LOCALID": "0",
        "JAX_COORDINATOR_PORT": port,
    }

    def trained(number: int | None) -> list[str]:
        own = {} if number is None else {**slurm, "SLURM_PROCID": f"{number}"}
        out = tmp_path / ("alone" if number is None else "two")
        options = ["train", str(tmp_path / "model.py"), "--data", str(tmp_path / "data.npz")]
        options += ["--epochs", "2", "--out", str(out), "--sharded-checkpoints"]
        done = run_program(program, options, env={**os.environ, **own, "JAX_PLATFORMS": "cpu"})
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(trained, (0, 1))
    assert f"Slurm started 2 processes, which met at localhost:{port}" in first
    assert not [line for line in second if "Gloo" not in line]
    trained(None)
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "alone"), rtol=1e-4)
    assert len([*(tmp_path / "two" / "checkpoints").glob("step-*/part-*")]) == 4


def test_more_devices_than_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path)
    options = ["train", str(tmp_path / "model.py"), "--data", str(tmp_path / "data.npz")]
    for option, value, count in (("--devices", "999", 999), ("--mesh", "data=99,model=10", 990)):
        assert main([*options, "--out", str(tmp_path / "run"), option, value]) == 2
        message = capsys.readouterr().err
        assert f"{option} asks for {count} devices, but there " in message
        assert f"by --cpu-devices {count}\n" in message
