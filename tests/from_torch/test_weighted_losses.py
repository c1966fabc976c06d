"""Losses of `torch.nn` with options of their own: they and their gradients are those of PyTorch."""

import types
from pathlib import Path
from typing import Any

import chex
import numpy as np
import pytest
from torch_loss_cases import CASES, IDS, SCORES, WEIGHT

from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.lowering import VirtualMachine, build
from relaxjax.optim import SGD
from relaxjax.passes import Gradient
from relaxjax.torch import from_torch
from relaxjax.torch.loss_modules import loss_of

FILES = Path(__file__).parent / "files"
WANTED = dict(np.load(FILES / "losses.npz"))
DEFAULTS: dict[str, dict[str, Any]] = {
    "CrossEntropyLoss": {"weight": None, "ignore_index": -100, "label_smoothing": 0.0},
    "NLLLoss": {"weight": None, "ignore_index": -100},
    "BCELoss": {"weight": None},
    "BCEWithLogitsLoss": {"weight": None, "pos_weight": None},
    "KLDivLoss": {"log_target": False},
    "HingeEmbeddingLoss": {"margin": 1.0},
    "MultiLabelSoftMarginLoss": {"weight": None},
    "MultiMarginLoss": {"p": 1, "margin": 1.0, "weight": None},
    "PoissonNLLLoss": {"log_input": True, "full": False, "eps": 1e-8},
    "SoftMarginLoss": {},
}


class Weights:
    """A tensor, as far as it is looked at."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def numpy(self, force: bool) -> Any:
        assert force, "else torch refuses a tensor of a GPU"
        return self.array


def torch_loss(name: str, **options: Any) -> Any:
    """A loss as torch makes one, as far as it is looked at."""
    kind = type(name, (types.SimpleNamespace,), {"__module__": "torch.nn.modules.loss"})
    given = {**DEFAULTS[name], "reduction": "mean", **options}
    arrays = {key: value for key, value in given.items() if isinstance(value, np.ndarray)}
    return kind(**given | {key: Weights(value) for key, value in arrays.items()})


def _tensor(array: Any) -> TensorType:
    return TensorType(array.shape, array.dtype.name)


@pytest.mark.parametrize("name", CASES)
def test_a_loss_with_options_of_torch_alone(name: str) -> None:
    kind, options, predictions, targets = CASES[name]
    function = loss_of(torch_loss(kind, **options))(_tensor(predictions), _tensor(targets))
    mod = IRModule({"loss": function.with_attr("global_symbol", "loss")})
    result = VirtualMachine(build(mod))["loss"](predictions, targets)
    chex.assert_trees_all_close(np.asarray(result), WANTED[f"{name} loss"], rtol=2e-6, atol=1e-6)
    if options["reduction"] == "none":
        return
    adjoint = Gradient("loss", require_grads=[function.params[0]])(mod)
    _, (gradient,) = VirtualMachine(build(adjoint))["loss_adjoint"](predictions, targets)
    wanted = WANTED[f"{name} gradient"]
    chex.assert_trees_all_close(np.asarray(gradient), wanted, rtol=2e-6, atol=1e-6)


def test_a_model_is_trained_by_a_weighted_loss_of_torch() -> None:
    loss = torch_loss("CrossEntropyLoss", weight=WEIGHT[:4])
    trainer = from_torch(FILES / "block.pt2").trainer(loss, SGD(0.1))
    images = np.random.default_rng(0).normal(size=(4, 1, 8, 8)).astype("float32")
    losses = [float(trainer.update(images, IDS % 4)) for _ in range(5)]
    assert losses[-1] < losses[0]
    assert trainer.scores_classes
    assert SCORES.shape[1] == len(WEIGHT)
