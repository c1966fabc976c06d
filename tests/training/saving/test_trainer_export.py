"""A trainer written as artifacts, and run by JAX alone."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from exported_model import model_of
from parsing import parse_backbone
from small_models import batch, classifier, trainer_of

from relaxjax import Trainer
from relaxjax.ir import SymbolicVar, TensorType
from relaxjax.losses import CrossEntropyLoss, MSELoss
from relaxjax.lowering import ArgumentError
from relaxjax.optim import SGD, Adam

# In a fresh process, where importing relaxjax is an error.
RUN = """
import sys
sys.modules["relaxjax"] = None
sys.path.insert(0, sys.argv[1])
import numpy as np
from model import Model

batches = np.load(sys.argv[2])
model = Model()
losses = [float(model.train_step(x, y)) for x, y in zip(batches["x"], batches["y"])]
np.savez(sys.argv[3], losses=losses, scores=model.predict(batches["x"][0]))
model.save()
"""


def run_alone(folder: Path, data: list[tuple[Any, Any]], tmp_path: Path) -> Any:
    xs, ys = zip(*data, strict=True)
    np.savez(tmp_path / "data.npz", x=np.stack(xs), y=np.stack(ys))
    files = [str(tmp_path / name) for name in ("data.npz", "out.npz")]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN, str(folder), *files],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as found:
        return dict(found)


def dropping() -> Trainer:
    """A symbolic batch, dropout, and so a random key among the states."""
    body = """
        thin = R.nn.dropout(x, rate=0.5)
        out = R.multiply(thin[0], w)
        more = R.add(s, R.const(1, "float32"))
        return (out, more)
    """
    backbone = parse_backbone(body, param_num=1, state_num=1, x=("n", 4), w=(4,), s=())
    values = TensorType((SymbolicVar("n"), 4), "float32")
    trainer = trainer_of(backbone, MSELoss(), SGD(0.1), values, values, loss_scale="dynamic")
    trainer.load_params([np.ones(4, "float32")])
    trainer.seed(3)
    return trainer


def rows(seed: int) -> tuple[Any, Any]:
    x = np.random.default_rng(seed).normal(size=(3, 4)).astype("float32")
    return x, np.zeros_like(x)


@pytest.mark.parametrize(
    ("made", "data"),
    [(lambda: classifier(Adam(0.1)), batch), (dropping, rows)],
    ids=["adam", "key"],
)
def test_the_artifacts_train_and_predict_as_the_trainer_does(
    made: Any, data: Any, tmp_path: Path
) -> None:
    trainer = made()
    trainer.export(tmp_path / "exported", ["cpu"])
    batches = [data(seed) for seed in range(3)]
    found = run_alone(tmp_path / "exported", batches, tmp_path)
    losses = [float(trainer.update(*pair)) for pair in batches]
    np.testing.assert_allclose(found["losses"], losses, rtol=1e-6)
    np.testing.assert_allclose(found["scores"], trainer.predict(batches[0][0]), rtol=1e-6)
    again = made()
    again.load(tmp_path / "exported" / "state.safetensors")
    for name, array in trainer.export_params().items():
        np.testing.assert_allclose(again.export_params()[name], array, rtol=1e-6)


def test_an_exported_state_is_checked_and_saved_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier(SGD(0.1)).export(tmp_path, ["cpu"])
    state = tmp_path / "state.safetensors"
    whole = state.read_bytes()
    model = model_of(tmp_path)
    model.train_step(*batch(0))
    for place, what in (
        (-1, "what it holds of `.*`"),
        (whole.index(b"relaxjax trainer"), "the text in its header"),
    ):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        state.write_bytes(damaged)
        match = f"state.safetensors` is damaged: {what} is not what was written, by its checksum: "
        with pytest.raises(ValueError, match=match):
            model_of(tmp_path)

    def full(handle: int) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="no space left"):
            model.save()
    assert not list(tmp_path.glob("*.part"))
    model.save()  # all that the file needs is in the model
    again = classifier(SGD(0.1))
    again.load(state)
    np.testing.assert_array_equal(again.export_params()["w0"], model.params[0])


def test_a_file_is_no_folder_to_export_into(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_text("")
    with pytest.raises(FileExistsError, match=r"`.*model` is a file: give a folder to export into"):
        classifier().export(path)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "gone")
    match = r"gone`, which is not there: give a folder to export"
    with pytest.raises(FileExistsError, match=match):
        classifier().export(link)


def test_what_is_not_initialised_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="not initialized before exporting"):
        classifier(zero_init_param_state=False).export(tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def words() -> Trainer:
    """It adds rows of a table to numbers, and scores three classes."""
    body = "out = R.add(R.sum(R.take(table, ids, axis=0), axis=[1]), more)"
    params = 'ids: R.Tensor(("n", 4), "int32")'
    backbone = parse_backbone(body, params, param_num=1, more=("n", 3), table=(7, 3))
    n = SymbolicVar("n")
    types = [TensorType((n, 3), "float32"), TensorType((n,), "int32")]
    trainer = trainer_of(backbone, CrossEntropyLoss(), SGD(0.1), *types)
    trainer.xavier_uniform_init_params()
    return trainer


IDS, MORE, CLASSES = np.full((2, 4), 6), np.ones((2, 3)), np.array([2, -100])

WRONG: list[tuple[Any, Any, type[Exception], str]] = [
    ([IDS], CLASSES, ValueError, "the inputs are `ids`, `more`, but 1 arrays were given"),
    ([IDS, MORE], [CLASSES, 1], ValueError, "the targets are `targets`, but 2 arrays were given"),
    ([IDS[:, 1:], MORE], CLASSES, ValueError, r"`ids` is of shape \(n, 4\), but .* \(2, 3\) was"),
    ([IDS, MORE], CLASSES[None], ValueError, r"`targets` is of shape \(n\), but an array of shape"),
    ([IDS, MORE + 1e-12], CLASSES, TypeError, r"`more` .* convert them by .astype\(\"float32\"\)"),
    ([IDS, MORE + 1j], CLASSES, TypeError, "`more` is of dtype float32, but .* complex128 and"),
    (
        [IDS, [["a"] * 3] * 2],
        CLASSES,
        TypeError,
        "`more` is of dtype float32, but the values given",
    ),
    ([IDS + 1, MORE], CLASSES, ValueError, "`ids` holds 7: give ids of 0 to 6$"),
    (
        [IDS, MORE],
        CLASSES + 1,
        ValueError,
        "`targets` holds -99 to 3: give ids .* or -100 for what",
    ),
    ([IDS[:0], MORE[:0]], CLASSES[:0], ValueError, r"`ids` holds no samples, its shape is \(0, 4"),
    ([IDS, MORE], CLASSES[:1], ValueError, r"`targets` must have n = 2, as `ids` has, but .*\(1,"),
    (
        [IDS, np.ma.masked_less(MORE, 9)],
        CLASSES,
        TypeError,
        "`more` is a masked array, whose mask would be lost: fill it first",
    ),
    ([IDS, MORE], CLASSES * 0 - 100, ValueError, "all of `targets` is -100, which counts for no"),
]


@pytest.mark.parametrize(("inputs", "targets", "error", "match"), WRONG)
def test_artifacts_refuse_what_the_trainer_does(
    inputs: Any, targets: Any, error: type[Exception], match: str, tmp_path: Path
) -> None:
    trainer = words()
    trainer.export(tmp_path, platforms=["cpu"])
    with pytest.raises(error, match=match):
        model_of(tmp_path).train_step(inputs, targets)
    with pytest.raises((error, ArgumentError)):
        trainer.update(inputs, targets)


def test_artifacts_take_what_the_trainer_does(tmp_path: Path) -> None:
    """Numbers of any dtype that hold nothing which that of the model does not."""
    trainer = words()
    trainer.export(tmp_path, platforms=["cpu"])
    model = model_of(tmp_path)
    for given in ([IDS, MORE], [jnp.array(IDS), MORE.tolist()], [IDS.astype("uint8"), MORE]):
        np.testing.assert_allclose(model.predict(*given), trainer.predict(*given), rtol=1e-6)
    loss = model.train_step([IDS, MORE], CLASSES)
    np.testing.assert_allclose(loss, trainer.update([IDS, MORE], CLASSES), rtol=1e-6)


def test_the_artifact_of_a_loss_takes_its_batch_alone(tmp_path: Path) -> None:
    def loss(params: Any, given: Any) -> Any:
        return jnp.mean((given["x"] @ params - given["y"]) ** 2)

    given = {"x": np.ones((4, 3), "float32"), "y": np.zeros(4, "float32")}
    trainer = Trainer.from_jax(loss, jnp.ones(3), SGD(0.1), given)
    trainer.export(tmp_path, platforms=["cpu"])
    value = model_of(tmp_path).train_step([given["x"], given["y"]])
    np.testing.assert_allclose(value, trainer.update(given), rtol=1e-6)
