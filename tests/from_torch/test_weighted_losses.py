"""Losses of `torch.nn` with their options: they and their gradients are those of PyTorch."""

import types
from pathlib import Path
from typing import Any

import chex
import numpy as np
import pytest
from torch_loss_cases import CASES, IDS, SCORES, WEIGHT, several

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.losses import TripletMarginLoss
from relaxjax.lowering import VirtualMachine, build
from relaxjax.optim import SGD
from relaxjax.passes import Gradient
from relaxjax.torch import from_torch
from relaxjax.torch.aten import TABLE
from relaxjax.torch.aten.losses import REDUCTIONS
from relaxjax.torch.loss_modules import loss_of

FILES = Path(__file__).parent / "files"
WANTED = dict(np.load(FILES / "losses.npz"))
DEFAULTS: dict[str, dict[str, Any]] = {
    "CTCLoss": {"blank": 0, "zero_infinity": False},
    "CosineEmbeddingLoss": {"margin": 0.0},
    "CrossEntropyLoss": {"weight": None, "ignore_index": -100, "label_smoothing": 0.0},
    "NLLLoss": {"weight": None, "ignore_index": -100},
    "BCELoss": {"weight": None},
    "L1Loss": {},
    "SmoothL1Loss": {"beta": 1.0},
    "BCEWithLogitsLoss": {"weight": None, "pos_weight": None},
    "KLDivLoss": {"log_target": False},
    "GaussianNLLLoss": {"full": False, "eps": 1e-6},
    "HingeEmbeddingLoss": {"margin": 1.0},
    "MSELoss": {},
    "MarginRankingLoss": {"margin": 0.0},
    "MultiLabelMarginLoss": {},
    "MultiLabelSoftMarginLoss": {"weight": None},
    "MultiMarginLoss": {"p": 1, "margin": 1.0, "weight": None},
    "PoissonNLLLoss": {"log_input": True, "full": False, "eps": 1e-8},
    "SoftMarginLoss": {},
    "TripletMarginLoss": {"margin": 1.0, "p": 2.0, "eps": 1e-6, "swap": False},
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
def test_a_loss_with_options_of_torch(name: str) -> None:
    kind, options, predictions, targets = CASES[name]
    outputs = several(predictions)
    arrays = *outputs, *several(targets)
    function = loss_of(torch_loss(kind, **options))(*map(_tensor, arrays))
    mod = IRModule({"loss": function.with_attr("global_symbol", "loss")})
    result = VirtualMachine(build(mod))["loss"](*arrays)
    chex.assert_trees_all_close(np.asarray(result), WANTED[f"{name} loss"], rtol=2e-6, atol=1e-6)
    if options["reduction"] == "none":
        return
    adjoint = Gradient("loss", require_grads=list(function.params[: len(outputs)]))(mod)
    _, gradients = VirtualMachine(build(adjoint))["loss_adjoint"](*arrays)
    for place, (output, gradient) in enumerate(zip(outputs, gradients, strict=True)):
        wanted = WANTED[f"{name} gradient {place}"]
        found = np.asarray(gradient)
        if kind == "CTCLoss":
            found, wanted = (_behind_log_softmax(output, one) for one in (found, wanted))
        chex.assert_trees_all_close(found, wanted, rtol=2e-6, atol=1e-6)


def _behind_log_softmax(log_p: Any, gradient: Any) -> Any:
    """The gradient by the scores: torch gives that for the one by their log-probabilities."""
    return gradient - np.exp(log_p) * gradient.sum(-1, keepdims=True)


# What a model calls that computes such a loss itself.
IN_MODELS = {
    "CosineEmbeddingLoss": "cosine_embedding_loss",
    "MarginRankingLoss": "margin_ranking_loss",
    "TripletMarginLoss": "triplet_margin_loss",
}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[0] in IN_MODELS])
def test_a_loss_in_a_model(name: str) -> None:
    kind, options, predictions, targets = CASES[name]
    arrays = *several(predictions), *several(targets)
    params = [Var(f"x{place}", _tensor(one)) for place, one in enumerate(arrays)]
    given = {**options, "reduction": REDUCTIONS.index(options["reduction"])}
    builder = BlockBuilder()
    with builder.function("main", params):
        rule = TABLE[f"aten.{IN_MODELS[kind]}.default"].rule
        builder.emit_func_output(rule(*params, **given))
    result = VirtualMachine(build(builder.get()))["main"](*arrays)
    chex.assert_trees_all_close(np.asarray(result), WANTED[f"{name} loss"], rtol=2e-6, atol=1e-6)


