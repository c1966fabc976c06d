"""Loss scaling: the same step where the gradients fit, none where they do not."""

from typing import Any

import numpy as np
import pytest
from parsing import parse_backbone
from small_models import BATCH, CLASSES, Classifier, batch, trainer_of

from relaxjax import IRModule, SetupTrainer, TensorType, Trainer, VirtualMachine, build
from relaxjax.losses import CrossEntropyLoss, MSELoss
from relaxjax.optim import Adam, AdamW, MomentumSGD
from relaxjax.passes.training.loss_scale import GROWS_AFTER

LOGITS = TensorType((BATCH, CLASSES), "float32")
LABELS = TensorType((BATCH,), "int32")


def classifier(loss_scale: Any, optimizer: Any) -> Trainer:
    mod: Any = Classifier
    trainer = trainer_of(mod, CrossEntropyLoss(), optimizer, LOGITS, LABELS, loss_scale=loss_scale)
    trainer.xavier_uniform_init_params(0)
    return trainer


def product(**options: Any) -> tuple[IRModule, Trainer]:
    """The mean square of `x * w` in float16, with a state that counts the steps."""
    body = """
        out = R.multiply(x, w)
        new_steps = R.add(steps, R.const(1, "int32"))
        return (out, new_steps)
    """
    types = {**dict.fromkeys("xw", 'R.Tensor((4,), "float16")'), "steps": 'R.Tensor((), "int32")'}
    backbone = parse_backbone(body, param_num=1, state_num=1, **types)
    values = TensorType((4,), "float16")
    mod = SetupTrainer(MSELoss(), MomentumSGD(0.5, 0.5), [values, values], **options)(backbone)
    trainer = Trainer(mod, VirtualMachine(build(mod)))
    trainer.load_params([np.ones(4, "float16")])
    return mod, trainer


def test_the_adjoint_takes_the_scale() -> None:
    mod, _ = product(loss_scale="dynamic")
    params = [param.name for param in mod["backbone_loss_adjoint"].params]
    assert params[:-1] == [param.name for param in mod["backbone_loss"].params]
    assert mod.attrs["loss_scale"] == "dynamic"
    first = [np.asarray(array.data).item() for array in mod.attrs["optim_state"][:3]]
    assert first == [2.0**15, 0, 0]


@pytest.mark.parametrize(
    ("loss_scale", "optimizer"), [("dynamic", AdamW(0.1)), (3, Adam(0.1))], ids=["dynamic", "fixed"]
)
def test_where_all_fits_the_steps_are_those_without_a_scale(
    loss_scale: Any, optimizer: Any
) -> None:
    plain, scaled = classifier(None, optimizer), classifier(loss_scale, optimizer)
    for seed in range(5):
        losses = [float(trainer.update(*batch(seed))) for trainer in (plain, scaled)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    expected, found = plain.export_params(), scaled.export_params()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-5)
    assert plain.loss_scale is None
    assert scaled.loss_scale == (2.0**15 if loss_scale == "dynamic" else loss_scale)


@pytest.mark.parametrize(("loss_scale", "size"), [("dynamic", 1), (1.0, 256)])
def test_without_masters_gradients_are_as_narrow_as_parameters(loss_scale: Any, size: int) -> None:
    """Whether they are finite is still seen in float32: the sum of the large ones is not in 16."""
    x, y = np.full(4, size, "float16"), np.full(4, size / 2, "float16")
    found = []
    for scale in (loss_scale, None):
        _, trainer = product(loss_scale=scale, master_weights=False)
        trainer.update(x, y)
        trainer.update(x / size, y / size)
        found.append(np.asarray(trainer.export_params()["w"]))
    np.testing.assert_allclose(found[0], found[1], rtol=2e-3)
    assert found[0].dtype == "float16"
    assert np.all(found[0] < 1)


def test_small_gradients_survive() -> None:
    """They are below 1e-8 where the loss is not scaled: nothing, in float16."""
    x, zeros = np.full(4, 3e-3, "float16"), np.zeros(4, "float16")
    moved = {}
    for scale in (None, 2.0**13):
        _, trainer = product(loss_scale=scale)
        trainer.load_params([np.full(4, 2.0**-10, "float16")])
        for _ in range(3):
            trainer.update(x, zeros)
        masters = trainer._state.optimizer[3 if scale else 0]
        moved[scale] = float(np.abs(np.asarray(masters) - 2.0**-10).max())
    assert moved[None] == 0
    assert moved[2.0**13] > 5e-9


def test_a_step_whose_gradients_do_not_fit_changes_nothing_but_the_scale() -> None:
    _, trainer = product(loss_scale="dynamic")
    x, zeros = np.full(4, 8, "float16"), np.zeros(4, "float16")
    before = trainer._state.optimizer
    momentum, masters = np.asarray(before[-1]), np.asarray(before[3])
    loss = float(trainer.update(x, zeros))
    assert np.isfinite(loss)
    scale, good, skipped = (np.asarray(array).item() for array in trainer._state.optimizer[:3])
    assert (scale, good, skipped) == (2.0**14, 0, 1)
    np.testing.assert_array_equal(trainer._state.optimizer[-1], momentum)
    np.testing.assert_array_equal(trainer._state.optimizer[3], masters)
    np.testing.assert_array_equal(trainer.export_params()["w"], np.ones(4))
    assert trainer.export_states()["steps"] == 0
    for _ in range(5):
        trainer.update(x, zeros)
    assert trainer.loss_scale == 2.0**10
    assert trainer.export_states()["steps"] == 1
    assert np.all(np.asarray(trainer.export_params()["w"]) < 1)


def test_a_fixed_scale_stays() -> None:
    _, trainer = product(loss_scale=2.0**15)
    trainer.update(np.full(4, 8, "float16"), np.zeros(4, "float16"))
    assert trainer.loss_scale == 2.0**15
    assert np.asarray(trainer._state.optimizer[2]) == 1


def test_many_good_steps_double_the_scale() -> None:
    _, trainer = product(loss_scale="dynamic")
    state = list(trainer._state.optimizer)
    state[1] = np.array(GROWS_AFTER - 1, "int32")
    trainer._load(trainer.layout.optimizer, state)
    trainer.update(np.full(4, 0.01, "float16"), np.zeros(4, "float16"))
    assert trainer.loss_scale == 2.0**16
    assert np.asarray(trainer._state.optimizer[1]) == 0


def test_the_scale_stays_at_least_one() -> None:
    _, trainer = product(loss_scale="dynamic")
    state = list(trainer._state.optimizer)
    state[0] = np.array(1, "float32")
    trainer._load(trainer.layout.optimizer, state)
    trainer.update(np.full(4, np.inf, "float16"), np.zeros(4, "float16"))
    assert trainer.loss_scale == 1


@pytest.mark.parametrize("scale", ["static", 0, -1.0, float("inf"), float("nan"), True])
def test_what_is_no_scale_is_an_error(scale: Any) -> None:
    match = r'`loss_scale` must be "dynamic", a positive number or No'
    with pytest.raises(ValueError, match=match):
        product(loss_scale=scale)
