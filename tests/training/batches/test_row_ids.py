"""Ids of rows that a model has not are errors before a step is made."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_backbone

from relaxjax import IRModule, SetupTrainer, TensorType, Trainer, VirtualMachine, build
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import SGD

IDS = np.arange(8, dtype="int32").reshape(4, 2)
LABELS = np.array([0, 1, 2, 0], "int32")


MODEL = parse_backbone(
    "out = R.mean(R.take(table, ids, axis=0), axis=1)",
    param_num=1,
    ids='R.Tensor((4, 2), "int32")',
    table=(10, 3),
)


@cache
def built() -> tuple[IRModule, VirtualMachine]:
    types = [TensorType((4, 3), "float32"), TensorType((4,), "int32")]
    mod = SetupTrainer(CrossEntropyLoss(), SGD(0.1), types)(MODEL)
    return mod, VirtualMachine(build(mod))


def with_first(*values: int) -> Any:
    return (
        np.concatenate([np.array(values), IDS.ravel()[len(values) :]]).astype("int32").reshape(4, 2)
    )


WAYS: dict[str, Callable[[Trainer, Any], Any]] = {
    "predict": lambda trainer, x: trainer.predict(x),
    "update": lambda trainer, x: trainer.update(x, LABELS),
    "on the device": lambda trainer, x: trainer.update(jnp.asarray(x), LABELS),
    "update_many": lambda trainer, x: trainer.update_many(x[None], LABELS[None]),
    "evaluate": lambda trainer, x: trainer.evaluate(x, LABELS),
    "fit": lambda trainer, x: trainer.fit([(IDS, LABELS), (x, LABELS)]),
    "fit ahead": lambda trainer, x: trainer.fit([(IDS, LABELS), (x, LABELS)], prefetch=2),
    "evaluation data": lambda trainer, x: trainer.fit([(IDS, LABELS)], 1, [(x, LABELS)]),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_id_that_is_no_row_is_an_error(way: Callable[..., Any]) -> None:
    match = r"one of 10 rows, 0 to 9, by each id in `ids`, but that holds 10: give .* R.take\("
    with pytest.raises(ValueError, match=match):
        way(Trainer(*built()), with_first(10))


def test_all_that_are_found_lie_between_two() -> None:
    with pytest.raises(ValueError, match="but that holds -1 to 12: give only ids of rows"):
        Trainer(*built()).update(with_first(-1, 12), LABELS)
