"""A warning for models that end in a softmax, or a sigmoid, before a loss that takes scores."""

import warnings
from typing import Any

import pytest

from relaxjax import IRModule, TensorType, from_source
from relaxjax.losses import BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, MSELoss, NLLLoss
from relaxjax.optim import SGD
from relaxjax.passes import AppendLoss, SetupTrainer

SCORES = TensorType((4, 3), "float32")
IDS = TensorType((4,), "int32")
SENTENCE = (
    "^the model ends in a softmax, `out`, and the loss `cross_entropy_loss` takes scores, of which "
    "it computes the softmax itself: leave that of the model out, or write R.nn.log_softmax there "
    "and take NLLLoss$"
)


def model(ending: str) -> IRModule:
    text = f"""
@I.ir_module
class Model:
    I.module_attrs({{"param_num": 1, "state_num": 0}})

    @R.function
    def backbone(x: R.Tensor((4, 5), "float32"), w: R.Tensor((5, 3), "float32")):
        with R.dataflow():
            scores = R.matmul(x, w)
            out = {ending}
            R.output(out)
        return out
"""
    found = from_source(text, file="two_softmaxes.py")
    assert isinstance(found, IRModule)
    return found


@pytest.mark.parametrize(
    ("ending", "loss", "types", "message"),
    [
        ("R.nn.softmax(scores)", CrossEntropyLoss(), [SCORES, IDS], SENTENCE),
        (
            "R.sigmoid(scores)",
            BCEWithLogitsLoss(),
            [SCORES] * 2,
            "ends in a sigmoid.*out, or take BCELoss$",
        ),
    ],
)
def test_the_line_of_the_model_is_named(
    ending: str, loss: Any, types: list[TensorType], message: str
) -> None:
    with pytest.warns(UserWarning, match=message) as found:
        SetupTrainer(loss, SGD(0.1), types)(model(ending))
    assert {(one.filename, one.lineno) for one in found} == {("two_softmaxes.py", 10)}
    with pytest.warns(UserWarning, match="takes scores"):
        AppendLoss("backbone", loss(*types))(model(ending))


@pytest.mark.parametrize(
    ("ending", "loss", "types"),
    [
        ("R.nn.relu(scores)", CrossEntropyLoss(), [SCORES, IDS]),
        ("R.nn.log_softmax(scores)", NLLLoss(), [SCORES, IDS]),
        ("R.nn.softmax(scores)", MSELoss(), [SCORES] * 2),
        ("R.sigmoid(scores)", BCELoss(), [SCORES] * 2),
        ("R.sigmoid(scores)", CrossEntropyLoss(), [SCORES, IDS]),
    ],
)
def test_what_is_right_is_not_warned_of(ending: str, loss: Any, types: list[TensorType]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AppendLoss("backbone", loss(*types))(model(ending))


def test_a_line_is_warned_of_once() -> None:
    """As Python does for its own warnings: the command `train` sets a model up twice."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(2):
            AppendLoss("backbone", CrossEntropyLoss()(SCORES, IDS))(model("R.nn.softmax(scores)"))
    assert len(found) == 1
