"""What every loss shares: reduction, parameters, functions for given types, losses of one's own."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from relaxjax.ir import BlockBuilder, Expr, SymbolicVar, TensorType, Var, assert_structural_equal
from relaxjax.losses import CrossEntropyLoss, L1Loss, Loss, MSELoss
from relaxjax.ops.declare import OpError
from relaxjax.script import from_source

TENSOR = TensorType((3, 5), "float32")


class PinballLoss(Loss):
    """A loss of a user's own, with a hyperparameter and three arguments, two of them outputs."""

    def __init__(self, share: float, reduction: Any = "mean") -> None:
        super().__init__("pinball_loss", 2, reduction)
        self.share = share

    def build(self, builder: BlockBuilder, low: Expr, high: Expr, targets: Expr) -> Expr:
        return self.reduce((high - targets) * self.share + (targets - low) * (1 - self.share))


def test_l1() -> None:
    expected = from_source("""
@R.function
def l1_loss(predictions: R.Tensor((3, 5), "float32"), targets: R.Tensor((3, 5), "float32")):
    with R.dataflow():
        lv = R.subtract(predictions, targets)
        lv1 = R.abs(lv)
        gv = R.mean(lv1, axis=None, keepdims=False)
        R.output(gv)
    return gv
""")
    assert_structural_equal(L1Loss()(TENSOR, TENSOR), expected)


def test_mse_takes_the_difference_once() -> None:
    expected = from_source("""
@R.function
def mse_loss(predictions: R.Tensor((3, 5), "float32"), targets: R.Tensor((3, 5), "float32")):
    with R.dataflow():
        lv = R.subtract(predictions, targets)
        lv1 = R.multiply(lv, lv)
        gv = R.sum(lv1, axis=None, keepdims=False)
        R.output(gv)
    return gv
""")
    assert_structural_equal(MSELoss("sum")(TENSOR, TENSOR), expected)


@pytest.mark.parametrize("loss", [L1Loss("none"), MSELoss("none")])
def test_no_reduction_leaves_the_losses_of_the_elements(loss: Loss) -> None:
    assert loss(TENSOR, TENSOR).ret_ty == TENSOR


def test_a_symbolic_batch() -> None:
    ty = TensorType((SymbolicVar("n"), 5), "float32")
    assert MSELoss("none")(ty, ty).ret_ty == ty
    assert MSELoss()(ty, ty).ret_ty == TensorType((), "float32")


def test_a_variable_gives_its_name_and_is_not_used_itself() -> None:
    scores = Var("scores", TENSOR)
    function = L1Loss()(scores, TENSOR)
    assert [param.name for param in function.params] == ["scores", "targets"]
    assert function.params[0] is not scores


def test_arguments_may_be_named() -> None:
    assert_structural_equal(L1Loss()(targets=TENSOR, predictions=TENSOR), L1Loss()(TENSOR, TENSOR))


def test_equal_losses_are_equal() -> None:
    assert L1Loss() == L1Loss("mean")
    assert L1Loss() != L1Loss("sum")
    assert L1Loss().loss_name == "l1_loss"
    assert L1Loss().num_backbone_outputs == 1


def test_a_loss_of_ones_own() -> None:
    loss = PinballLoss(0.25, "sum")
    function = loss(TENSOR, TENSOR, TENSOR)
    assert function.global_symbol == "pinball_loss"
    assert [param.name for param in function.params] == ["low", "high", "targets"]
    assert function.ret_ty == TensorType((), "float32")
    assert loss.num_backbone_outputs == 2


@pytest.mark.parametrize("outputs", ["sum", 0, True, 1.0])
def test_outputs_that_are_no_number_of_them(outputs: Any) -> None:
    """Such as a reduction, which a class without an `__init__` would take for them."""

    @dataclass(frozen=True)
    class Distance(Loss):
        loss_name: str = field(default="distance", init=False)

    assert Distance(reduction="sum").reduction == "sum"
    match = rf"`num_backbone_outputs` of Distance must be .* it is {outputs!r}: .*reduction=\"sum\""
    with pytest.raises(ValueError, match=match):
        Distance(outputs)


def test_an_unknown_reduction_is_an_error() -> None:
    match = '`reduction` must be one of "mean", "sum", "none", but it is \'max\''
    with pytest.raises(ValueError, match=match):
        L1Loss("max")  # type: ignore[arg-type]  # the very point of the test


def test_an_argument_must_be_a_type_or_a_variable() -> None:
    match = r"L1Loss: `targets` must be a Var or a Type, but `\(3, 5\)` of type tuple was given"
    with pytest.raises(TypeError, match=match):
        L1Loss()(TENSOR, (3, 5))  # type: ignore[arg-type]  # the very point of the test


def test_the_wrong_number_of_arguments_is_an_error() -> None:
    match = r"L1Loss\(predictions, targets, weights\): missing .*'targets'; give the type of each"
    with pytest.raises(TypeError, match=match):
        L1Loss()(TENSOR)
    with pytest.raises(TypeError, match=r"L1Loss\(predictions, targets, weights\): too many"):
        L1Loss()(TENSOR, TENSOR, TENSOR, TENSOR)


def test_what_an_operator_of_a_loss_refuses_is_told_with_the_loss() -> None:
    """The error itself speaks of parameters of the operator."""
    scores, labels = TensorType((8, 3), "float32"), TensorType((8,), "int32")
    with pytest.raises(OpError, match="`data` must have a float dtype, found int32") as caught:
        CrossEntropyLoss()(labels, scores)
    (note,) = caught.value.__notes__
    assert note == (
        'in CrossEntropyLoss for `predictions` of type R.Tensor((8,), dtype="int32"), '
        '`targets` of type R.Tensor((8, 3), dtype="float32")'
    )


def test_a_loss_must_define_its_body() -> None:
    class Idle(Loss):
        pass

    with pytest.raises(NotImplementedError, match=r"Idle must define `build\(builder, predictions"):
        Idle("idle")()


def test_a_loss_must_have_a_name() -> None:
    class Nameless(Loss):
        def __init__(self) -> None:
            self.delta = 1.0

    match = r"Nameless has no name yet: its `__init__` must call super\(\).__init__\("
    with pytest.raises(TypeError, match=match):
        Nameless()(TensorType((2,), "float32"))
