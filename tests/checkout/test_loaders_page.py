"""The recipes of docs/loaders.md give batches: of the libraries where they are, else of doubles."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "loaders.md"
X = np.arange(14.0).reshape(7, 2).astype("float32")
Y = np.arange(7)


@pytest.fixture(scope="module")
def recipes() -> dict[str, Any]:
    """The functions that the page defines."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, names)
    return names


def check(epoch: Callable[[int], Any]) -> None:
    """Two full batches, of pairs that belong together, in an order that the epoch decides."""
    orders = []
    for number in (0, 1, 0):
        found = list(epoch(number))
        assert [(x.shape, y.shape) for x, y in found] == [((3, 2), (3,))] * 2
        for x, y in found:
            assert (x.dtype, y.dtype) == ("float32", "int32")
            np.testing.assert_array_equal(x[:, 0], 2 * y)
        orders.append([int(label) for _, y in found for label in y])
    assert orders[0] == orders[2] != orders[1]


def test_a_generator(recipes: dict[str, Any]) -> None:
    def read(number: int) -> Any:
        for index in np.random.default_rng(number).permutation(7):
            yield X[index], Y[index]

    check(recipes["from_generator"](read, 3))


def test_grain(recipes: dict[str, Any]) -> None:
    pytest.importorskip("grain")
    check(recipes["from_grain"](X, Y, 3))


class Loader:
    """As much of a DataLoader as a training sees: tensors that say `numpy()`, a seeded order."""

    def __init__(self) -> None:
        self.seed = 0
        generator = SimpleNamespace(manual_seed=lambda seed: setattr(self, "seed", seed))
        self.sampler = SimpleNamespace(generator=generator)

    def __iter__(self) -> Any:
        order = np.random.default_rng(self.seed).permutation(7)
        for part in (order[:3], order[3:6]):
            yield (
                SimpleNamespace(numpy=lambda part=part: X[part].astype("float64")),
                SimpleNamespace(numpy=lambda part=part: Y[part]),
            )


def test_a_loader_of_torch(recipes: dict[str, Any]) -> None:
    check(recipes["from_torch"](Loader()))


def test_the_loader_of_torch_itself(recipes: dict[str, Any]) -> None:
    torch: Any = pytest.importorskip("torch")
    data = importlib.import_module("torch.utils.data")
    pairs = data.TensorDataset(torch.tensor(X), torch.tensor(Y))
    loader = data.DataLoader(pairs, 3, shuffle=True, drop_last=True, generator=torch.Generator())
    check(recipes["from_torch"](loader))


def test_datasets(recipes: dict[str, Any]) -> None:
    # By a module of it, because there is a folder `datasets` among the tests.
    made: Any = pytest.importorskip("datasets.arrow_dataset")
    dataset = made.Dataset.from_dict({"image": X.tolist(), "label": Y.tolist()})
    check(recipes["from_datasets"](dataset, "image", "label", 3))
