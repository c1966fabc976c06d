"""Losses of PyTorch where slopes jump, nothing counts or something is NaN: what it gives there."""

from typing import Any

import jax
import numpy as np
import pytest
from aten_results import program, slopes, value

from relaxjax import to_jax
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.losses import CrossEntropyLoss
from relaxjax.passes import Gradient

INF, NAN = float("inf"), float("nan")
ROW = np.array([0.5, -1, 2, 0.25], "float32")
IGNORED = np.zeros(3, "int64")
SCORES = np.arange(12, dtype="float32").reshape(3, 4) / 5


def test_a_certain_probability_bends_the_cross_entropy() -> None:
    """The slope of its slope is PyTorch's where the slope is bounded: it was 0 there."""
    x, y = np.array([0.0, 1, 0.5, 0]), np.array([0.0, 1, 0.3, 0.5])
    first = program("binary_cross_entropy.default", (x, y), {"reduction": 0})
    first = Gradient("main", ["x0"], cotangent=True, mode="higher_order")(first)
    again: Any = {"target_index": 1, "cotangent": True, "mode": "higher_order"}
    second = Gradient("main_adjoint", ["x0", "x1"], **again)(first)
    ones = np.ones(4)
    with jax.enable_x64(True):
        run = jax.jit(to_jax(second, "main_adjoint_adjoint"))
        _, (found, mixed) = run(x, y, ones, (ones,))
    np.testing.assert_allclose(found, [0, 0, 4, 0.5e24], rtol=1e-6)
    np.testing.assert_allclose(mixed, [-1e12, -1e12, -4, -1e12], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "options", "wanted"),
    [
        ("smooth_l1_loss.default", {"beta": 0.5}, [0, 1, NAN, 0.5]),
        ("huber_loss.default", {"delta": 0.5}, [0, 0.5, NAN, 0.25]),
    ],
)
def test_the_slope_by_what_is_no_number_is_none(
    name: str, options: dict[str, Any], wanted: Any
) -> None:
    given = [1, INF, NAN, 1.25], [1, 1, 1, 1]
    np.testing.assert_array_equal(slopes(name, *given, **options, reduction=0)[0], wanted)
    assert np.isnan(value(name, *given, **options, reduction=0)[2])


@pytest.mark.parametrize("target", [np.array(2), np.array([2])], ids=["scalar", "row"])
def test_the_margins_of_one_row(target: Any) -> None:
    """The losses of the only row have the shape (1,), as in programs of PyTorch."""
    name, options = "multi_margin_loss.default", {"margin": 2.0}
    found = value(name, ROW, target, **options, reduction=0)
    np.testing.assert_array_equal(found, [(0.5 + 0.25) / 4])
    np.testing.assert_array_equal(value(name, ROW, target, **options), (0.5 + 0.25) / 4)
    slope = slopes(name, ROW, target, **options)[0]
    np.testing.assert_array_equal(slope, [0.25, 0, -0.5, 0.25])


def test_the_margins_of_the_labels_of_one_row() -> None:
    labels = np.array([1, 0, -1, 2])
    found = value("multilabel_margin_loss.default", ROW, labels, reduction=0)
    np.testing.assert_allclose(found, [(4 + 2.25 + 2.5 + 0.75) / 4])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_where_no_label_counts_the_mean_is_nan_and_its_gradient_0(smoothing: float) -> None:
    options = {"ignore_index": 0, "label_smoothing": smoothing}
    assert np.isnan(value("cross_entropy_loss.default", SCORES, IGNORED, **options))
    gradient = slopes("cross_entropy_loss.default", SCORES, IGNORED, **options)[0]
    np.testing.assert_array_equal(gradient, np.zeros((3, 4)))
    ours = CrossEntropyLoss(ignore_index=0, label_smoothing=smoothing)
    function = ours(TensorType((3, 4), "float32"), TensorType((3,), "int64"))
    adjoint = Gradient("loss", require_grads=[function.params[0]])(IRModule({"loss": function}))
    loss, (gradient,) = to_jax(adjoint, "loss_adjoint")(SCORES, IGNORED)
    assert np.isnan(loss)
    np.testing.assert_array_equal(gradient, np.zeros((3, 4)))
