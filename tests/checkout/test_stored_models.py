"""Models of the suite of benchmarks, stored as a trainer does: gradients are plain JAX's."""

import sys
from pathlib import Path
from typing import Any

import chex
import jax
import numpy as np
import pytest
from quickly_compiled_programs import QUICK
from whole_model import WholeModel

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))

from contestants import by_jax, by_us  # noqa: E402  # found by the path above
from models import TINY  # noqa: E402  # found by the path above
from models.convnets import ChannelsLast, lenet  # noqa: E402  # found by the path above
from models.stored import Stored, stored  # noqa: E402  # found by the path above


@pytest.fixture(autouse=True)
def _every_pass_gives_readable_text() -> None:
    """Not here: it would take longer than all else, and other tests do it for such models."""


def computed(function: Any, args: Any) -> Any:
    return jax.jit(function, compiler_options=QUICK)(*args)


@pytest.mark.parametrize("name", ["GPT of 8 layers", "MLP of 64 layers"])
def test_rolled_layers_have_the_gradients_of_plain_jax(name: str) -> None:
    model = TINY[name]()
    deep = stored(model, True)
    assert isinstance(deep, Stored)
    assert len(deep.params) < len(jax.tree.leaves(model.params))
    assert_gradients_of_plain_jax(model, deep)


def test_moved_kernels_have_the_gradients_of_plain_jax() -> None:
    model = lenet(widths=(16, 16, 24))
    deep = stored(model)
    assert isinstance(deep, Stored)
    assert any(place.order for place in deep.storage.places)
    assert_gradients_of_plain_jax(model, deep)


def assert_gradients_of_plain_jax(model: WholeModel, deep: Stored) -> None:
    loss, found = computed(by_us()(deep), (*deep.params, *deep.inputs))
    given = (*model.params, *model.inputs)
    if isinstance(model, ChannelsLast):
        given = (*model.to_plain(model.params), *model.plain_inputs())
    with jax.numpy_rank_promotion("allow"):
        wanted_loss, wanted = computed(by_jax()(model), given)
    np.testing.assert_allclose(loss, wanted_loss, rtol=1e-5)
    gradients = deep.apart(found)
    chex.assert_trees_all_equal_structs(gradients, model.params)
    if isinstance(model, ChannelsLast):
        gradients = model.to_plain(gradients)
    for mine, other in zip(jax.tree.leaves(gradients), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-5)


def test_few_layers_stay_as_they_are() -> None:
    model = TINY["MLP of 64 layers"]()
    assert stored(model) is model
