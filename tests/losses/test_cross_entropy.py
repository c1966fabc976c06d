"""Cross entropy against class ids, one-hot vectors and probabilities."""

from typing import Any

import jax
import numpy as np
import optax
import pytest

from relaxjax import from_source, to_jax
from relaxjax.ir import IRModule, ShapeType, SymbolicVar, TensorType, Var, assert_structural_equal
from relaxjax.losses import CategoricalCrossEntropyLoss, CrossEntropyLoss, Loss, NLLLoss
from relaxjax.losses.base import Reduction

SCORES = TensorType((3, 5), "float32")
IDS = TensorType((3,), "int64")
ONE_HOT = TensorType((3, 5), "int64")
WEIGHTS = TensorType((5,), "float32")

rng = np.random.default_rng(0)
scores = rng.normal(size=(6, 5)).astype("float32")
ids = np.array([0, 3, 2, 2, 4, 1], "int32")
one_hot = np.eye(5, dtype="int32")[ids]
weights = np.array([0.5, 1, 2, 0.25, 3], "float32")


def value(loss: Loss, *args: Any) -> Any:
    """The loss of arrays."""
    types = [TensorType(x.shape, str(x.dtype)) for x in args]
    return np.asarray(to_jax(IRModule({"loss": loss(*types)}), "loss")(*args))


def single_losses() -> Any:
    return -np.asarray(jax.nn.log_softmax(scores))[np.arange(6), ids]


# Functions


def test_class_ids_as_a_script() -> None:
    expected = from_source("""
@R.function
def cross_entropy_loss(
    predictions: R.Tensor((3, 5), "float32"),
    targets: R.Tensor((3,), "int64"),
    weights: R.Tensor((5,), "float32"),
):
    with R.dataflow():
        lv = R.nn.log_softmax(predictions, axis=-1)
        gv = R.nn.nll_loss(lv, targets, weights, reduction="mean", ignore_index=-100)
        R.output(gv)
    return gv
""")
    assert_structural_equal(CrossEntropyLoss()(SCORES, IDS, WEIGHTS), expected)


def test_one_hot_targets_as_a_script() -> None:
    expected = from_source("""
@R.function
def categorical_cross_entropy_loss(
    predictions: R.Tensor((3, 5), "float32"),
    targets: R.Tensor((3, 5), "int64"),
    weights: R.Tensor((5,), "float32"),
):
    with R.dataflow():
        lv = R.nn.log_softmax(predictions, axis=-1)
        lv1 = R.negative(lv)
        lv2 = R.astype(targets, dtype="float32")
        lv3 = R.multiply(lv1, lv2)
        lv4 = R.multiply(lv3, weights)
        gv = R.sum(lv4, axis=None, keepdims=False)
        R.output(gv)
    return gv
""")
    loss = CategoricalCrossEntropyLoss("sum")
    assert_structural_equal(loss(SCORES, ONE_HOT, WEIGHTS), expected)


def test_the_mean_over_samples_as_a_script() -> None:
    expected = from_source("""
@R.function
def cross_entropy_loss(
    predictions: R.Tensor((3, 5), "float32"), targets: R.Tensor((3, 5), "float32")
):
    with R.dataflow():
        lv = R.nn.log_softmax(predictions, axis=-1)
        lv1 = R.negative(lv)
        lv2 = R.multiply(lv1, targets)
        lv3 = R.sum(lv2, axis=[-1], keepdims=False)
        gv = R.mean(lv3, axis=None, keepdims=False)
        R.output(gv)
    return gv
""")
    assert_structural_equal(CrossEntropyLoss()(SCORES, SCORES), expected)


def test_variables_give_names_and_types() -> None:
    function = CategoricalCrossEntropyLoss()(Var("logits", SCORES), Var("truth", ONE_HOT))
    assert [param.name for param in function.params] == ["logits", "truth"]


