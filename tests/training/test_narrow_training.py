"""Trainings whose optimizers keep their states in 16 or 8 bits: as good, in fewer bytes.

All optimizers and both widths are tried everywhere if `RELAXJAX_FULL` is set.
"""

from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from exported_model import assert_runs_alone
from full import FULL
from parsing import parse_backbone
from several_devices import printed_lines
from small_models import trainer_of

import relaxjax
from relaxjax import TensorType, Trainer, VirtualMachine, build
from relaxjax.datasets import batches as drawn
from relaxjax.datasets import digits
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import Adam, AdamW, Lazy, Lion, MomentumSGD, Narrow, from_optax
from relaxjax.optim.narrow import StateDtype
from relaxjax.passes.training.update import tensor_type
from relaxjax.trainable.arguments import Arguments
from relaxjax.trainable.names import OPTIMIZER, STORED_OPTIM_STATES
from relaxjax.trainable.storage import params_of
from relaxjax.training import CheckpointError, Lines
from relaxjax.training.layout import Layout

pytestmark = pytest.mark.usefixtures("quickly_compiled")

LAYERS, WIDTH = 3, 20
BOTH = ["bfloat16", "int8"]
Params = dict[str, Any]


def params() -> Params:
    random = np.random.default_rng(0)
    shapes: dict[str, Any] = {f"w{n}": (WIDTH, WIDTH) for n in range(LAYERS)}
    shapes |= {f"b{n}": (WIDTH,) for n in range(LAYERS)}
    return {name: 0.3 * random.normal(size=s).astype("float32") for name, s in shapes.items()}


def loss(params: Params, batch: Any) -> Any:
    x, targets = batch
    for n in range(LAYERS):
        x = x + jnp.tanh(x @ params[f"w{n}"] + params[f"b{n}"][None])
    return jnp.mean((x - targets) ** 2)


def batches(count: int = 4) -> list[Any]:
    random = np.random.default_rng(1)
    return [tuple(random.normal(size=(2, 8, WIDTH)).astype("float32")) for _ in range(count)]


def narrow(dtype: Any, optimizer: Any = None) -> Narrow:
    return Narrow(optimizer or Adam(0.01), dtype, smallest=100)


def begun(optimizer: Any, **options: Any) -> Trainer:
    return Trainer.from_jax(loss, params(), optimizer, batches()[0], **options)


def stepped(trainer: Trainer) -> Trainer:
    for batch in batches():
        trainer.update(batch)
    return trainer


def states_of(trainer: Trainer) -> list[Any]:
    return [np.asarray(array) for array in trainer._state.optimizer]


def assert_same(one: Trainer, other: Trainer) -> None:
    chex.assert_trees_all_equal(one.params, other.params)
    chex.assert_trees_all_equal(states_of(one), states_of(other))


@pytest.mark.parametrize("dtype", BOTH if FULL else ["int8"])
def test_it_goes_on_from_a_file_bit_for_bit(dtype: Any, tmp_path: Path) -> None:
    trainer = stepped(begun(narrow(dtype)))
    trainer.save(tmp_path / "run")
    again = begun(narrow(dtype))
    again.load(tmp_path / "run")
    assert_same(stepped(again), stepped(trainer))
    with pytest.raises(CheckpointError, match="was written with another optimizer"):
        begun(Adam(0.01)).load(tmp_path / "run")


