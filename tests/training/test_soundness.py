"""A training whose numbers are none any more ends, and one that begins with zeros says so."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from small_models import BATCH, CLASSES, FEATURES, Classifier, batch, classifier, trainer_of

from relaxjax import TensorType
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import SGD
from relaxjax.training import Checkpoints, DivergedError, Lines, NumericsError
from relaxjax.training.soundness import are_finite
from relaxjax.training.trained_model import TrainedModel

QUIET = Lines(lambda line: None)
GOOD = batch(0)
NOTHING = (np.full((BATCH, FEATURES), np.nan, "float32"), GOOD[1])
INFINITE = {"b1": np.array([0, np.inf, 0], "float32")}


@pytest.mark.parametrize("steps_per_call", [1, 2, "auto"])
def test_the_first_loss_that_is_none_ends_a_training(steps_per_call: Any) -> None:
    told: list[str] = []
    message = (
        "^the loss of step 5, in epoch 2, is nan: make the learning rate smaller, look at the "
        "data, or find where that comes from by check_numerics=True; with check_numerics=False "
        "the training would go on$"
    )
    epochs = [[GOOD] * 3, [GOOD, NOTHING, GOOD]]
    with pytest.raises(DivergedError, match=message):
        classifier().fit(
            lambda number: epochs[number],
            2,
            reporter=Lines(told.append),
            steps_per_call=steps_per_call,
        )
    assert len(told) == 1


def test_a_resumed_training_counts_its_steps_on(tmp_path: Any) -> None:
    classifier().fit([GOOD] * 3, 1, reporter=QUIET, checkpoints=Checkpoints(tmp_path, every=2))
    (tmp_path / "step-000000003.safetensors").unlink()
    with pytest.raises(DivergedError, match="the loss of step 4, in epoch 1, is nan"):
        classifier().fit(
            [GOOD] * 3 + [NOTHING],
            1,
            reporter=QUIET,
            checkpoints=Checkpoints(tmp_path),
            resume=True,
        )


def test_parameters_that_the_last_step_spoilt() -> None:
    """No loss tells of it."""
    made = classifier(SGD(1e38))
    message = "^after step 1, in epoch 1, the parameter `w[01]` is not finite: make the learning"
    with pytest.raises(DivergedError, match=message) as raised:
        made.fit([(GOOD[0] * 100, GOOD[1])], 1, reporter=QUIET)
    assert raised.value.found.endswith("is not finite")
    assert isinstance(raised.value, NumericsError)


@pytest.mark.parametrize("every", [1, None])
def test_no_checkpoint_holds_them(tmp_path: Any, every: int | None) -> None:
    made = classifier(SGD(1e38))
    checkpoints = Checkpoints(tmp_path, every, best="loss")
    with pytest.raises(DivergedError, match="after step 1, in epoch 1"):
        made.fit([(GOOD[0] * 100, GOOD[1])], 1, reporter=QUIET, checkpoints=checkpoints)
    assert list(tmp_path.iterdir()) == []


def test_it_is_looked_at_once_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr(
        "relaxjax.training.loop.check_params", lambda params, step, epoch: looked.append(step)
    )
    classifier().fit([GOOD] * 5, 3, reporter=QUIET)
    assert looked == [5, 10, 15]


def test_good_parameters_stay_as_the_step_holds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """To take those of equal layers out of their stacks copies each."""
    taken: list[str] = []
    each_param = TrainedModel.each_param

    def noted(self: TrainedModel) -> Iterator[tuple[str, jax.Array]]:
        for name, array in each_param(self):
            taken.append(name)
            yield name, array

    monkeypatch.setattr(TrainedModel, "each_param", noted)
    classifier().fit([GOOD] * 5, 3, reporter=QUIET)
    assert len(taken) == 1  # a matrix, not all of whose numbers are 0


def test_nobody_wants_to_know() -> None:
    (report,) = classifier().fit([NOTHING], 1, reporter=QUIET, check_numerics=False)
    assert np.isnan(report.loss)
    made = classifier()
    made.load_params(INFINITE)
    made.fit([GOOD], 1, reporter=QUIET, check_numerics=False)


def test_what_check_numerics_may_be() -> None:
    for value in ("no", None, 1):
        message = f'`check_numerics` must be True, False or "epochs", but it is {value!r}'
        with pytest.raises(TypeError, match=message):
            classifier().fit([GOOD], check_numerics=value)  # type: ignore[arg-type]  # the mistake
    classifier().fit([GOOD], reporter=QUIET, check_numerics=np.bool_(True))  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", ["dynamic", 1024.0])
def test_a_dynamic_scale_is_made_smaller_before_a_loss_is_to_blame(scale: Any) -> None:
    """Of a step that is not finite nothing is kept but half the scale: a later one may be good."""
    mod: Any = Classifier
    scores, labels = TensorType((BATCH, CLASSES), "float32"), TensorType((BATCH,), "int32")
    trainer = trainer_of(mod, CrossEntropyLoss(), SGD(0.1), scores, labels, loss_scale=scale)
    trainer.xavier_uniform_init_params(seed=0)
    if scale == "dynamic":
        (report,) = trainer.fit([GOOD, NOTHING, GOOD], 1, reporter=QUIET)
        assert np.isnan(report.loss)
        assert trainer.loss_scale is not None
        assert trainer.loss_scale > 1
    with pytest.raises(DivergedError, match="the loss of step 1, in epoch 1, is nan"):
        trainer.fit([NOTHING] * 40, 1, reporter=QUIET)


def test_keys_and_integers_among_parameters_are_finite() -> None:
    assert are_finite([np.arange(3), jax.random.key(0), np.ones(3)])
    assert not are_finite([np.arange(3), np.array([1, np.inf])])


def test_zeros_to_begin_with() -> None:
    made = classifier(zero_init_param_state=True)
    message = (
        "all 2 matrices among the parameters are zero, and so may their gradients be: .* draw them "
        r"by trainer\.xavier_uniform_init_params\(seed=0\), or load them"
    )
    with pytest.warns(UserWarning, match=message) as told:
        made.fit([GOOD], 1, reporter=QUIET)
    assert [one.filename for one in told] == [__file__]