def test_a_symbolic_batch() -> None:
    n = SymbolicVar("n")
    logits = TensorType((n, 5), "float32")
    for truth in (TensorType((n,), "int64"), TensorType((n, 5), "int64")):
        assert CrossEntropyLoss("none")(logits, truth).ret_ty == TensorType((n,), "float32")
        assert CrossEntropyLoss("mean")(logits, truth).ret_ty == TensorType((), "float32")


# Values


def test_class_ids_against_optax() -> None:
    expected = np.asarray(optax.softmax_cross_entropy_with_integer_labels(scores, ids))
    np.testing.assert_allclose(value(CrossEntropyLoss("none"), scores, ids), expected, rtol=1e-6)
    mean = value(CrossEntropyLoss(), scores, ids)
    np.testing.assert_allclose(mean, expected.mean(), rtol=1e-6)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", [-100, 2])
@pytest.mark.parametrize("kind", [CrossEntropyLoss, CategoricalCrossEntropyLoss])
def test_one_hot_targets_give_the_loss_of_their_class_ids(
    reduction: Reduction, weighted: bool, ignored: int, kind: type[CrossEntropyLoss]
) -> None:
    more = (weights,) if weighted else ()
    expected = value(CrossEntropyLoss(reduction, ignored), scores, ids, *more)
    found = value(kind(reduction, ignored), scores, one_hot, *more)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_weighted_mean_divides_by_the_weights_of_the_targets() -> None:
    expected = (single_losses() * weights[ids]).sum() / weights[ids].sum()
    for targets in (ids, one_hot):
        found = value(CrossEntropyLoss(), scores, targets, weights)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_ignored_targets_do_not_count() -> None:
    expected = single_losses()[ids != 2].mean()
    for targets in (ids, one_hot):
        found = value(CrossEntropyLoss(ignore_index=2), scores, targets)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_probabilities_against_optax() -> None:
    shares = np.asarray(jax.nn.softmax(rng.normal(size=(6, 5)))).astype("float32")
    expected = np.asarray(optax.softmax_cross_entropy(scores, shares))
    for kind in (CrossEntropyLoss, CategoricalCrossEntropyLoss):
        found = value(kind("none"), scores, shares)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        np.testing.assert_allclose(value(kind(), scores, shares), expected.mean(), rtol=1e-6)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_classes_of_images_are_on_the_second_axis(reduction: Reduction) -> None:
    images = rng.normal(size=(2, 3, 4, 5)).astype("float32")
    truth = rng.integers(0, 3, (2, 4, 5)).astype("int32")
    hot = np.moveaxis(np.eye(3, dtype="int32")[truth], -1, 1)
    each = np.asarray(
        optax.softmax_cross_entropy_with_integer_labels(np.moveaxis(images, 1, -1), truth)
    )
    factors = weights[:3][truth]
    expected = {
        "none": each * factors,
        "sum": (each * factors).sum(),
        "mean": (each * factors).sum() / factors.sum(),
    }[reduction]
    for targets in (truth, hot):
        found = value(CrossEntropyLoss(reduction), images, targets, weights[:3])
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_single_sample_without_a_batch() -> None:
    for targets in (ids[0], one_hot[0]):
        found = value(CrossEntropyLoss(), scores[0], targets)
        np.testing.assert_allclose(found, single_losses()[0], rtol=1e-6)


def test_half_precision_stays_half_precision() -> None:
    found = value(CrossEntropyLoss(), scores.astype("float16"), one_hot)
    assert found.dtype == "float16"


@pytest.mark.parametrize("one_hot", [False, True])
def test_means_in_half_precision_have_sums_that_it_does_not_hold(one_hot: bool) -> None:
    even, ids = np.zeros((70000, 2), "float16"), np.zeros(70000, "int64")
    targets = np.eye(2, dtype="float16")[ids] if one_hot else ids
    loss = CrossEntropyLoss(label_smoothing=0.0 if one_hot else 0.1)
    found = value(loss, even, targets, np.ones(2, "float16"))
    np.testing.assert_allclose(found, np.log(2), rtol=1e-3)


