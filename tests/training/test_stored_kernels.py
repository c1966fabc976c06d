"""Kernels stored as a step reads them: the same training, by the same names, in the same files."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported_model import assert_runs_alone
from parsing import parse_backbone

from relaxjax import Executable, SetupTrainer, TensorType, VirtualMachine, build
from relaxjax.losses import MSELoss
from relaxjax.optim import Adam
from relaxjax.training import Trainer, load_trainer

pytestmark = pytest.mark.usefixtures("quickly_compiled")

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(2, 16, 5, 5)).astype("float32")
TARGETS = RNG.normal(size=(2, 16)).astype("float32")
MOVED = {"w": (3, 3, 16, 16), "depthwise": (3, 3, 1, 16), "scale": (16,)}

BODY = """
    y = R.nn.relu(R.nn.conv2d(x, w, padding=1))
    z = R.nn.conv2d(y, depthwise, groups=16)
    out = R.multiply(R.mean(z, axis=[2, 3]), R.expand_dims(scale, axis=0))
"""
KERNELS: dict[str, Any] = {"w": (16, 16, 3, 3), "depthwise": (16, 1, 3, 3), "scale": (16,)}
BACKBONE = parse_backbone(BODY, param_num=3, x=(2, 16, 5, 5), **KERNELS)


@cache
def built(channels_last: bool) -> Executable:
    types = [TensorType((2, 16), "float32")] * 2
    setup = SetupTrainer(MSELoss(), Adam(0.01), types, channels_last=channels_last)
    return build(setup(BACKBONE))


def trainer_of(channels_last: bool, steps: int = 2) -> Trainer:
    executable = built(channels_last)
    trainer = Trainer(executable.mod, VirtualMachine(executable))
    trainer.xavier_uniform_init_params(seed=0)
    for _ in range(steps):
        trainer.update(INPUTS, TARGETS)
    return trainer


def assert_same(one: Trainer, other: Trainer) -> None:
    found, wanted = one.export_params(), other.export_params()
    assert list(found) == list(wanted)
    for name, array in found.items():
        np.testing.assert_allclose(array, wanted[name], rtol=2e-4, atol=2e-5)


def test_the_step_has_them_moved_and_the_trainer_as_they_were() -> None:
    params = built(True).mod["backbone_loss_adjoint"].params[1:4]
    assert {param.name: param.ty.dims for param in params} == MOVED
    ours, plain = trainer_of(True), trainer_of(False)
    assert_same(ours, plain)
    np.testing.assert_allclose(ours.predict(INPUTS), plain.predict(INPUTS), rtol=1e-4, atol=1e-5)
    (loss, _), (wanted, _) = (t.evaluate(INPUTS, TARGETS) for t in (ours, plain))
    assert loss is not None
    assert wanted is not None
    np.testing.assert_allclose(loss, wanted, rtol=1e-4)


def test_files_are_the_same_with_the_optimizer_s_states(tmp_path: Path) -> None:
    ours, plain = trainer_of(True), trainer_of(False, steps=0)
    ours.save(tmp_path / "moved")
    plain.load(tmp_path / "moved")
    assert_same(plain, ours)
    for trainer in (ours, plain):
        trainer.update(INPUTS, TARGETS)
    assert_same(plain, ours)
    plain.save(tmp_path / "plain")
    ours.load(tmp_path / "plain")
    assert_same(ours, plain)


def test_they_are_loaded_one_by_one_with_the_user_s_shape() -> None:
    trainer, values = trainer_of(True, steps=0), trainer_of(True).export_params()
    with pytest.raises(ValueError, match=r"\(16, 16, 3, 3\)"):
        trainer.load_params({"w": np.zeros(MOVED["w"], "float32")})
    for name, value in values.items():
        trainer.load_params({name: value})
    assert_same(trainer, trainer_of(True))


def test_a_trainer_is_made_of_its_file_alone(tmp_path: Path) -> None:
    trainer = trainer_of(True)
    trainer.save(tmp_path / "model.safetensors")
    again = load_trainer(tmp_path / "model.safetensors")
    assert_same(again, trainer)
    assert float(again.update(INPUTS, TARGETS)) == float(trainer.update(INPUTS, TARGETS))
    assert_same(again, trainer)


def test_an_exported_training_runs_alone(tmp_path: Path) -> None:
    trainer = trainer_of(True)
    assert_runs_alone(trainer, tmp_path, INPUTS, TARGETS)
    again = trainer_of(False, steps=0)
    again.load(tmp_path / "state.safetensors")
    assert_same(again, trainer)


class Shapeless(Adam):
    """Says that it treats numbers by themselves, and has states of the shapes it was made for."""

    def init(self, params: Any) -> Any:
        ready = super().init(params)
        if params[0].ty.dims == MOVED["w"]:
            ready.state = super().init(list(params)[::-1]).state
        return ready


def test_an_optimizer_with_other_states_for_moved_kernels_is_refused() -> None:
    types = [TensorType((2, 16), "float32")] * 2
    with pytest.raises(ValueError, match="not stacked or rearranged like them: set `is_elementw"):
        SetupTrainer(MSELoss(), Shapeless(0.01), types)(BACKBONE)
