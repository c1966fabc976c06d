"""Training with forward values computed again: the weights are the same, bit for bit."""

from typing import Any

import chex
import numpy as np
from small_models import BATCH, CLASSES, FEATURES, Classifier

from relaxjax import TensorType, Trainer, VirtualMachine, build
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import Adam
from relaxjax.passes import EliminateCommonSubexpr, Rematerialize, SetupTrainer

ADJOINT = "backbone_loss_adjoint"


def test_weights_after_training_are_the_same() -> None:
    scores, labels = TensorType((BATCH, CLASSES), "float32"), TensorType((BATCH,), "int64")
    backbone: Any = Classifier  # the decorator makes it a module
    mod = SetupTrainer(CrossEntropyLoss(reduction="mean"), Adam(0.1), [scores, labels])(backbone)
    mod = EliminateCommonSubexpr()(mod)
    small = Rematerialize(ADJOINT, policy="none", must_recompute=["lv1", "lv2"])(mod)
    assert "R.grad.delay" in small[ADJOINT].script()
    random = np.random.default_rng(0)
    x = random.normal(size=(BATCH, FEATURES)).astype("float32")
    y = random.integers(0, CLASSES, BATCH)
    weights = []
    for one in (mod, small):
        trainer = Trainer(one, VirtualMachine(build(one)))
        trainer.xavier_uniform_init_params(seed=1)
        losses = [float(trainer.update(x, y)) for _ in range(5)]
        assert losses[-1] < losses[0]
        weights.append(trainer.export_params())
    chex.assert_trees_all_equal(*weights)
