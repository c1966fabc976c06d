"""A model that passes have placed trains on its mesh, and as on one device."""

from pathlib import Path

import pytest
from parsing import parse_module
from several_devices import printed_lines

from relaxjax.ir.types import TensorType
from relaxjax.losses import MSELoss
from relaxjax.optim import Adam
from relaxjax.passes import (
    AnnotateSharding,
    DataParallel,
    FullySharded,
    Sequential,
    SetupTrainer,
    ShardTraining,
    TensorParallel,
)
from relaxjax.trainable.sharding import Distribution

MLP = """
@I.ir_module
class Mlp:
    I.module_attrs({"param_num": 3, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor((8, 16), "float32"),
        w: R.Tensor((16, 64), "float32"),
        b: R.Tensor((64,), "float32"),
        v: R.Tensor((64, 16), "float32"),
    ):
        y = R.matmul(R.nn.relu(R.add(R.matmul(x, w), b)), v)
        return y
"""
MESH = {"data": 2, "model": 4}
TARGET = TensorType((8, 16), "float32")

PROGRAM = """
import sys

import numpy as np

sys.path[:0] = PATHS
from test_placed_training import MESH, MLP, TARGET

from relaxjax.lowering import VirtualMachine, build
from relaxjax.losses import MSELoss
from relaxjax.optim import Adam
from relaxjax.passes import DataParallel, Sequential, SetupTrainer, TensorParallel
from relaxjax.script import from_source
from relaxjax.training import Trainer

rng = np.random.default_rng(0)
batch = rng.normal(size=(2, 8, 16)).astype("float32")


def trained(mod):
    made = SetupTrainer(MSELoss(), Adam(0.01), [TARGET, TARGET])(mod)
    trainer = Trainer(made, VirtualMachine(build(made)), zero_init_param_state=False)
    trainer.zero_init_states()
    trainer.xavier_uniform_init_params(0)
    return trainer, [float(trainer.update(*batch)) for _ in range(5)]


mod = from_source(MLP)
_, alone = trained(mod)
trainer, spread = trained(Sequential([DataParallel(MESH), TensorParallel()])(mod))
np.testing.assert_allclose(spread, alone, rtol=1e-5)
for name, array in trainer.export_params().items():
    print(name, tuple(array.sharding.spec), array.addressable_shards[0].data.shape)
print(trainer.predict(batch[0]).shape)
"""


def test_it_trains_on_its_mesh_as_on_one_device() -> None:
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "support")]
    assert printed_lines(PROGRAM.replace("PATHS", repr(folders)), 8) == [
        "w (None, 'model') (16, 16)",
        "b ('model',) (16,)",
        "v ('model',) (16, 16)",
        "(8, 16)",
    ]


def test_the_module_states_what_types_say() -> None:
    mod = Sequential([DataParallel(MESH), TensorParallel()])(parse_module(MLP))
    found = Distribution.of(SetupTrainer(MSELoss(), Adam(0.01), [TARGET, TARGET])(mod))
    assert found is not None
    assert found.sizes == MESH
    assert found.batch == ("data",)
    assert found.devices == tuple(range(8))
    assert found.group("params") == {"w": ((), ("model",)), "b": (("model",),), "v": (("model",),)}
    assert found.group("targets") == {"targets": (("data",),)}
    states = found.group("optimizer")
    assert sorted(states.values()) == sorted(2 * [*found.group("params").values()])


def test_two_ways_to_say_it_are_refused() -> None:
    mod = FullySharded({"data": 4})(parse_module(MLP))
    with pytest.raises(ValueError, match="say already where its arrays lie: leave out `mesh`"):
        SetupTrainer(MSELoss(), Adam(0.01), [TARGET, TARGET], mesh={"data": 4})(mod)


def test_without_a_mesh_types_must_say_one() -> None:
    mod = SetupTrainer(MSELoss(), Adam(0.01), [TARGET, TARGET])(parse_module(MLP))
    with pytest.raises(ValueError, match="no type says on which devices the training is: give"):
        ShardTraining()(mod)


def test_arrays_on_two_meshes_are_refused() -> None:
    mod = AnnotateSharding({"w": (None, "model")}, {"model": 4})(parse_module(MLP))
    mod = AnnotateSharding({"v": ("data",)}, {"data": 2})(mod)
    with pytest.raises(ValueError, match="a training is on one mesh"):
        SetupTrainer(MSELoss(), Adam(0.01), [TARGET, TARGET])(mod)
