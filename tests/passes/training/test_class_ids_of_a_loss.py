"""Which targets are ids of classes, and of how many, as SetupTrainer says in `class_ids`."""

from typing import Any

import jax.numpy as jnp
import pytest
from small_models import BATCH, CLASSES, Classifier, trainable

from relaxjax.ir import SymbolicVar, TensorType
from relaxjax.losses import CrossEntropyLoss, MSELoss, NLLLoss, from_jax
from relaxjax.optim import SGD
from relaxjax.passes.training.describe_loss import class_ids
from relaxjax.trainable.facts import ClassIds

SCORES = TensorType((BATCH, CLASSES), "float32")
IDS = TensorType((BATCH,), "int64")
WEIGHTS = TensorType((CLASSES,), "float32")
IMAGE = TensorType((2, 5, 8, 8), "float32"), TensorType((2, 8, 8), "uint8")


@pytest.mark.parametrize("loss", [CrossEntropyLoss(), CrossEntropyLoss(label_smoothing=0.1)])
def test_a_trainable_module_says_so(loss: Any) -> None:
    mod = trainable(Classifier, loss, SGD(0.1), SCORES, IDS)
    stated = {"name": "targets", "classes": CLASSES, "ignored": -100, "has_mean": True}
    assert list(map(dict, mod.attrs["class_ids"])) == [stated]


def weighted_sum(scores: Any) -> Any:
    return (scores @ jnp.arange(CLASSES, dtype="float32")).sum()


CASES: dict[str, tuple[Any, list[Any]]] = {
    "weights": (NLLLoss(ignore_index=1)(SCORES, IDS, WEIGHTS), [["targets", CLASSES, 1, True]]),
    "pixels": (NLLLoss(reduction="sum")(*IMAGE), [["targets", 5, -100, False]]),
    "one sample": (
        CrossEntropyLoss()(WEIGHTS, TensorType((), "int32")),
        [["targets", CLASSES, -100, True]],
    ),
    "one-hot": (CrossEntropyLoss(ignore_index=2)(SCORES, TensorType(SCORES.dims, "int32")), []),
    "a call without arguments": (from_jax(weighted_sum)(SCORES), []),
    "numbers": (MSELoss()(SCORES, SCORES), []),
    "no count": (CrossEntropyLoss()(TensorType((BATCH, SymbolicVar("c")), "float32"), IDS), []),
    "no rank": (NLLLoss()(TensorType(None, "float32"), IDS), []),
}


@pytest.mark.parametrize(("function", "expected"), CASES.values(), ids=CASES)
def test_what_picks_classes_is_found(function: Any, expected: list[Any]) -> None:
    assert class_ids(function) == tuple(ClassIds(*one) for one in expected)
