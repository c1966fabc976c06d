"""A training that its parent kills again and again: run by test_kill.py, with a folder to work in.

Its model is one of Relax, or a loss in JAX with a model state and dropout by a random key, on one
device or on two or on those of two processes, with checkpoints in one file or of shards.

The parent imports everything once and never touches a device. Each child is a fork, or two of them,
that goes on with the training from its last checkpoint, until the parent kills it at a random
moment; the last child is left alone. So a child starts in a moment, and dies as if its machine had
lost power.
"""

import os
import random
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from small_models import BATCH, CLASSES, FEATURES, classifier

from relaxjax.optim import MomentumSGD
from relaxjax.training import Checkpoints, Lines, Trainer
from relaxjax.training.devices.processes import whole_on_host

STEPS = 25  # in an epoch


def in_relax() -> Trainer:
    trainer = classifier(MomentumSGD(0.1, 0.9))
    trainer.xavier_uniform_init_params(seed=1)
    return trainer


def in_jax(**options: Any) -> Trainer:
    def loss(params: Any, mean: Any, batch: Any, key: Any) -> Any:
        inputs, labels = batch
        hidden = jnp.tanh(inputs @ params["w0"])
        kept = jnp.where(jax.random.bernoulli(key, 0.7, hidden.shape), hidden, 0.0)
        value = optax.softmax_cross_entropy_with_integer_labels(kept @ params["w1"], labels).mean()
        return value, (0.9 * mean + 0.1 * value, None)

    keys = jax.random.split(jax.random.key(0))
    shapes = {"w0": (FEATURES, 8), "w1": (8, CLASSES)}
    pairs = zip(keys, shapes.items(), strict=True)
    params = {name: jax.random.normal(key, shape) for key, (name, shape) in pairs}
    batch = np.zeros((BATCH, FEATURES), "float32"), np.zeros(BATCH, "int32")
    given: dict[str, Any] = {"model_state": jnp.float32(0), "key": jax.random.key(1), **options}
    return Trainer.from_jax(loss, params, optax.adamw(1e-2), batch, **given)


def on_devices() -> Trainer:
    return in_jax(devices=jax.device_count(), sharding="fsdp")


MODELS = {
    "relax": in_relax,
    "jax": in_jax,
    "devices": on_devices,
    "shards": on_devices,
    "processes": on_devices,
}


def train(folder: Path, epochs: int, model: str, resume: bool, port: int, number: int) -> None:
    """Train to the end, with a checkpoint every other step, and leave the parameters there."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(STEPS, BATCH, FEATURES)).astype("float32")
    labels = rng.integers(0, CLASSES, (STEPS, BATCH)).astype("int32")
    if MODELS[model] is on_devices:  # before JAX is first used, in each child
        jax.config.update("jax_num_cpu_devices", 2)
    if model == "processes":
        jax.distributed.initialize(f"127.0.0.1:{port}", 2, number, initialization_timeout=60)
    trainer = MODELS[model]()
    rows = trainer.rows_of_process(BATCH)
    inputs, labels = inputs[:, rows], labels[:, rows]
    trainer.fit(
        lambda epoch: list(zip(np.roll(inputs, epoch, 0), np.roll(labels, epoch, 0), strict=True)),
        epochs,
        reporter=Lines(lambda line: None),
        checkpoints=Checkpoints(folder / "run", every=2, sharded=model in ("shards", "processes")),
        resume=resume,
    )
    params: dict[str, Any] = {k: whole_on_host(v) for k, v in trainer.export_params().items()}
    if number == 0:
        np.savez(folder / "done", **params)


def started(folder: Path, epochs: int, model: str, resume: bool) -> list[int]:
    """The process ids of a child, which is several processes where the model is in them."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    numbers = range(2 if model == "processes" else 1)
    return [
        forked(partial(train, folder, epochs, model, resume, port, number)) for number in numbers
    ]


def forked(work: Callable[[], None]) -> int:
    """The process id of a child that does its work and ends."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)


def checkpoints(folder: Path) -> set[Path]:
    """Those that are whole, in one file or of shards."""
    return {*(folder / "run").glob("step-*.safetensors"), *(folder / "run").glob("step-*/index.*")}


def ended_well(child: list[int]) -> bool:
    return all(os.waitpid(one, 0)[1] == 0 for one in child)


def kill_after_progress(folder: Path, child: list[int], moment: random.Random) -> None:
    """Kill the child once it has written a checkpoint of its own and a little more time."""
    before = checkpoints(folder)
    while checkpoints(folder) <= before:
        for one in child:
            ended, status = os.waitpid(one, os.WNOHANG)
            if ended:
                sys.exit(f"the child ended by itself with status {status}")
        time.sleep(0.002)
    for one in moment.sample(child, len(child)):
        time.sleep(moment.uniform(0, 0.006))
        os.kill(one, signal.SIGKILL)
    for one in child:
        _, status = os.waitpid(one, 0)
        assert os.WIFSIGNALED(status), f"a child was done before it was killed, by {status}"


def main(folder: Path, kills: int, epochs: int, model: str) -> None:
    jax.config.update("jax_compilation_cache_dir", str(folder / "cache"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    (folder / "run").mkdir()
    (folder / "whole").mkdir()
    assert ended_well(started(folder / "whole", epochs, model, resume=False))
    moment = random.Random(0)
    for _ in range(kills):
        kill_after_progress(folder, started(folder, epochs, model, resume=True), moment)
    assert ended_well(started(folder, epochs, model, resume=True))


if __name__ == "__main__":
    # JAX warns of forks because a device's threads do not survive them; the parent has no device.
    warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
