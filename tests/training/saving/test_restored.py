"""A trainer made of the file that another one saved."""

from pathlib import Path
from typing import Any

import chex
import numpy as np
import optax
import pytest
from small_models import batch, classifier, counting

from relaxjax.optim import SGD, Adam, from_optax
from relaxjax.training import CheckpointError, Trainer, load_trainer

OPTIMIZERS = [SGD(0.1), Adam(0.01), from_optax(optax.MultiSteps(optax.adamw(0.01), 2))]


def assert_goes_on_the_same(old: Trainer, new: Trainer, inputs: Any, targets: Any) -> None:
    np.testing.assert_array_equal(np.asarray(new.predict(inputs)), np.asarray(old.predict(inputs)))
    for _ in range(3):
        assert float(new.update(inputs, targets)) == float(old.update(inputs, targets))
    chex.assert_trees_all_equal(new.export_params(), old.export_params())


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda one: str(one.name))
def test_it_goes_on_as_the_one_that_saved_it(optimizer: Any, tmp_path: Path) -> None:
    trainer = classifier(optimizer)
    trainer.xavier_uniform_init_params(seed=1)
    trainer.update(*batch(0))
    trainer.save(tmp_path / "model.safetensors")
    assert_goes_on_the_same(trainer, load_trainer(tmp_path / "model.safetensors"), *batch(1))


def test_it_has_the_states_of_the_model(tmp_path: Path) -> None:
    trainer, x = counting(), np.ones((3, 2), "float32")
    trainer.update(x, x)
    trainer.save(tmp_path / "model.safetensors")
    new = load_trainer(str(tmp_path / "model.safetensors"))
    assert float(new.export_states()["calls"]) == 1
    with pytest.raises(CheckpointError, match="is a folder: give a checkpoint of a trainer"):
        load_trainer(tmp_path)
