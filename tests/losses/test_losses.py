"""Losses between numbers, probabilities and vectors: values, gradients, weights, reductions."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import special

from relaxjax import from_source, to_jax
from relaxjax.ir import IRModule, SymbolicVar, TensorType, assert_structural_equal
from relaxjax.losses import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CosineLoss,
    CrossEntropyLoss,
    GaussianNLLLoss,
    HingeLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    Loss,
    MarginRankingLoss,
    MSELoss,
    SmoothL1Loss,
    TripletMarginLoss,
)
from relaxjax.losses.base import Reduction
from relaxjax.passes import Gradient

rng = np.random.default_rng(0)
x = rng.normal(size=(6, 5)).astype("float32") * 2
y = rng.normal(size=(6, 5)).astype("float32")
bits = rng.integers(0, 2, (6, 5)).astype("int32")
signs = 2 * bits - 1
p = special.expit(x)
shares = special.softmax(y, axis=-1)
log_p = special.log_softmax(x, axis=-1)
weights = rng.uniform(size=(6, 5)).astype("float32")


def module(loss: Loss, args: Any) -> IRModule:
    types = [TensorType(arg.shape, str(arg.dtype)) for arg in args]
    return IRModule({loss.loss_name: loss(*types)})


def value(loss: Loss, *args: Any) -> Any:
    """The loss of arrays."""
    return np.asarray(to_jax(module(loss, args), loss.loss_name)(*args))


def gradient(loss: Loss, *args: Any) -> Any:
    """The gradient of a loss by the first of its arrays, from its adjoint."""
    mod = module(loss, args)
    mod = Gradient(loss.loss_name, require_grads=mod[loss.loss_name].params[0])(mod)
    return to_jax(mod, f"{loss.loss_name}_adjoint")(*args)[1][0]


def similarity(a: Any, b: Any) -> Any:
    return (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))


# A loss, its arguments, and what gives its single losses: optax or the formula.
CASES: dict[str, tuple[Any, tuple[Any, ...], Callable[..., Any]]] = {
    "l1": (L1Loss, (x, y), lambda x, y: np.abs(x - y)),
    "mse": (MSELoss, (x, y), optax.squared_error),
    "huber": (HuberLoss, (x, y), optax.huber_loss),
    "smooth l1": (SmoothL1Loss, (x, y), optax.huber_loss),
    "bce": (BCELoss, (p, bits), lambda p, bits: -np.log(np.where(bits > 0, p, 1 - p))),
    "bce with logits": (
        BCEWithLogitsLoss,
        (x, bits),
        lambda x, bits: optax.sigmoid_binary_cross_entropy(x, bits.astype("float32")),
    ),
    "kl": (KLDivLoss, (log_p, shares), optax.kl_divergence),
    "hinge": (HingeLoss, (x, signs), lambda x, signs: optax.hinge_loss(x, signs.astype("float32"))),
    "cosine": (CosineLoss, (x, y), optax.cosine_distance),
    "cosine embedding": (
        CosineEmbeddingLoss,
        (x, y, signs[:, 0]),
        lambda x, y, signs: np.where(
            signs > 0, 1 - similarity(x, y), np.maximum(similarity(x, y), 0)
        ),
    ),
}


@cache
def single_losses(name: str) -> Any:
    _, args, by_hand = CASES[name]
    return np.asarray(by_hand(*args))


@pytest.mark.parametrize("name", CASES)
def test_single_losses(name: str) -> None:
    loss, args, _ = CASES[name]
    found = value(loss("none"), *args)
    np.testing.assert_allclose(found, single_losses(name), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_the_mean_is_that_of_the_single_losses_and_weights_weigh_it(name: str) -> None:
    loss, args, _ = CASES[name]
    expected = single_losses(name)
    np.testing.assert_allclose(value(loss(), *args), expected.mean(), rtol=1e-4)
    some = weights if expected.ndim == 2 else weights[:, 0]
    weighted = (expected * some).sum()
    for reduction, wanted in (("sum", weighted), ("mean", weighted / some.sum())):
        np.testing.assert_allclose(value(loss(reduction), *args, some), wanted, rtol=1e-4)


def test_weights_broadcast_to_the_losses() -> None:
    """The mean divides by the weight of every element, also where weights are shared."""
    column = weights[:, :1]
    expected = (np.abs(x - y) * column).sum() / (column.sum() * 5)
    np.testing.assert_allclose(value(L1Loss(), x, y, column), expected, rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_targets_that_would_repeat_the_predictions_are_an_error(name: str) -> None:
    """A column of predictions beside a row of targets would make a loss of each pair of them."""
    loss, (*outputs, targets), _ = CASES[name]
    given = [output[:, :1] for output in outputs]
    shapes = r"have the shape \(6, 1?\), and `targets` the shape \(6, 5\)|\(6,\), and .* \(6, 5\)"
    with pytest.raises(TypeError, match=f"({shapes}), which do not meet element by element: give"):
        value(loss(), *given, targets if targets.ndim == 2 else bits)


@pytest.mark.parametrize("name", CASES)
def test_targets_that_would_be_repeated_are_an_error(name: str) -> None:
    """Each would meet several predictions, as the column of an array of one column would."""
    loss, (*outputs, targets), _ = CASES[name]
    shapes = r"\(6, 5\), and `targets` the shape \(6, 1\)|\(6,\), and `targets` the shape \(1,\)"
    few = targets[:, :1] if targets.ndim == 2 else targets[:1]
    with pytest.raises(TypeError, match=f"shape ({shapes}), which do not meet element by element"):
        value(loss(), *outputs, few)


def test_two_sizes_of_one_name_are_not_the_same() -> None:
    one, other = (TensorType((SymbolicVar("n"), 3), "float32") for _ in range(2))
    found = r"\(n, 3\), and .* \(n, 3\), which .*: give both the same shape, each size by one Sym"
    with pytest.raises(TypeError, match=found):
        MSELoss()(one, other)


def test_columns_and_rows() -> None:
    n, column = SymbolicVar("n"), x[:, :1]
    row = TensorType((n,), "float32")
    MSELoss()(row, row)
    for values, others in ((column, y[:, 0]), (y[:, 0], column)):
        with pytest.raises(TypeError, match=r"^mse_loss: `predictions` have the shape"):
            value(MSELoss(), values, others)
    with pytest.raises(TypeError, match=r"the shape \(n, 3\), and `targets` the shape \(n,\)"):
        MSELoss()(TensorType((n, 3), "float32"), row)
    with pytest.raises(TypeError, match=r"the losses have the shape .*, and the weights the shape"):
        value(L1Loss(), column, column, weights[:, 0])


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_jax(name: str) -> None:
    loss, args, _ = CASES[name]
    if name == "bce":
        args = (p, bits.astype("float32"))
    function = to_jax(module(loss(), args), loss().loss_name)
    expected = jax.grad(lambda first: function(first, *args[1:]))(args[0])
    np.testing.assert_allclose(gradient(loss(), *args), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loss", [MSELoss(), L1Loss(), HuberLoss()])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_targets_of_a_regression_may_be_counts(loss: Any, dtype: str) -> None:
    counts = bits.astype(dtype)
    expected = value(loss, x, counts.astype("float32"))
    np.testing.assert_allclose(value(loss, x, counts), expected)
    with pytest.raises(TypeError, match="the dtypes must be the same, but `x1` is float32 and"):
        value(loss, x, y.astype("float16"))


# Their options


@pytest.mark.parametrize("delta", [0.3, 2.0])
def test_where_huber_turns_linear(delta: float) -> None:
    expected = np.asarray(optax.huber_loss(x, y, delta=delta))
    np.testing.assert_allclose(value(HuberLoss("none", delta), x, y), expected, rtol=1e-5)
    found = value(SmoothL1Loss("none", delta), x, y)
    np.testing.assert_allclose(found, expected / delta, rtol=1e-5)


def test_huber_as_a_script() -> None:
    expected = from_source("""
