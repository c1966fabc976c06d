"""Exported trainings, as a program that does not know this package runs them."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from relaxjax.training import Trainer


def assert_runs_alone(trainer: Trainer, folder: Path, inputs: Any, targets: Any) -> None:
    """Exported, it predicts and makes a step like the trainer, and saves its state."""
    trainer.export(folder, platforms=["cpu"])
    model = model_of(folder)
    np.testing.assert_allclose(model.predict(inputs), trainer.predict(inputs), rtol=1e-6)
    loss = model.train_step(inputs, targets)
    np.testing.assert_allclose(loss, trainer.update(inputs, targets), rtol=1e-6)
    model.save()


def model_of(folder: Path) -> Any:
    """What the file in an exported folder gives."""
    spec = importlib.util.spec_from_file_location("exported_model_file", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    alone = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(alone)
    return alone.Model()