# Outputs, targets, the loss of each and the gradient of the first output, by PyTorch.
TURNS: list[tuple[str, dict[str, Any], tuple[Any, ...], tuple[Any, ...], Any, Any]] = [
    ("L1Loss", {}, ([0.0, 1],), ([0.0, 0],), [0, 1], [0, 1]),
    ("SmoothL1Loss", {"beta": 0.0}, ([0.0, 2],), ([0.0, 0],), [0, 2], [0, 1]),
    ("BCELoss", {}, ([0.0, 1, 1],), ([1.0, 0, 1],), [100, 100, 0], [-1e12, 1e12, 0]),
    ("MarginRankingLoss", {}, ([0.0, 2], [0.0, 1]), ([1.0, 1],), [0, 0], [-1, 0]),
    ("CosineEmbeddingLoss", {}, ([[1.0, 0]], [[0.0, 1]]), ([-1.0],), [0], [[0, 1]]),
    ("TripletMarginLoss", {"eps": 0.0}, ([[0.0, 0]], [[0.0, 0]], [[1.0, 0]]), (), [0], [[1, 0]]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "outputs", "targets", "losses", "slope"), TURNS)
def test_a_loss_of_torch_has_its_slopes_where_they_jump(
    name: str, options: Any, outputs: Any, targets: Any, losses: Any, slope: Any
) -> None:
    arrays = [np.array(one, "float32") for one in (*outputs, *targets)]
    kinds = [loss_of(torch_loss(name, reduction=one, **options)) for one in ("none", "sum")]
    each, total = (kind(*map(_tensor, arrays)) for kind in kinds)
    found = VirtualMachine(build(IRModule({"loss": each})))["loss"](*arrays)
    np.testing.assert_allclose(np.asarray(found), losses, atol=1e-6)
    adjoint = Gradient("loss", require_grads=[total.params[0]])(IRModule({"loss": total}))
    _, (gradient,) = VirtualMachine(build(adjoint))["loss_adjoint"](*arrays)
    np.testing.assert_allclose(np.asarray(gradient), slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "shapes", "message"),
    [
        ("MarginRankingLoss", [(4,), (4, 1), (4,)], "the first outputs"),
        ("MarginRankingLoss", [(4,), (4,), (4, 1)], "the first outputs .* and `targets`"),
        ("CosineEmbeddingLoss", [(1, 2), (4, 2), (4,)], "the first outputs"),
        ("CosineEmbeddingLoss", [(4, 2), (4, 2), (3,)], "the angles .* and `targets`"),
        ("TripletMarginLoss", [(1, 2), (4, 2), (1, 2)], "the anchors .* the positives"),
        ("TripletMarginLoss", [(1, 2), (1, 2), (4, 2)], "the anchors .* the negatives"),
    ],
)
def test_outputs_that_do_not_fit(name: str, shapes: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        loss_of(torch_loss(name))(*(TensorType(shape, "float32") for shape in shapes))


def test_what_cannot_be_spelt_is_infinite_and_has_no_gradient() -> None:
    _, _, predictions, targets = CASES["spellings, mean"]
    arrays = *several(predictions), *several(targets)
    function = loss_of(torch_loss("CTCLoss", reduction="none"))(*map(_tensor, arrays))
    mod = IRModule({"loss": function.with_attr("global_symbol", "loss")})
    losses = np.asarray(VirtualMachine(build(mod))["loss"](*arrays))
    assert np.isfinite(losses).tolist() == [True, True, True, False]
    summed = loss_of(torch_loss("CTCLoss", reduction="sum"))(*map(_tensor, arrays))
    mod = IRModule({"loss": summed.with_attr("global_symbol", "loss")})
    adjoint = Gradient("loss", require_grads=[summed.params[0]])(mod)
    _, (gradient,) = VirtualMachine(build(adjoint))["loss_adjoint"](*arrays)
    spelt = np.isfinite(np.asarray(gradient)).all((0, 2))
    assert spelt.tolist() == [True, True, True, False]


def test_a_model_is_trained_by_a_weighted_loss_of_torch() -> None:
    loss = torch_loss("CrossEntropyLoss", weight=WEIGHT[:4])
    trainer = from_torch(FILES / "block.pt2").trainer(loss, SGD(0.1))
    images = np.random.default_rng(0).normal(size=(4, 1, 8, 8)).astype("float32")
    losses = [float(trainer.update(images, IDS % 4)) for _ in range(5)]
    assert losses[-1] < losses[0]
    assert trainer.scores_classes
    assert SCORES.shape[1] == len(WEIGHT)


def test_a_loss_of_more_outputs_than_there_are() -> None:
    model = from_torch(FILES / "block.pt2")
    with pytest.raises(ValueError, match=r"TripletMarginLoss takes 3 outputs .* gives 1"):
        model.trainer(TripletMarginLoss(), SGD(0.1))


@pytest.mark.parametrize("name", ["SoftMarginLoss", "PoissonNLLLoss", "KLDivLoss", "MSELoss"])
def test_targets_are_of_the_shape_of_the_predictions(name: str) -> None:
    """Torch broadcasts them here and warns there: one target would meet several predictions."""
    loss = loss_of(torch_loss(name))
    with pytest.raises(TypeError, match=r"shape \(4, 3\), and `targets` the shape \(4, 1\), which"):
        loss(TensorType((4, 3), "float32"), TensorType((4, 1), "float32"))
