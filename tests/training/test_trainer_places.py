"""Batches and trainers on several devices, of which a process of its own has four."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chex
import jax
import numpy as np
import pytest
from parsing import parse_backbone
from several_devices import printed_lines

from relaxjax import IRModule, SetupTrainer, TensorType
from relaxjax.losses import CrossEntropyLoss
from relaxjax.lowering import LoweringError, VirtualMachine, build
from relaxjax.optim import Adam
from relaxjax.training import Trainer, load_trainer

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
    mend = (
        "move the batch there by jax.device_put, or give the trainer its place by "
        "Trainer(..., device=...)"
    )
    assert printed_lines(PROGRAM, 4) == [
        f"the batch lies on cpu:1, the trainer on cpu:0: {mend}",
        f"the batch lies on cpu:0, cpu:1, cpu:2, cpu:3, the trainer on cpu:0: {mend}",
        "1",
    ]


DEFAULT = """
import tempfile
import jax
from small_models import batch, classifier
from relaxjax.optim import SGD
from relaxjax.training import load_trainer

first, second = jax.devices()


def used(trainer):
    inputs, targets = batch(0)
    loss = trainer.update(inputs, targets)
    scores = trainer.predict(inputs)
    value, _ = trainer.evaluate(inputs, targets)
    arrays = [*trainer.export_params().values(), loss, scores, value]
    return trainer.device, {str(device) for array in arrays for device in array.devices()}


print(*used(classifier(SGD(0.2))))
with jax.default_device(second):
    print(*used(classifier(SGD(0.3))))
jax.config.update("jax_default_device", second)
made = classifier(SGD(0.4))  # another one is built anew
print(*used(made))
with tempfile.TemporaryDirectory() as folder:
    made.save(f"{folder}/model")
    for device in (None, "cpu", "cpu:1", first):
        print(*used(load_trainer(f"{folder}/model", device)))
"""


def test_a_trainer_is_where_jax_puts_what_nobody_has_placed() -> None:
    """Or where it is told to be: parameters, steps, predictions, evaluations."""
    first, second = "cpu:0 {'cpu:0'}", "cpu:1 {'cpu:1'}"
    expected = [first, second, second, second, first, second, first]
    assert printed_lines(DEFAULT, 2) == expected


BODY = """
    h = R.nn.relu(R.nn.conv2d(x, k0, padding=1))
    maps = R.nn.conv2d(h, k1, padding=1)
    out = R.matmul(R.mean(maps, axis=[2, 3]), w)
"""
KERNEL = (16, 16, 3, 3)
MODEL = parse_backbone(BODY, param_num=3, x=(2, 16, 6, 6), k0=KERNEL, k1=KERNEL, w=(16, 3))
BATCH = (
    np.random.default_rng(0).normal(size=(2, 16, 6, 6)).astype("float32"),
    np.array([0, 2], "int32"),
)
LOSS_ARGS = [TensorType((2, 3), "float32"), TensorType((2,), "int32")]


def made_for(target: str) -> IRModule:
    return SetupTrainer(CrossEntropyLoss(), Adam(0.01), LOSS_ARGS, target=target)(MODEL)


def predicting(mod: IRModule) -> Trainer:
    """A trainer that is here, whatever its module is made for."""
    trainer = Trainer(mod, VirtualMachine(build(mod.without_attr("platform"), "cpu")))
    trainer.xavier_uniform_init_params(1)
    return trainer


def test_a_model_of_another_platform_predicts_here_and_is_trained_there(tmp_path: Path) -> None:
    predicting(made_for("cuda")).save(tmp_path / "model")
    trainer, own = load_trainer(tmp_path / "model"), predicting(made_for("cpu"))
    chex.assert_trees_all_close(trainer.predict(BATCH[0]), own.predict(BATCH[0]), rtol=1e-4)
    loss, scores = trainer.evaluate(*BATCH)
    chex.assert_trees_all_close((loss, scores), own.evaluate(*BATCH), rtol=1e-4)
    both = re.escape("the program is made for cuda, but it is to run on cpu: run it on cuda.")
    for step in (trainer.update, trainer.temporary_bytes):
        with pytest.raises(LoweringError, match=both):
            step(*BATCH)


def test_arrays_go_from_a_trainer_of_one_platform_to_one_of_another(tmp_path: Path) -> None:
    """Though each keeps them as is best there: kernels of a CPU have their channels last."""
    there = made_for("cuda").without_attr("platform")
    other = Trainer(there, VirtualMachine(build(there, "cpu")))
    other.xavier_uniform_init_params(1)
    other.update(*BATCH)
    other.save(tmp_path / "model")
    mod = made_for("cpu")
    assert "stored_params" in mod.attrs
    assert "stored_params" not in there.attrs
    own = Trainer(mod, VirtualMachine(build(mod)))
    own.load(tmp_path / "model")
    mine, theirs = (np.array([t.update(*BATCH) for _ in range(3)]) for t in (own, other))
    np.testing.assert_allclose(mine, theirs, rtol=1e-4)


@pytest.mark.parametrize(
    "run",
    [
        lambda mod: build(mod, "cpu"),
        lambda mod: Trainer(mod, VirtualMachine(build(mod.without_attr("platform"))), "cpu").update(
            *BATCH
        ),
        lambda mod: SetupTrainer(CrossEntropyLoss(), Adam(0.1), LOSS_ARGS, target="cpu")(mod),
    ],
)
def test_a_module_of_another_platform_is_not_run_here(run: Callable[[IRModule], Any]) -> None:
    with pytest.raises(LoweringError, match="made for cuda, but it is to run on cpu"):
        run(made_for("cuda"))


def test_a_trainer_has_its_own_device() -> None:
    with pytest.raises(ValueError, match="there is no device for `tpu` here"):
        Trainer(made_for("cpu"), VirtualMachine(build(made_for("cpu"))), "tpu")
    assert predicting(made_for("cpu")).device == jax.devices("cpu")[0]


def test_what_was_trained_on_more_devices_than_are_here_is_loaded_on_one(tmp_path: Path) -> None:
    mod = SetupTrainer(CrossEntropyLoss(), Adam(0.01), LOSS_ARGS, devices=2)(MODEL)
    with pytest.raises(ValueError, match="takes 2 devices, but JAX has 1 here"):
        build(mod)
    there = Trainer(mod, VirtualMachine(build(mod, "cpu")))
    there.xavier_uniform_init_params(1)
    there.save(tmp_path / "model")
    here = load_trainer(tmp_path / "model")
    assert here.device == jax.devices("cpu")[0]
    chex.assert_trees_all_close(here.predict(BATCH[0]), there.predict(BATCH[0]))
