"""ReduceLROnPlateau: when the learning rate becomes smaller, also across a resumed training."""

from pathlib import Path
from typing import Any

import numpy as np
import optax
import pytest
from small_models import batch, classifier

from relaxjax.optim import SGD, from_optax
from relaxjax.training import Checkpoints, EpochReport, Lines, ReduceLROnPlateau, Trainer

QUIET = Lines(lambda line: None)
DATA = [batch(0), batch(1)]
INJECTED = from_optax(optax.inject_hyperparams(optax.sgd)(learning_rate=0.5))


def reports(*losses: float) -> list[EpochReport]:
    return [EpochReport(i + 1, 9, loss, {}, 3, 0.1) for i, loss in enumerate(losses)]


def rate_of(trainer: Trainer) -> float:
    group = trainer.layout.optimizer
    index = group.marks.index("hyperparams_learning_rate")
    return float(np.asarray(list(trainer._export(group).values())[index]))


@pytest.mark.parametrize(
    ("losses", "changes"),
    [
        ((3.0,), 0),
        ((3.0, 2.0, 1.0), 0),
        ((3.0, 3.0), 0),
        ((3.0, 3.0, 3.0), 1),
        ((3.0, 3.0, 3.0, 3.0, 3.0), 2),  # waited for anew
        ((3.0, 3.0, 3.0, 2.0, 2.5), 1),
        ((float("nan"), 3.0, 4.0, 4.0), 1),
    ],
)
def test_the_rate_becomes_smaller_after_epochs_that_are_no_better(
    losses: tuple[float, ...], changes: int
) -> None:
    trainer = classifier(INJECTED)
    plateau = ReduceLROnPlateau(trainer, patience=2, factor=0.1)
    assert not plateau.stops(reports(*losses))
    assert rate_of(trainer) == pytest.approx(0.5 * 0.1**changes)
    assert not plateau.stops(reports(*losses))  # asked once more, as a resumed training does
    assert rate_of(trainer) == pytest.approx(0.5 * 0.1**changes)


def test_the_rate_has_a_least_value_and_a_gain_may_be_too_small() -> None:
    trainer = classifier(INJECTED)
    plateau = ReduceLROnPlateau(trainer, patience=1, least_rate=0.2, least_gain=0.5)
    plateau.stops(reports(3.0, 2.9))
    assert rate_of(trainer) == pytest.approx(0.2)


def test_steps_are_made_with_the_smaller_rate() -> None:
    """As if the optimizer had been made with it."""
    trainer, other = classifier(INJECTED), classifier(SGD(0.05))
    ReduceLROnPlateau(trainer, patience=1).stops(reports(3.0, 3.0))
    for one in (trainer, other):
        one.update(*batch(0))
    for found, expected in zip(
        trainer.export_params().values(), other.export_params().values(), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("every", [None, 1])
def test_a_resumed_training_has_the_rate_of_one_that_never_ended(
    every: int | None, tmp_path: Path
) -> None:
    def trained(epochs: int, **options: Any) -> Trainer:
        trainer = classifier(INJECTED)
        plateau = ReduceLROnPlateau(trainer, patience=1, factor=0.5, least_gain=10.0)
        trainer.fit(DATA, epochs, reporter=QUIET, callbacks=[plateau], **options)
        return trainer

    whole = trained(5)
    assert rate_of(whole) == pytest.approx(0.5 * 0.5**3)  # as after the first four
    folder = tmp_path / "run"
    trained(3, checkpoints=Checkpoints(folder, every))
    resumed = trained(5, checkpoints=Checkpoints(folder, every), resume=True)
    assert rate_of(resumed) == rate_of(whole)
    for name, array in whole.export_params().items():
        np.testing.assert_array_equal(resumed.export_params()[name], array)


def test_a_rate_that_cannot_be_changed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a number in the program of the optimizer, .*inject_hyp"):
        ReduceLROnPlateau(classifier(SGD(0.1)))
    schedule = optax.linear_schedule(0.1, 0.0, 10)
    scheduled = from_optax(optax.inject_hyperparams(optax.sgd)(schedule))
    with pytest.raises(ValueError, match="follows a schedule, which would overwrite every change"):
        ReduceLROnPlateau(classifier(scheduled))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factor": 1.0}, "`factor` must be a number between 0 and 1, but it is 1.0"),
        ({"factor": "a"}, "`factor` must be a number between 0 and 1, but it is 'a'"),
        ({"patience": 0}, "`patience` must be at least 1 epoch, but it is 0"),
        ({"least_gain": -1}, "`least_gain` must be a number of at least 0, but it is -1"),
        ({"least_rate": -1}, "`least_rate` must be a number of at least 0, but it is -1"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReduceLROnPlateau(classifier(INJECTED), **options)