@R.function
def huber_loss(predictions: R.Tensor((3,), "float32"), targets: R.Tensor((3,), "float32")):
    with R.dataflow():
        lv = R.subtract(predictions, targets)
        lv1 = R.abs(lv)
        lv2 = R.minimum(lv1, R.const(1, "float32"))
        lv3 = R.multiply(lv2, lv2)
        lv4 = R.multiply(R.const(0.5, "float32"), lv3)
        lv5 = R.subtract(lv1, lv2)
        lv6 = R.multiply(R.const(1, "float32"), lv5)
        lv7 = R.add(lv4, lv6)
        gv = R.mean(lv7, axis=None, keepdims=False)
        R.output(gv)
    return gv
""")
    ty = TensorType((3,), "float32")
    assert_structural_equal(HuberLoss()(ty, ty), expected)


def test_positive_examples_may_weigh_more() -> None:
    yes, no = (np.asarray(jax.nn.log_sigmoid(scores)) for scores in (x, -x))
    expected = -(3 * bits * yes + (1 - bits) * no)
    found = value(BCEWithLogitsLoss("none", pos_weight=3.0), x, bits)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_targets_of_a_divergence_may_be_logarithms() -> None:
    found = value(KLDivLoss("none", log_target=True), log_p, np.log(shares))
    np.testing.assert_allclose(found, value(KLDivLoss("none"), log_p, shares), rtol=1e-4)


def test_the_divergence_of_images_is_over_their_second_axis() -> None:
    images = rng.normal(size=(2, 3, 4)).astype("float32")
    truth = np.asarray(jax.nn.softmax(rng.normal(size=(2, 3, 4)), 1)).astype("float32")
    scores = np.asarray(jax.nn.log_softmax(images, 1))
    expected = (truth * (np.log(truth) - scores)).sum(1)
    np.testing.assert_allclose(value(KLDivLoss("none"), scores, truth), expected, rtol=1e-4)


def test_margins() -> None:
    lacking = np.maximum(0, 0.5 - signs * x)
    np.testing.assert_allclose(value(HingeLoss("none", 0.5), x, signs), lacking, rtol=1e-6)
    squared = HingeLoss("none", 0.5, squared=True)
    np.testing.assert_allclose(value(squared, x, signs), lacking**2, rtol=1e-6)
    found = value(CosineEmbeddingLoss("none", 0.2), x, y, signs[:, 0])
    apart = np.maximum(similarity(x, y) - 0.2, 0)[signs[:, 0] < 0]
    np.testing.assert_allclose(found[signs[:, 0] < 0], apart, rtol=1e-4, atol=1e-6)


# At their limits


def test_certain_probabilities_give_finite_losses_and_gradients() -> None:
    certain = np.array([0.0, 1.0, 0.0, 1.0], "float32")
    truth = np.array([0, 1, 1, 0], "float32")
    found = value(BCELoss("none"), certain, truth)
    np.testing.assert_allclose(found[:2], 0, atol=1e-6)
    assert np.all(found[2:] > 15)
    assert np.all(np.isfinite(gradient(BCELoss(), certain, truth)))


def test_great_scores_give_finite_losses_and_gradients() -> None:
    great = np.array([200.0, -200.0, 200.0, -200.0], "float32")
    truth = np.array([1, 0, 0, 1], "float32")
    np.testing.assert_allclose(value(BCEWithLogitsLoss("none"), great, truth), [0, 0, 200, 200])
    slopes = gradient(BCEWithLogitsLoss("sum"), great, truth)
    np.testing.assert_allclose(slopes, [0, 0, 1, -1], atol=1e-6)


def test_impossible_classes_add_nothing_to_a_divergence() -> None:
    one_hot = np.eye(5, dtype="float32")[:2]
    found = value(KLDivLoss("none"), log_p[:2], one_hot)
    np.testing.assert_allclose(found, -log_p[:2][np.arange(2), np.arange(2)], rtol=1e-6)


def test_vectors_without_direction_are_at_right_angles() -> None:
    zeros = np.zeros((2, 3), "float32")
    np.testing.assert_array_equal(value(CosineLoss("none"), zeros, zeros + 1), [1, 1])
    assert np.all(np.isfinite(gradient(CosineLoss(), zeros, zeros + 1)))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_symbolic_batch(name: str, reduction: Reduction) -> None:
    loss, args, _ = CASES[name]
    n = SymbolicVar("n")
    types = [TensorType((n, *arg.shape[1:]), str(arg.dtype)) for arg in args]
    dims = (n, *single_losses(name).shape[1:]) if reduction == "none" else ()
    assert loss(reduction)(*types).ret_ty == TensorType(dims, "float32")


def test_half_precision_stays_half_precision() -> None:
    half = jnp.asarray(p, "bfloat16")
    assert value(BCELoss(), half, half).dtype == half.dtype


def test_half_precision_has_the_angle_of_long_and_short_vectors() -> None:
    for length in (0.0, 1e-3, 3e3):
        a, b = (x * length).astype("float16"), y.astype("float16")
        wanted = value(CosineLoss(), a.astype("float32"), b.astype("float32"))
        found = value(CosineLoss(), a, b)
        assert found.dtype == "float16"
        np.testing.assert_allclose(found, wanted, atol=2e-3)
        slope = gradient(CosineLoss(), a, b)
        wide_slope = gradient(CosineLoss(), a.astype("float32"), b.astype("float32"))
        np.testing.assert_allclose(slope, wide_slope.astype("float16"), rtol=1e-2, atol=1e-6)


def test_a_weighted_mean_in_half_precision_has_sums_that_it_does_not_hold() -> None:
    many = np.full((300, 300), 2, "float16")
    assert value(MSELoss(), many, np.zeros_like(many), np.ones_like(many)) == 4


@pytest.mark.parametrize(
    ("make", "name", "wanted"),
    [
        (BCEWithLogitsLoss, "pos_weight", "a number of at least 0"),
        (CosineEmbeddingLoss, "margin", "a number"),
        (GaussianNLLLoss, "eps", "a number above 0"),
        (HingeLoss, "margin", "a number"),
        (MarginRankingLoss, "margin", "a number"),
        (SmoothL1Loss, "delta", "a number above 0"),
        (TripletMarginLoss, "eps", "a number of at least 0"),
        (TripletMarginLoss, "p", "a number above 0"),
    ],
)
def test_options_that_are_no_numbers_are_refused(make: Any, name: str, wanted: str) -> None:
    for wrong in ("a", None, float("nan"), True, [1, 2], np.ones(3, "float32")):
        with pytest.raises(ValueError, match=f"`{name}` must be {wanted}, but it is"):
            make(**{name: wrong})
    one = make(**{name: np.float32(1)})
    assert one == make(**{name: 1.0})
    assert type(getattr(one, name)) is float


def test_a_reduction_or_an_ignored_class_of_several_numbers_is_refused() -> None:
    several: Any = np.ones(3, "int64")
    with pytest.raises(ValueError, match="`reduction` must be one of"):
        MSELoss(several)
    with pytest.raises(TypeError, match="`ignore_index` must be an id of a class"):
        CrossEntropyLoss(ignore_index=several)


@pytest.mark.parametrize("delta", [0.0, -1.0])
def test_huber_needs_a_positive_delta(delta: float) -> None:
    with pytest.raises(ValueError, match=f"`delta` must be a number above 0, but it is {delta}"):
        HuberLoss(delta=delta)


def test_a_weighted_mean_of_a_dtype_that_is_not_known() -> None:
    unknown = TensorType((3,))
    assert "R.sum" in MSELoss()(unknown, unknown, unknown).script()
