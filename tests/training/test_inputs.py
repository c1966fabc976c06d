"""What comes in from outside: what is taken, and what is said of the rest."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from small_models import batch, classifier

from relaxjax.ir import TensorType, Var
from relaxjax.training import Lines, Trainer
from relaxjax.training.inputs import check_place, with_dtype

QUIET = Lines(lambda line: None)


class OfTorch:
    """As torch has it: numpy has no bfloat16, and no gradients."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad")


@pytest.mark.parametrize("steps_per_call", ["auto", 1, 2])
def test_what_becomes_no_array_is_an_error_that_says_why(steps_per_call: Any) -> None:
    match = "must become .* of numpy, but OfTorch does not: Can't call .*; .* of torch by .detach"
    data = [(OfTorch(), batch(0)[1])]
    for given in (data, lambda epoch: iter(data)):
        with pytest.raises(TypeError, match=match):
            classifier().fit(given, reporter=QUIET, steps_per_call=steps_per_call)
    with pytest.raises(TypeError, match=r"input `x` must become .* but list does not: setting an"):
        classifier().predict([[1.0, 2.0], [1.0]])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            np.array([2**33 + 1, 1]),
            "holds 8589934593, which is no number of int32: JAX computes in",
        ),
        (np.array([-(2**40), 1]), "holds -1099511627776, which is no number of int32"),
        (np.array([2**31, 1], "uint32"), "of dtype uint32 and would change"),
    ],
)
def test_integers_that_a_batch_cannot_hold(given: Any, message: str) -> None:
    trainer = Trainer.from_jax(
        lambda params, batch: jnp.sum(params * batch["x"].astype(params.dtype)),
        np.zeros(2, "float32"), optax.sgd(0.1), {"x": np.zeros(2, "int32")},
    )  # fmt: skip
    with pytest.raises((TypeError, ValueError), match=message):
        trainer.update({"x": given})


def test_numbers_that_a_batch_cannot_hold() -> None:
    example = np.zeros(2, "float32")
    trainer = Trainer.from_jax(
        lambda params, batch: jnp.sum(params * batch), example, optax.sgd(0.1), example
    )
    with pytest.raises(ValueError, match=r"batch holds 1e\+39, which is no number of float32"):
        trainer.update(np.array([1e39, 1.0]))
    with pytest.raises(ValueError, match="a leaf of the example holds 1e"):
        Trainer.from_jax(lambda params, batch: params, 0.0, optax.sgd(0.1), np.array(1e39))
    assert trainer.update(np.array([0.1, 1.0])) == 0


@pytest.mark.parametrize(("given", "wanted"), [("uint8", "int8"), ("int8", "uint8")])
def test_a_sign_is_not_lost(given: str, wanted: str) -> None:
    value = np.array([-1 if given == "int8" else 200], given)
    var = Var("x", TensorType((1,), wanted))
    with pytest.raises(TypeError, match=f"`x` is of dtype {wanted}, .* {given} and would change"):
        with_dtype("input", var, value)
    assert with_dtype("input", var, np.array([7], given)).dtype == wanted


def test_integers_that_are_too_large_are_not_to_be_converted() -> None:
    """Converted as floats are, they would be other classes."""
    var = Var("targets", TensorType((2,), "int32"))
    with pytest.raises(TypeError, match=r"would change: 8589934593 is no number of int32$"):
        with_dtype("target", var, np.array([1, 2**33 + 1]))


@pytest.mark.parametrize(
    ("value", "dtype", "lost"),
    [
        (1e300, "float32", r"1e\+300"),
        (7e4, "float16", r"70000\.0"),
        (1e40, "bfloat16", r"1e\+40"),
        (np.nan, "int32", "nan"),
        (2.0**40, "int32", r"1099511627776\.0"),
    ],
)
def test_what_a_dtype_has_nothing_near_to_is_not_to_be_converted(
    value: float, dtype: str, lost: str
) -> None:
    var = Var("x", TensorType((2,), dtype))
    with pytest.raises(TypeError, match=f"would change: {lost} is no number of {dtype}$"):
        with_dtype("input", var, np.array([1, value]))


def test_a_batch_on_a_mesh_of_another_kind() -> None:
    """JAX has no program for both, and tells of meshes that the user never made."""
    kinds = (AxisType.Explicit, AxisType.Auto)
    explicit, auto = (jax.make_mesh((1,), ("data",), axis_types=(kind,)) for kind in kinds)
    array = jax.device_put(jnp.zeros(2), NamedSharding(explicit, PartitionSpec("data")))
    with pytest.raises(ValueError, match=r"lies on a mesh of {'data': 1} with Explicit axes, and"):
        check_place([array], auto)
    check_place([array], jax.devices()[0])
    check_place([jax.device_put(array, NamedSharding(auto, PartitionSpec()))], auto)


@pytest.mark.parametrize("name", ["xavier_uniform_init_params", "seed"])
@pytest.mark.parametrize("seed", [0.5, "a", -1, None, np.random.default_rng(0), jax.random.key(0)])
def test_a_seed_that_is_none(name: str, seed: Any) -> None:
    match = f"`seed` must be an integer of at least 0, but it is {re.escape(repr(seed))}"
    with pytest.raises((TypeError, ValueError), match=match):
        getattr(classifier(), name)(seed)


@pytest.mark.parametrize("seed", [np.uint32(3), jax.numpy.int32(3)])
def test_a_seed_of_numpy_or_jax_is_an_integer_too(seed: Any) -> None:
    found, wanted = classifier(), classifier()
    found.xavier_uniform_init_params(seed)
    wanted.xavier_uniform_init_params(3)
    for name, array in wanted.export_params().items():
        np.testing.assert_array_equal(found.export_params()[name], array)
