"""TVM's tutorial of the training API, run as it is written.

The page takes Fashion-MNIST from torchvision, one-hot and in batches of 64; here digits of the same
size stand in for it. It trains a `Backbone` that it never defines: in the first part that is its
MLP, in the second a function `predict` whose parameters come first, as the page's comment says.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relaxjax.datasets import batches, digits
from relaxjax.script import ir as I
from relaxjax.script import relax as R
from relaxjax.tvm import install, uninstall

HERE = Path(__file__).parent
DIGITS = digits(28, one_hot=True)


@I.ir_module
class Backbone:
    @R.function
    def predict(
        w0: R.Tensor((784, 128), "float32"),
        b0: R.Tensor((128,), "float32"),
        w1: R.Tensor((128, 128), "float32"),
        b1: R.Tensor((128,), "float32"),
        w2: R.Tensor((128, 10), "float32"),
        b2: R.Tensor((10,), "float32"),
        x: R.Tensor((64, 784), "float32"),
    ) -> R.Tensor((64, 10), "float32"):
        with R.dataflow():
            lv0 = R.nn.relu(R.add(R.matmul(x, w0), b0))
            lv1 = R.nn.relu(R.add(R.matmul(lv0, w1), b1))
            out = R.add(R.matmul(lv1, w2), b2)
            R.output(out)
        return out


class TorchTensor(np.ndarray[Any, Any]):
    """What of a torch tensor the program uses beyond what numpy has."""

    def numpy(self) -> np.ndarray[Any, Any]:
        return np.asarray(self)


class Loader:
    """A stand-in for a torch DataLoader of digits."""

    def __init__(self, images: Any, labels: Any) -> None:
        self.dataset = images
        self.labels = labels

    def __len__(self) -> int:
        return len(self.dataset) // 64

    def __iter__(self) -> Iterator[tuple[TorchTensor, TorchTensor]]:
        for images, labels in batches(self.dataset, self.labels, 64, seed=0):
            dim = images / 4  # bright digits would not bear the page's step size
            yield dim.view(TorchTensor), labels.view(TorchTensor)


def run(name: str, **given: Any) -> dict[str, Any]:
    """The names that a program leaves behind."""
    path = HERE / name
    names: dict[str, Any] = {
        "__name__": "tutorial",
        "train_loader": Loader(DIGITS.train_images, DIGITS.train_labels),
        "test_loader": Loader(DIGITS.test_images, DIGITS.test_labels),
        "class_names": DIGITS.class_names,
        **given,
    }
    install()
    try:
        exec(compile(path.read_text(), str(path), "exec"), names)
    finally:
        uninstall()
    return names


def test_the_high_level_way(capsys: pytest.CaptureFixture[str]) -> None:
    left = run("high_level.txt")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] in {f"Class: {name}" for name in DIGITS.class_names}
    assert sum("Loss: " in line for line in lines) == 5
    assert 100 * left["correct"] / left["total"] > 85
    assert lines[-1].endswith(f"{100 * left['correct'] / left['total']:.2f}%")


def test_the_low_level_way(capsys: pytest.CaptureFixture[str]) -> None:
    left = run("low_level.txt", Backbone=Backbone)
    out = capsys.readouterr().out
    assert "def loss_adjoint" in out
    assert "6 6" in out.splitlines()
    np.testing.assert_allclose(left["loss"].numpy(), 64 * np.log(10), rtol=1e-4)
    old, gradient = np.ones((784, 128), "float32"), left["param_grad_tuple"][0].numpy()
    new = left["param_input_tuple"][0].numpy()
    np.testing.assert_allclose(new, old - 0.1 * gradient, rtol=1e-6)
    assert int(left["opt"].state[0]) == 1