@pytest.mark.parametrize("dtype", BOTH if FULL else ["bfloat16"])
def test_stacks_are_updated_as_their_rows_are(dtype: Any) -> None:
    """In 8 bits the rows are taken one by one, because a block may hold parts of two of them.

    XLA may round the last bit otherwise for another shape, and then the chance is another.
    """
    results = []
    for rolls in (False, True):
        trainer = begun(narrow(dtype), roll_blocks=rolls)
        mod, new = trainer.mod, trainer._state.optimizer
        own, storage = params_of(mod, Arguments.of(mod, "backbone_loss").params)
        random = np.random.default_rng(0)
        gradients = storage.inside(
            [np.float32(random.normal(size=tensor_type(param).dims)) for param in own]
        )
        update = VirtualMachine(build(mod))[OPTIMIZER]
        given = [jnp.zeros_like(array) for array in gradients]
        for _ in range(2):
            given, new = update(tuple(given), gradients, new)
        states = Layout.of(mod).storage["optimizer"].outside(new)
        results.append((storage.outside(given), states))
        assert (STORED_OPTIM_STATES in mod.attrs) == (rolls and dtype == "bfloat16")
    (params_of_rows, states), (wanted, wanted_states) = results
    chex.assert_trees_all_close(params_of_rows, wanted, rtol=1e-2, atol=1e-4)
    for state, other in zip(states, wanted_states, strict=True):
        assert state.dtype == other.dtype
        apart = 1 if state.dtype in ("int8", "uint8") else 1e-6
        np.testing.assert_allclose(np.float64(state), np.float64(other), rtol=1e-2, atol=apart)


def test_losses_are_scaled_and_half_precision_has_masters() -> None:
    """A step that is left out changes nothing, and masters are no states that are narrow."""
    half = jax.tree.map(lambda array: array.astype("float16"), (params(), batches()))
    trainer = Trainer.from_jax(loss, half[0], narrow("int8"), half[1][0], loss_scale="dynamic")
    assert [str(s.dtype) for s in states_of(trainer) if s.shape == (WIDTH, WIDTH)] == (
        ["float32"] * LAYERS + ["int8"] * LAYERS + ["uint8"] * LAYERS
    )
    trainer.update(half[1][0])
    before = states_of(trainer)
    x, targets = half[1][1]
    trainer.update((x + np.float16(np.inf), targets))
    after = states_of(trainer)
    chex.assert_trees_all_equal(before[3:], after[3:])
    assert after[0] == before[0] / 2


def test_lazy_optimizers_keep_rows_in_bfloat16() -> None:
    """Rows that do not occur stay as they are, and their states."""

    def read(params: Any, batch: Any) -> Any:
        return jnp.mean((params["table"][batch[0]] - batch[1]) ** 2)

    table = {"table": np.ones((400, 3), "float32")}
    batch = np.array([3, 5], "int32"), np.zeros((2, 3), "float32")
    optimizer = Lazy(Narrow(Adam(0.01), smallest=100))
    trainer = Trainer.from_jax(read, table, optimizer, batch)
    assert "scatter" in trainer.mod[OPTIMIZER].script()
    for _ in range(2):
        trainer.update(batch)
    moved = np.unique(np.nonzero(np.asarray(trainer.params["table"]) != 1)[0])
    assert moved.tolist() == [3, 5]
    means = next(s for s in states_of(trainer) if s.shape == (400, 3))
    assert str(means.dtype) == "bfloat16"
    assert np.unique(np.nonzero(means)[0]).tolist() == [3, 5]
    wide = Lazy(Narrow(Adam(0.01), "int8", smallest=100))
    with pytest.raises(ValueError, match="Lazy"):
        Trainer.from_jax(read, table, wide, batch)


DEVICES = """
import numpy as np
from relaxjax import Trainer
from relaxjax.optim import Adam, Narrow
import jax.numpy as jnp

def loss(params, batch):
    return jnp.mean((batch[0] @ params["w"] - batch[1]) ** 2)

random = np.random.default_rng(0)
batch = random.normal(size=(2, 8, 32)).astype("float32")
for dtype in ("bfloat16", "int8"):
    for options in ({}, {"devices": 2, "sharding": "fsdp"}):
        w = {"w": np.ones((32, 32), "float32")}
        trainer = Trainer.from_jax(loss, w, Narrow(Adam(0.01), dtype, smallest=9), batch, **options)
        for _ in range(3):
            trainer.update(batch)
        means = trainer._state.optimizer[3]
        print(means.dtype, means.addressable_shards[0].data.shape)
        alone = trainer.params["w"] if not options else alone
        assert np.allclose(trainer.params["w"], alone, atol=2e-3)
"""