# Label smoothing


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", [-100, 2])
def test_smoothed_labels(reduction: Reduction, weighted: bool, ignored: int) -> None:
    """Ids and one-hot vectors give the loss of targets with a share spread over all classes."""
    log_p = np.asarray(jax.nn.log_softmax(scores))
    factors = weights if weighted else np.ones(5, "float32")
    shares = 0.9 * one_hot + 0.1 / 5
    counted = ids != ignored
    each = -(shares * factors * log_p).sum(-1) * counted
    total = (factors[ids] * counted).sum()
    expected = {"none": each, "sum": each.sum(), "mean": each.sum() / total}[reduction]
    loss = CrossEntropyLoss(reduction, ignored, label_smoothing=0.1)
    more = (weights,) if weighted else ()
    for targets in (ids, one_hot):
        np.testing.assert_allclose(value(loss, scores, targets, *more), expected, rtol=1e-5)


def test_smoothed_labels_against_optax() -> None:
    expected = optax.softmax_cross_entropy(scores, optax.smooth_labels(one_hot * 1.0, 0.2))
    found = value(CrossEntropyLoss(label_smoothing=0.2), scores, ids)
    np.testing.assert_allclose(found, expected.mean(), rtol=1e-6)


def test_smoothed_images() -> None:
    images = rng.normal(size=(2, 3, 4)).astype("float32")
    truth = rng.integers(0, 3, (2, 4)).astype("int32")
    hot = np.moveaxis(np.eye(3, dtype="int32")[truth], -1, 1)
    loss = CrossEntropyLoss("none", label_smoothing=0.3)
    shares = 0.7 * hot + 0.1
    expected = -(shares * np.asarray(jax.nn.log_softmax(images, 1))).sum(1)
    for targets in (truth, hot):
        np.testing.assert_allclose(value(loss, images, targets), expected, rtol=1e-5)


def test_the_likelihood_of_log_probabilities() -> None:
    log_p = np.asarray(jax.nn.log_softmax(scores))
    found = value(NLLLoss("mean", 2), log_p, ids, weights)
    np.testing.assert_allclose(found, value(CrossEntropyLoss("mean", 2), scores, ids, weights))


# What it refuses


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, "0.1"])
def test_labels_are_smoothed_by_a_share(smoothing: Any) -> None:
    with pytest.raises(ValueError, match="`label_smoothing` must be at least 0 and below 1, but"):
        CrossEntropyLoss(label_smoothing=smoothing)


@pytest.mark.parametrize("loss", [CrossEntropyLoss, NLLLoss, CategoricalCrossEntropyLoss])
@pytest.mark.parametrize("ignored", ["-100", 1.5, None, True])
def test_what_is_ignored_is_a_class(loss: Any, ignored: Any) -> None:
    with pytest.raises(TypeError, match="`ignore_index` must be an id of a class, but it is"):
        loss(ignore_index=ignored)


def test_targets_of_neither_shape_are_an_error() -> None:
    match = r"`targets` must be class ids, of one dimension less than `predictions`, or .*\(3, 1\)"
    with pytest.raises(TypeError, match=match):
        CrossEntropyLoss()(SCORES, TensorType((3, 1), "int64"))


def test_categorical_targets_must_not_be_class_ids() -> None:
    match = r"categorical_cross_entropy_loss: `targets` must be one-hot .* CrossEntropyLoss takes"
    with pytest.raises(TypeError, match=match):
        CategoricalCrossEntropyLoss()(SCORES, IDS)


def test_probabilities_have_no_class_to_ignore() -> None:
    match = r"`ignore_index` = 1 needs class ids or one-hot targets .* `targets` is of type"
    with pytest.raises(TypeError, match=match):
        CrossEntropyLoss(ignore_index=1)(SCORES, SCORES)


def test_arguments_must_be_tensors() -> None:
    with pytest.raises(TypeError, match="must be a tensor, but `predictions` is of type"):
        CrossEntropyLoss()(ShapeType((3, 5)), IDS)
    with pytest.raises(TypeError, match="must be a tensor, but `targets` is of type"):
        CrossEntropyLoss()(SCORES, ShapeType((3,)))
