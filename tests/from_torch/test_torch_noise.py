"""Random numbers of PyTorch: others in each step of a training, and their mean in a prediction."""

from typing import Any

import jax
import numpy as np
import pytest
from aten_results import slopes, value

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.lowering import to_jax
from relaxjax.passes import DecomposeOpsForTraining, EliminateCommonSubexpr, FoldConstant
from relaxjax.torch.aten import TABLE

X = np.zeros((4000,), "float32")


def model(*targets: tuple[str, dict[str, Any]]) -> IRModule:
    """A backbone whose results are what is drawn; like its input, where no size is given."""
    x, builder = Var("x", TensorType(X.shape, "float32")), BlockBuilder()
    with builder.function("backbone", [x]):
        with builder.dataflow():
            rules = [(TABLE[f"aten.{name}"].rule, options) for name, options in targets]
            found = [rule(**({} if "size" in o else {"self": x}), **o) for rule, o in rules]
            results = [builder.emit_output(one) for one in found]
        builder.emit_func_output(results)
    return builder.get()


CASES: list[tuple[str, dict[str, Any], float, float]] = [
    ("randn_like.default", {}, 0, 1),
    ("rand_like.default", {}, 0.5, 12**-0.5),
    ("randn.default", {"size": [4000]}, 0, 1),
    ("rand.default", {"size": [40, 100]}, 0.5, 12**-0.5),
    ("normal.float_float", {"mean": 3.0, "std": 2.0, "size": [4000]}, 3, 2),
    ("normal.default", {"mean": 1.0}, 1, 1),
    ("uniform.default", {"from": -1.0, "to": 3.0}, 1, 4 * 12**-0.5),
    ("exponential.default", {}, 1, 1),
    ("exponential.default", {"lambd": 4.0}, 0.25, 0.25),
]


@pytest.mark.parametrize(("name", "options", "mean", "deviation"), CASES)
def test_what_is_drawn(name: str, options: Any, mean: float, deviation: float) -> None:
    mod = model((name, options))
    np.testing.assert_allclose(to_jax(mod, "backbone")(X)[0], mean, rtol=1e-6)
    found, _ = to_jax(DecomposeOpsForTraining()(mod), "backbone")(X, jax.random.key(1))
    assert name != "exponential.default" or found.min() > 0  # a logarithm is taken of it
    assert found.mean() == pytest.approx(mean, abs=0.1)
    assert found.std() == pytest.approx(deviation, rel=0.1)


def test_deviations_that_are_tensors_move_with_no_gradient() -> None:
    """As in PyTorch: `mean + std * torch.randn_like(std)` has one."""
    found = slopes("normal.Tensor_Tensor", [1.0, 2], [1.0, 3])
    np.testing.assert_array_equal(found, np.zeros((2, 2)))
    center = value("normal.Tensor_float", [1.0, 2], std=2.0)
    np.testing.assert_array_equal(center, [1, 2])
    rule = TABLE["aten.normal.float_Tensor"].rule
    np.testing.assert_array_equal(value(lambda std: rule(2.0, std), [1.0, 3]), [2, 2])


def test_equal_draws_stay_apart() -> None:
    """Passes made one of two calls that draw alike: their numbers were the same."""
    twice = model(("randn_like.default", {}), ("randn_like.default", {}))
    mod = FoldConstant()(EliminateCommonSubexpr()(twice))
    one, other, _ = to_jax(DecomposeOpsForTraining()(mod), "backbone")(X, jax.random.key(0))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.1


def test_two_masks_of_a_dropout_stay_apart() -> None:
    """As where a sample is taken twice through one dropout, to be compared with itself."""
    x, builder = Var("x", TensorType((4000,), "float32")), BlockBuilder()
    with builder.function("backbone", [x]):
        with builder.dataflow():
            rule = TABLE["aten.dropout.default"].rule
            results = [builder.emit_output(rule(x, 0.5, True)) for _ in range(2)]
        builder.emit_func_output(results)
    mod = EliminateCommonSubexpr()(builder.get())
    one, other, _ = to_jax(DecomposeOpsForTraining()(mod), "backbone")(X + 1, jax.random.key(0))
    assert 0.4 < np.mean(np.asarray(one) == np.asarray(other)) < 0.6


def test_slopes_below_zero_are_drawn_and_their_mean_predicts() -> None:
    mod = model(("rrelu.default", {"lower": 0.2, "upper": 0.4, "training": True}))
    np.testing.assert_allclose(to_jax(mod, "backbone")(X - 1)[0], -0.3, rtol=1e-6)
    found, _ = to_jax(DecomposeOpsForTraining()(mod), "backbone")(X - 1, jax.random.key(1))
    assert -0.4 <= found.min() < found.max() <= -0.2
    assert found.mean() == pytest.approx(-0.3, abs=0.01)
    options = {"lower": 0.2, "upper": 0.4}
    np.testing.assert_allclose(slopes("rrelu.default", [-1.0, 0, 2], **options)[0], [0.3, 0.3, 1])


def test_a_dropout_that_drops_nothing() -> None:
    for p, train in ((0.5, False), (0.0, True)):
        found = value("alpha_dropout.default", [1.0, 2], p=p, train=train)
        np.testing.assert_array_equal(found, [1, 2])
