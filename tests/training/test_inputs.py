"""What comes in from outside: what is taken, and what is said of the rest."""

import re
from typing import Any

import jax
import numpy as np
import pytest
from small_models import batch, classifier

from relaxjax.training import Lines

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