def test_states_are_split_on_several_devices_as_their_parameters_are() -> None:
    found = printed_lines(DEVICES, 2)
    assert found == [
        f"{dtype} {shape}" for dtype in ("bfloat16", "int8") for shape in ("(32, 32)", "(16, 32)")
    ]


def test_a_step_written_in_jax_takes_it() -> None:
    """By optax with a mask that is nested as the parameters are."""
    nested = {"layer": {"w": jnp.ones((20, 20)), "b": jnp.zeros(20)}}
    mask = {"layer": {"w": True, "b": False}}
    tx = optax.chain(optax.scale_by_adam(), optax.masked(optax.scale(0.0), mask), optax.scale(-1.0))

    def squares(params: Any, batch: Any) -> Any:
        return jnp.mean((batch @ params["layer"]["w"] + params["layer"]["b"][None]) ** 2)

    optimizer = Narrow(from_optax(tx), "int8", smallest=100)
    init, step = relaxjax.train_step(squares, optimizer)
    state = init(nested)
    kinds = sorted(str(array.dtype) for array in state.opt_state if array.size == 400)
    assert kinds == ["int8", "uint8"]
    state, _ = step(state, jnp.ones((4, 20)))
    chex.assert_trees_all_equal(state.params["layer"]["w"], nested["layer"]["w"])
    assert not jnp.any(state.params["layer"]["b"] == 0)


BODY = "hidden = R.nn.relu(R.add(R.matmul(x, w0), b0))\nout = R.add(R.matmul(hidden, w1), b1)"
BACKBONE = parse_backbone(
    BODY, param_num=4, x=(32, 64), w0=(64, 128), b0=(128,), w1=(128, 64), b1=(64,)
)


def fitted(optimizer: Any, epochs: int = 6) -> tuple[Trainer, float]:
    """A training on the digits, and its last loss on those that it has not seen."""
    data = digits()
    types = [TensorType((32, 64), "float32"), TensorType((32,), "int32")]
    trainer = trainer_of(BACKBONE, CrossEntropyLoss(), optimizer, *types)
    trainer.xavier_uniform_init_params(seed=0)
    found = trainer.fit(
        lambda epoch: drawn(data.train_images, data.train_labels, 32, seed=0, epoch=epoch),
        epochs,
        eval_data=list(drawn(data.test_images, data.test_labels, 32)),
        reporter=Lines(lambda line: None),
    )
    return trainer, float(found.numbers("eval_loss")[-1])


OPTIMIZERS = {
    "Adam": Adam(3e-3),
    "AdamW": AdamW(3e-3, weight_decay=0.01),
    "Lion": Lion(1e-3),
    "momentum": MomentumSGD(0.05, 0.9),
}


@pytest.mark.parametrize("name", OPTIMIZERS if FULL else ["Adam"])
def test_it_learns_as_much_in_fewer_bytes(name: str) -> None:
    """The loss is within 5 % of that of wide states, and the bytes are 0.5 and 0.26 of them."""
    wide, wanted = fitted(OPTIMIZERS[name])
    shares: dict[StateDtype, float] = {"bfloat16": 0.5, "int8": 0.26}
    for dtype, share in shares.items():
        trainer, found = fitted(Narrow(OPTIMIZERS[name], dtype))
        assert abs(found / wanted - 1) < 0.05
        bytes_of = [t.summary().optimizer_bytes for t in (trainer, wide)]
        assert bytes_of[0] / bytes_of[1] == pytest.approx(share, abs=0.015)


def test_it_is_exported(tmp_path: Path) -> None:
    trainer, _ = fitted(narrow("int8"), epochs=1)
    data = digits()
    assert_runs_alone(trainer, tmp_path / "made", data.train_images[:32], data.train_labels[:32])
