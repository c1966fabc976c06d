"""A training in two processes of two devices each, copies of one that has JAX imported."""

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import chex
import numpy as np
import pytest
from forked_programs import run_program
from full import FULL
from spread_models import MODELS

PROGRAM = """
import sys
import jax
import numpy as np

address, number, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_disable_most_optimizations", True)
jax.distributed.initialize(address, 2, number, initialization_timeout=60)

from relaxjax.training import Checkpoints, Lines, ProcessesError
from relaxjax.training.devices.processes import on_host
from spread_models import MODELS, SAMPLES

model = MODELS["layers"]("float32")
trainer = model.trainer(devices=4, sharding="fsdp")
rows = trainer.rows_of_process(SAMPLES)
parts = [(x[rows], y[rows]) for x, y in model.batches]
print("shows", rows)


def told(run):
    try:
        run()
    except (ProcessesError, ValueError) as error:
        print(str(error).replace("\\n", " "))
    else:
        raise AssertionError("no error")


def fit(batches, **options):
    return trainer.fit(batches, 1, model.batches[:2], Lines(lambda line: print("shown")), **options)


report = fit(parts[:3], checkpoints=Checkpoints(folder + "/run"), metrics=["accuracy"])[0]
print(report.loss, report.metrics["eval_loss"], np.sum(trainer.predict(model.batches[0][0])))
trainer.load(folder + "/run/step-000000003.safetensors")
shards = Checkpoints(folder + "/run", every=1, sharded=True)
trainer.fit(parts[:3], 2, reporter=Lines(lambda line: None), checkpoints=shards, resume=True)
print([path.name for path in shards.paths()], len(list(shards.paths()[-1].iterdir())))
before = on_host(trainer.export_params())
trainer.load(shards.paths()[-1])
print(jax.tree.all(jax.tree.map(np.array_equal, on_host(trainer.export_params()), before)))
if not number:
    np.savez(folder + "/params.npz", **before)
fit(iter(parts[:2]))
told(lambda: fit(parts[: 2 + number]))
told(lambda: fit(iter(parts[: 2 + number])))
told(lambda: fit([(x[: 8 - 4 * number], y) for x, y in parts]))
told(lambda: model.trainer(devices=4, sharding="fsdp" if number else "data"))
told(lambda: model.trainer(devices=2))
"""


@pytest.mark.skipif(not FULL, reason="two processes compile what they run: RELAXJAX_FULL=1")
def test_two_processes_train_as_one_and_see_where_they_differ(tmp_path: Path) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{found.getsockname()[1]}"
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def lines(number: int) -> list[str]:
        arguments = [address, str(number), str(tmp_path)]
        result = run_program(program, arguments, env={**os.environ, "JAX_PLATFORMS": "cpu"})
        assert result.returncode == 0, result.stderr
        return [line for line in result.stdout.splitlines() if not line.startswith("[Gloo]")]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lines, (0, 1))
    assert (first.pop(0), second.pop(0)) == ("shows slice(0, 8, None)", "shows slice(8, 16, None)")
    assert [line for line in first if line != "shown"] == second
    assert first.count("shown") == 2
    _, losses = (model := MODELS["layers"]("float32")).losses(3)
    numbers = [float(number) for number in second[0].split()]
    np.testing.assert_allclose(numbers[0], losses.mean(), rtol=1e-5)
    alone = model.trainer()
    report = alone.fit(model.batches[:3], 1, model.batches[:2], metrics=["accuracy"])[0]
    np.testing.assert_allclose(numbers[1], report.metrics["eval_loss"], rtol=1e-4)
    np.testing.assert_allclose(numbers[2], np.sum(alone.predict(model.batches[0][0])), rtol=1e-3)
    folders = ["step-000000004", "step-000000005", "step-000000006"]
    assert second[1:3] == [f"{folders} 3", "True"]
    alone.load(tmp_path / "run" / folders[-1])
    chex.assert_trees_all_equal(alone.export_params(), dict(np.load(tmp_path / "params.npz")))
    said = second[3:]
    assert said[0].startswith("the processes differ in the batches of an epoch: process 0 has 2 b")
    assert "process 0 has no batch any more, process 1 has one of" in said[1]
    assert said[2].startswith("the processes differ in the batches of an epoch: process 0 has 20 b")
    assert said[3].startswith("the processes differ in the program: process 0 has the program ")
    assert said[4] == (
        "the mesh has 2 devices, of 1 of the 2 processes: give a mesh of all 4 devices, such as "
        '{"data": 4}'
    )
