"""Batches and trainers on several devices, of which a process of its own has four."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from small_models import batch, classifier
from relaxjax.training import Lines

quiet = Lines(lambda line: None)
devices = jax.devices()
mesh = Mesh(np.array(devices), ("samples",))
split = NamedSharding(mesh, PartitionSpec("samples"))
alone = classifier()
there, shared = (jax.device_put(batch(0), place) for place in (devices[1], split))
for given in (there, shared):
    try:
        alone.fit([given], reporter=quiet)
    except ValueError as error:
        print(error)
print(len(alone.fit([there, shared], reporter=quiet, prefetch=1)))
"""


def test_a_batch_on_other_devices_than_the_trainer_is_an_error_that_names_both() -> None:
    """Where batches are placed ahead of time they are moved there."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    paths = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1]), *sys.path]
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={
            **os.environ,
            "XLA_FLAGS": flags,
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    mend = (
        "move the batch there by jax.device_put, or give the trainer its place by "
        "Trainer(..., device=...)"
    )
    assert result.stdout.splitlines() == [
        f"the batch lies on cpu:1, the trainer on cpu:0: {mend}",
        f"the batch lies on cpu:0, cpu:1, cpu:2, cpu:3, the trainer on cpu:0: {mend}",
        "1",
    ]
