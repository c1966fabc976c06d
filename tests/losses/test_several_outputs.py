"""Losses of several outputs of a model, and of several targets; values beside PyTorch's stand in
tests/from_torch/test_weighted_losses.py."""

from typing import Any

import jax
import numpy as np
import optax
import pytest

from relaxjax.ir import IRModule, SymbolicVar, TensorType, Type
from relaxjax.losses import (
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    CTCLoss,
    GaussianNLLLoss,
    Loss,
    MarginRankingLoss,
    MSELoss,
    TripletMarginLoss,
    from_relax,
)
from relaxjax.lowering import to_jax

rng = np.random.default_rng(0)
a, b, c = (rng.normal(size=(6, 5)).astype("float32") for _ in range(3))
signs = np.where(rng.normal(size=(6, 5)) > 0, 1, -1)
sizes = np.exp(c)
weights = rng.uniform(size=6).astype("float32")
N = SymbolicVar("n")


def _function(loss: Loss, *args: Any) -> Any:
    types = [TensorType(arg.shape, str(arg.dtype)) for arg in args]
    return to_jax(IRModule({loss.loss_name: loss(*types)}), loss.loss_name)


def _value(loss: Loss, *args: Any) -> Any:
    return np.asarray(_function(loss, *args)(*args))


def _triplets() -> Any:
    near, far = (np.linalg.norm(a - one + 1e-6, axis=-1) for one in (b, c))
    return np.maximum(0.7 + near - far, 0)


