"""Targets that are no classes are errors before a step is made."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_backbone
from small_models import BATCH, CLASSES, Classifier, batch, classifier, trainer_of

from relaxjax import TensorType, Trainer
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import SGD

X, LABELS = batch(0)


def with_first(value: int) -> Any:
    return np.array([value, *LABELS[1:]], LABELS.dtype)


@pytest.fixture(name="trainer")
def fixture_trainer() -> Trainer:
    return classifier()


WAYS: dict[str, Callable[[Trainer, Any], Any]] = {
    "update": lambda trainer, y: trainer.update(X, y),
    "on the device": lambda trainer, y: trainer.update(X, jnp.asarray(y)),
    "update_many": lambda trainer, y: trainer.update_many(X[None], y[None]),
    "update_checked": lambda trainer, y: trainer.update_checked((X, y), True),
    "evaluate": lambda trainer, y: trainer.evaluate(X, y),
    "place": lambda trainer, y: trainer.place((X, y)),
    "fit": lambda trainer, y: trainer.fit([(X, LABELS), (X, y)]),
    "fit ahead": lambda trainer, y: trainer.fit([(X, LABELS), (X, y)], prefetch=2),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_id_that_is_no_class_is_an_error(trainer: Trainer, way: Callable[..., Any]) -> None:
    match = r"scores 3 classes, 0 to 2, but the target `targets` holds 3: .* -100 for what is"
    with pytest.raises(ValueError, match=match):
        way(trainer, with_first(CLASSES))


ONE_BATCH = {name: way for name, way in WAYS.items() if name not in ("update_many", "fit ahead")}


@pytest.mark.parametrize("way", ONE_BATCH.values(), ids=ONE_BATCH)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_rows_of_a_number_for_each_class_are_no_ids(
    trainer: Trainer, way: Callable[..., Any], dtype: str
) -> None:
    match = (
        r"the loss takes `targets` as ids of 3 classes, but an array of shape \(8, 3\) has a "
        r"number for each class: give ids, such as targets\.argmax\(-1\), or train by Categorical"
    )
    with pytest.raises(ValueError, match=match):
        way(trainer, np.eye(CLASSES, dtype=dtype)[LABELS])


def test_batches_of_as_many_samples_as_there_are_classes_may_share_a_call() -> None:
    mod = parse_backbone("y = R.matmul(x, w)", param_num=1, x=(3, 3), w=(3, 3))
    types = TensorType((3, 3), "float32"), TensorType((3,), "int32")
    trainer = trainer_of(mod, CrossEntropyLoss(), SGD(0.1), *types)
    trainer.xavier_uniform_init_params()
    ids = np.eye(3, dtype="int32")
    assert trainer.update_many(np.ones((3, 3, 3), "float32"), ids).shape == (3,)
    with pytest.raises(ValueError, match="has a number for each class"):
        trainer.update(np.ones((3, 3), "float32"), ids)


def test_all_that_are_found_lie_between_two(trainer: Trainer) -> None:
    strange = np.array([-1, 7, *LABELS[2:]], LABELS.dtype)
    with pytest.raises(ValueError, match="the target `targets` holds -1 to 7: give only ids"):
        trainer.update(X, strange)


def test_an_ignored_id_is_no_error(trainer: Trainer) -> None:
    trainer.xavier_uniform_init_params()
    assert np.isfinite(trainer.update(X, with_first(-100)))


TRAINING = {name: way for name, way in WAYS.items() if name != "evaluate"}


@pytest.mark.parametrize("way", TRAINING.values(), ids=TRAINING)
def test_a_batch_to_train_on_has_a_target_that_counts(
    trainer: Trainer, way: Callable[..., Any]
) -> None:
    with pytest.raises(ValueError, match="all of `targets` is -100, which counts for nothing, and"):
        way(trainer, np.full_like(LABELS, -100))


def test_each_of_several_batches_has_a_target_that_counts(trainer: Trainer) -> None:
    none = np.full_like(LABELS, -100)
    trainer.update_many(np.stack([X] * 3), np.stack([LABELS, with_first(-100), none]), 2)
    with pytest.raises(ValueError, match="the mean over none is NaN: leave out such batches"):
        trainer.update_many(np.stack([X] * 3), np.stack([LABELS, with_first(-100), none]), 3)
    loss: Any = trainer.evaluate(X, none)[0]
    assert np.isnan(loss)


@pytest.mark.parametrize(
    ("loss", "is_mean"),
    [
        (CrossEntropyLoss("mean", ignore_index=1, label_smoothing=0.1), True),
        (CrossEntropyLoss("sum", ignore_index=1), False),
    ],
)
def test_only_a_mean_needs_a_target_that_counts(loss: Any, is_mean: bool) -> None:
    types = TensorType((BATCH, CLASSES), "float32"), TensorType((BATCH,), "int32")
    trainer = trainer_of(Classifier, loss, SGD(0.1), *types)
    if is_mean:
        with pytest.raises(ValueError, match="all of `targets` is 1, which counts for nothing"):
            trainer.update(X, np.full_like(LABELS, 1))
    else:
        assert trainer.update(X, np.full_like(LABELS, 1)) == 0


def test_only_the_steps_that_are_made_are_looked_at(trainer: Trainer) -> None:
    """A call of few steps has room for more, which may hold anything."""
    stack = np.stack([LABELS, with_first(99)])
    trainer.update_many(np.stack([X, X]), stack, 1)
    with pytest.raises(ValueError, match="the target `targets` holds 99"):
        trainer.update_many(np.stack([X, X]), stack, 2)
    trainer.fit([(X, LABELS)] * 3, steps_per_call=2, prefetch=1)
