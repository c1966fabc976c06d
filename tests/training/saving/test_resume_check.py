"""A training goes on with the model, the loss and the optimizer that it began with."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import chex
import numpy as np
import optax
import pytest
from parsing import parse_backbone
from small_models import Counting, batch, classifier, trainer_of

from relaxjax import SetupTrainer, VirtualMachine, build, from_source
from relaxjax.ir import SymbolicVar, TensorType
from relaxjax.losses import CrossEntropyLoss, Loss, MSELoss
from relaxjax.optim import SGD, Adam, from_optax
from relaxjax.training import CheckpointError, Checkpoints, Lines, Trainer
from relaxjax.training.saving.checkpoint import save
from relaxjax.training.saving.resume_check import check_begun

QUIET = Lines(lambda line: None)


def data(epoch: int) -> Any:
    return [batch(10 * epoch + index) for index in range(2)]


def counting_by(loss: Loss) -> Trainer:
    """A model of batches of any size, by a loss whose targets may be of other types."""
    n = SymbolicVar("n")
    targets = TensorType((n,), "int32") if loss.compares_classes else TensorType((n, 2), "float32")
    return trainer_of(Counting, loss, SGD(0.1), TensorType((n, 2), "float32"), targets)


def check_goes_on(
    folder: Path, begun: Callable[[], Trainer], other: Trainer, given: Any, match: str
) -> None:
    """A training goes on with a trainer as it began; another is refused, and stays as it was."""
    run = Checkpoints(folder)
    begun().fit(given, 1, reporter=QUIET, checkpoints=run)
    begun().fit(given, 2, reporter=QUIET, checkpoints=run, resume=True)
    params = other.export_params()
    with pytest.raises(CheckpointError, match=match):
        other.fit(given, 3, reporter=QUIET, checkpoints=run, resume=True)
    chex.assert_trees_all_equal(other.export_params(), params)
    other.load(run.paths()[-1])
    other.fit(given, 1, reporter=QUIET)


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
    refusal = f"with another optimizer, such as .*{match}"
    check_goes_on(tmp_path, lambda: classifier(begun), classifier(other), data, refusal)


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
    match = r"by a training with another model: resume=True goes on (?s:.*)\n  was (?s:.*) now$"
    check_goes_on(tmp_path, lambda: of_script(begun), of_script(other), PAIRS, match)


def test_a_training_goes_on_with_the_dropout_that_it_began_with(tmp_path: Path) -> None:
    """What predicts is the same for any rate."""
    script = WITH_HELP.replace("out = cls.helped(x, w)", "out = R.nn.dropout(x * w, rate=0.2)[0]")
    other = script.replace("0.2", "0.5")
    match = r"another model in training, such as (?s:.*) there: 0\.8, 1\.25\n  only here: 0\.5, 2$"
    check_goes_on(tmp_path, lambda: of_script(script), of_script(other), PAIRS, match)


def test_a_training_goes_on_with_the_scale_of_its_loss(tmp_path: Path) -> None:
    """One that stays as it is and one that moves have states of the same types."""
    run = Checkpoints(tmp_path)
    of_script(WITH_HELP, loss_scale=8.0).fit(PAIRS, 1, reporter=QUIET, checkpoints=run)
    trainer = of_script(WITH_HELP, loss_scale="dynamic")
    with pytest.raises(CheckpointError, match="by a training with another optimizer"):
        trainer.fit(PAIRS, 2, reporter=QUIET, checkpoints=run, resume=True)


# Where the functions have the arrays in other places


def layers(function: str = "R.tanh", **options: Any) -> Any:
    """A network of three equal layers, set up with options of the module."""
    lines = [f"h{i + 1} = R.add(h{i}, {function}(R.matmul(h{i}, w{i})))" for i in range(3)]
    params = ", ".join(f'w{i}: R.Tensor((4, 4), "float32")' for i in range(3))
    signature = f'h0: R.Tensor((2, 4), "float32"), {params}'
    backbone = parse_backbone("\n".join([*lines, "return h3"]), signature, param_num=3, state_num=0)
    given = {"loss": MSELoss(), "optimizer": Adam(0.01), **options}
    loss, optimizer = given.pop("loss"), given.pop("optimizer")
    return SetupTrainer(loss, optimizer, [TensorType((2, 4), "float32")] * 2, **given)(backbone)


def refused(path: Path, mod: Any) -> str:
    try:
        check_begun(path, mod)
    except CheckpointError as error:
        return str(error)
    return ""


def normed(most: float) -> Any:
    return from_optax(optax.chain(optax.clip_by_global_norm(most), optax.sgd(0.1)))


OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "a model": (
        {},
        {"function": "R.sin"},
        "another model: ",
        "\n  only there: `lax.tanh`\n  only here: `lax.sin`",
    ),
    "a loss": (
        {},
        {"loss": MSELoss("sum")},
        "another loss, or with other options of it: ",
        "\n  only there: 8, `lax.div`",
    ),
    "a rate": (
        {},
        {"optimizer": Adam(0.02)},
        "another optimizer, such as one of",
        "\n  only there: 0.01\n  only here: 0.02",
    ),
    "a norm": (
        {"optimizer": normed(1.0)},
        {"optimizer": normed(2.0)},
        "another optimizer",
        "\n  only there: 1\n  only here: 2",
    ),
    "a scale": (
        {"loss_scale": 8.0},
        {"loss_scale": "dynamic"},
        "another optimizer",
        "\n  only here: 0.5, 2, `lax.ge`, `lax.max`",
    ),
}


@pytest.mark.parametrize(("begun", "other", "said", "differs"), OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("roll", [True, False])
def test_a_training_goes_on_the_same_though_layers_are_rolled_in_one_of_the_two(
    begun: dict[str, Any],
    other: dict[str, Any],
    said: str,
    differs: str,
    roll: bool,
    tmp_path: Path,
) -> None:
    before = layers(**begun, roll_blocks=roll)
    save(tmp_path / "step", (), (), before)
    again = layers(**begun, roll_blocks=not roll)
    assert ("stored_params" in again.attrs) != ("stored_params" in before.attrs)
    assert refused(tmp_path / "step", again) == ""
    found = refused(tmp_path / "step", layers(**{**begun, **other}, roll_blocks=not roll))
    assert found.startswith(f"`{tmp_path / 'step'}` was written by a training with {said}")
    assert found.endswith(f"trainer.load the checkpoint and fit without `resume`{differs}")


def test_an_optimizer_of_other_states_is_left_to_loading(tmp_path: Path) -> None:
    """Which lists them, and says how the model alone is taken over."""
    save(tmp_path / "step", (), (), layers(roll_blocks=True))
    assert refused(tmp_path / "step", layers(optimizer=SGD(0.1), roll_blocks=False)) == ""


def test_a_training_on_a_mesh_goes_on_as_it_was_begun(tmp_path: Path) -> None:
    save(tmp_path / "step", (), (), layers())
    assert refused(tmp_path / "step", layers(devices=2)) == ""
    found = refused(tmp_path / "step", layers(devices=2, optimizer=Adam(0.02)))
    assert "by a training with another optimizer" in found


def test_a_file_from_before_there_were_digests_is_taken(tmp_path: Path) -> None:
    save(tmp_path / "step", (), (), layers(roll_blocks=True).without_attr("made_of"))
    assert refused(tmp_path / "step", layers("R.sin", roll_blocks=False)) == ""