CASES: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    "rankings": (
        lambda reduction: MarginRankingLoss(reduction, margin=0.3),
        (a, b, signs),
        np.maximum(0.3 - signs * (a - b), 0),
    ),
    "triplets": (lambda reduction: TripletMarginLoss(reduction, 0.7), (a, b, c), _triplets()),
    "densities": (
        lambda reduction: GaussianNLLLoss(reduction, full=True),
        (a, sizes, b),
        (np.log(2 * np.pi * sizes) + (b - a) ** 2 / sizes) / 2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_weights_and_a_symbolic_batch(name: str) -> None:
    loss, args, wanted = CASES[name]
    np.testing.assert_allclose(_value(loss("none"), *args), wanted, rtol=2e-5, atol=1e-6)
    some = weights if wanted.ndim == 1 else np.tile(weights[:, None], 5)
    mean = (wanted * some).sum() / some.sum()
    np.testing.assert_allclose(_value(loss("mean"), *args, some), mean, rtol=2e-5)
    types = [TensorType((N, *arg.shape[1:]), str(arg.dtype)) for arg in args]
    assert loss("none")(*types).ret_ty == TensorType((N, *wanted.shape[1:]), "float32")


def test_equal_vectors_have_a_distance_of_zero_and_a_derivative() -> None:
    loss = TripletMarginLoss("sum", margin=20.0, eps=0.0)
    slope = jax.grad(_function(loss, a, a, b))(a, a, b)
    assert np.all(np.isfinite(slope))
    assert np.abs(slope).max() > 0


def test_distances_in_half_precision_are_added_up_in_float32() -> None:
    far = [(300 * one).astype("float16") for one in (a, b, c)]
    found = _value(TripletMarginLoss("none"), *far)
    assert found.dtype == "float16"
    wide = _value(TripletMarginLoss("none"), *(one.astype("float32") for one in far))
    np.testing.assert_allclose(found, wide, rtol=2e-3)


def _sequences(steps: int = 7) -> tuple[Any, ...]:
    scores = rng.normal(size=(steps, 3, 4)).astype("float32")
    lengths = np.array([steps, steps - 1, steps - 2]), np.array([2, 3, 1])
    return jax.nn.log_softmax(scores), np.array([[1, 1, 0], [3, 1, 2], [2, 0, 0]]), *lengths


def test_spellings_are_those_of_optax() -> None:
    log_p, *args = _sequences()
    targets, input_lengths, target_lengths = args
    idle = np.arange(7)[None] >= input_lengths[:, None]
    no_label = np.arange(3)[None] >= target_lengths[:, None]
    paddings = (one.astype("float32") for one in (idle, no_label))
    wanted = np.asarray(optax.ctc_loss(log_p.swapaxes(0, 1), next(paddings), targets, *paddings))
    np.testing.assert_allclose(_value(CTCLoss("none"), log_p, *args), wanted, rtol=1e-5)
    mean = (wanted / target_lengths).mean()
    np.testing.assert_allclose(_value(CTCLoss(), log_p, *args), mean, rtol=1e-5)


def test_spellings_of_a_symbolic_batch() -> None:
    types = [TensorType((7, N, 4), "float16"), TensorType((N, 3), "int64")]
    lengths = [TensorType((N,), "int32")] * 2
    assert CTCLoss("none")(*types, *lengths).ret_ty == TensorType((N,), "float16")


PLACES, CHOSEN = TensorType((N, 5), "float32"), TensorType((N,), "float32")
TARGETS: dict[str, tuple[Any, tuple[Type, ...]]] = {
    "numbers": (MSELoss(), (PLACES,)),
    "classes": (CrossEntropyLoss(), (TensorType((N,), "int64"),)),
    "one sign for two vectors": (CosineEmbeddingLoss(), (CHOSEN,)),
    "none": (TripletMarginLoss(), ()),
    "those of a function": (from_relax(MSELoss()(PLACES, PLACES)), (PLACES,)),
}


@pytest.mark.parametrize("name", TARGETS)
def test_what_outputs_are_compared_with(name: str) -> None:
    loss, wanted = TARGETS[name]
    assert loss.target_types([PLACES] * 3) == wanted


def test_several_targets_have_no_types_by_themselves() -> None:
    with pytest.raises(TypeError, match="`input_lengths`, `target_lengths`: give the types of all"):
        CTCLoss().target_types([TensorType((7, 3, 4), "float32")])


LENGTHS = [TensorType((3,), "int64")] * 2
REFUSED: dict[str, tuple[Any, str]] = {
    "other anchors": (
        lambda: _value(TripletMarginLoss(), a[:, :1], b, c),
        r"the anchors have the shape \(6, 1\), and the positives the shape \(6, 5\)",
    ),
    "other outputs": (
        lambda: _value(MarginRankingLoss(), a[:, :1], b, signs),
        r"the first outputs have the shape \(6, 1\), and the second the shape \(6, 5\)",
    ),
    "a variance for all": (
        lambda: _value(GaussianNLLLoss(), a[:, :1], sizes, b[:, :1]),
        r"`predictions` have the shape \(6, 1\), and `variances` the shape \(6, 5\)",
    ),
    "no power": (lambda: TripletMarginLoss(p=0.0), "`p` must be a number above 0, but it is 0.0"),
    "targets end to end": (
        lambda: _value(
            CTCLoss(), *(x.ravel() if i == 1 else x for i, x in enumerate(_sequences()))
        ),
        r"`targets` must be a tensor of integers, \(samples, longest\), padded",
    ),
    "samples of other numbers": (
        lambda: CTCLoss()(TensorType((7, N, 4), "float32"), TensorType((3, 3), "int64"), *LENGTHS),
        "`log_probs` are of n samples, and `targets` of 3: give their types the same size",
    ),
    "one sequence": (
        lambda: _value(CTCLoss(), *(x[:, 0] if i == 0 else x for i, x in enumerate(_sequences()))),
        r"`log_probs` must be a tensor of floats, \(steps, samples, classes\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        make()


@pytest.mark.parametrize("blank", [-1, 1.5, True, "a"])
def test_a_blank_that_is_no_class_is_refused(blank: Any) -> None:
    with pytest.raises(ValueError, match="`blank` must be the id of a class, but it is"):
        CTCLoss(blank=blank)


def test_a_blank_beyond_the_classes_is_refused() -> None:
    types = (TensorType((7, 3, 4), "float32"), TensorType((3, 3), "int64"))
    lengths = [TensorType((3,), "int64")] * 2
    with pytest.raises(ValueError, match="`blank` must be the id of a class, below 4, but it is 4"):
        CTCLoss(blank=4)(*types, *lengths)
