"""A training goes on with the model, the loss and the optimizer that it began with."""

from pathlib import Path
from typing import Any

import chex
import numpy as np
import optax
import pytest
from small_models import Counting, batch, classifier, trainer_of

from relaxjax import SetupTrainer, VirtualMachine, build, from_source
from relaxjax.ir import SymbolicVar, TensorType
from relaxjax.losses import CrossEntropyLoss, Loss, MSELoss
from relaxjax.optim import SGD, Adam, from_optax
from relaxjax.training import CheckpointError, Checkpoints, Lines, Trainer

QUIET = Lines(lambda line: None)


def data(epoch: int) -> Any:
    return [batch(10 * epoch + index) for index in range(2)]


def counting_by(loss: Loss) -> Trainer:
    """A model of batches of any size, by a loss whose targets may be of other types."""
    n = SymbolicVar("n")
    targets = TensorType((n,), "int32") if loss.compares_classes else TensorType((n, 2), "float32")
    return trainer_of(Counting, loss, SGD(0.1), TensorType((n, 2), "float32"), targets)


ONE = [(np.ones((3, 2), "float32"), np.zeros(3, "int32"))]


RATES: dict[str, tuple[Any, Any, str]] = {
    "a rate": (Adam(0.01), Adam(0.02), r"(?s:.*)\n  was .*0\.01.*\n  and is .*0\.02.* now$"),
    "a schedule": (
        from_optax(optax.sgd(optax.linear_schedule(0.1, 0.0, 10))),
        from_optax(optax.sgd(optax.linear_schedule(0.1, 0.0, 20))),
        r"(?s:.*)\n  was .*\n  and is .* now$",
    ),
    "a clip": (
        from_optax(optax.adam(0.1)),
        from_optax(optax.chain(optax.clip(1.0), optax.adam(0.1))),
        r"trainer\.load the checkpoint and fit without `resume`",
    ),
}


@pytest.mark.parametrize(("begun", "other", "match"), RATES.values(), ids=RATES)
def test_a_training_goes_on_with_the_optimizer_that_it_began_with(
    begun: Any, other: Any, match: str, tmp_path: Path
) -> None:
    """Others have states of the same types. To go on with one of them is another training."""
    run = Checkpoints(tmp_path)
    classifier(begun).fit(data, 1, reporter=QUIET, checkpoints=run)
    again, trainer = classifier(begun), classifier(other)
    again.fit(data, 2, reporter=QUIET, checkpoints=run, resume=True)
    params = trainer.export_params()
    with pytest.raises(CheckpointError, match=f"with another optimizer, such as .*{match}"):
        trainer.fit(data, 3, reporter=QUIET, checkpoints=run, resume=True)
    chex.assert_trees_all_equal(trainer.export_params(), params)
    trainer.load(run.paths()[-1])
    trainer.fit(data, 1, reporter=QUIET)


@pytest.mark.parametrize("other", [CrossEntropyLoss(), MSELoss()], ids=["options", "targets"])
def test_a_training_goes_on_with_the_loss_that_it_began_with(other: Loss, tmp_path: Path) -> None:
    run = Checkpoints(tmp_path)
    counting_by(CrossEntropyLoss(label_smoothing=0.1)).fit(ONE, 1, reporter=QUIET, checkpoints=run)
    again, trainer = counting_by(CrossEntropyLoss(label_smoothing=0.1)), counting_by(other)
    again.fit(ONE, 2, reporter=QUIET, checkpoints=run, resume=True)
    match = r"with another loss, or with other options of it: (?s:.*) now$"
    with pytest.raises(CheckpointError, match=match):
        trainer.fit(ONE, 3, reporter=QUIET, checkpoints=run, resume=True)
    assert trainer.export_params()["w"].tolist() == [0, 0]


PAIRS = [(np.ones((3, 2), "float32"), np.ones((3, 2), "float32"))]
WITH_HELP = """
@I.ir_module
class Model:
    I.module_attrs({"param_num": 1, "state_num": 0})

    @R.function
    def backbone(x: R.Tensor(("n", 2), "float32"), w: R.Tensor((2,), "float32")):
        cls = Model
        out = cls.helped(x, w)
        return out

    @R.function(private=True)
    def helped(
        x: R.Tensor(("n", 2), "float32"), w: R.Tensor((2,), "float32")
    ) -> R.Tensor(("n", 2), "float32"):
        out = R.multiply(R.tanh(x), w)
        return out
"""
MODELS = {
    "its own body": (WITH_HELP, WITH_HELP.replace("out = cls.helped(x, w)", "out = R.exp(x) * w")),
    "what it calls": (WITH_HELP, WITH_HELP.replace("R.tanh", "R.sin")),
}


def of_script(script: str, **options: Any) -> Trainer:
    numbers = TensorType((SymbolicVar("n"), 2), "float32")
    setup: Any = SetupTrainer(MSELoss(), SGD(0.1), [numbers, numbers], **options)
    mod = setup(from_source(script))
    return Trainer(mod, VirtualMachine(build(mod)))


@pytest.mark.parametrize(("begun", "other"), MODELS.values(), ids=MODELS)
def test_a_training_goes_on_with_the_model_that_it_began_with(
    begun: str, other: str, tmp_path: Path
) -> None:
    """Another one may have parameters of the same names and shapes."""
    run = Checkpoints(tmp_path)
    of_script(begun).fit(PAIRS, 1, reporter=QUIET, checkpoints=run)
    again, trainer = of_script(begun), of_script(other)
    again.fit(PAIRS, 2, reporter=QUIET, checkpoints=run, resume=True)
    match = r"by a training with another model: resume=True goes on (?s:.*)\n  was (?s:.*) now$"
    with pytest.raises(CheckpointError, match=match):
        trainer.fit(PAIRS, 3, reporter=QUIET, checkpoints=run, resume=True)
    assert trainer.export_params()["w"].tolist() == [0, 0]
    trainer.load(run.paths()[-1])
    trainer.fit(PAIRS, 1, reporter=QUIET)


def test_a_training_goes_on_with_the_scale_of_its_loss(tmp_path: Path) -> None:
    """One that stays as it is and one that moves have states of the same types."""
    run = Checkpoints(tmp_path)
    of_script(WITH_HELP, loss_scale=8.0).fit(PAIRS, 1, reporter=QUIET, checkpoints=run)
    trainer = of_script(WITH_HELP, loss_scale="dynamic")
    with pytest.raises(CheckpointError, match="by a training with another optimizer"):
        trainer.fit(PAIRS, 2, reporter=QUIET, checkpoints=run, resume=True)
