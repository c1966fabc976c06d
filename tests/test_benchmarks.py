"""The models of the suite of benchmarks: our gradients are those of plain JAX."""

import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
if not BENCHMARKS.exists():
    pytest.skip("there is no checkout around these tests", allow_module_level=True)
sys.path.append(str(BENCHMARKS))

from contestants import by_jax, by_us  # noqa: E402  # found by the path above
from models import MODELS, QUICK, TINY  # noqa: E402  # found by the path above
from models.convnets import ChannelsLast  # noqa: E402  # found by the path above
from suite_report import PAGE, PLOT, newest, page_with, plot  # noqa: E402  # found by the path above

# Little work to compile, because each program runs once.
OPTIONS = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


@pytest.fixture(autouse=True)
def _every_pass_gives_readable_text() -> None:
    """Not here: it would take longer than all else, and other tests do it for such models."""


def test_each_model_has_a_quick_size() -> None:
    assert list(MODELS) == list(QUICK)
    assert set(TINY) < set(MODELS)


def computed(function: Any, args: Any) -> Any:
    return jax.jit(function, compiler_options=OPTIONS)(*args)


@pytest.mark.parametrize("name", TINY)
def test_our_gradients_of_a_model_are_those_of_plain_jax(name: str) -> None:
    model = TINY[name]()
    plain = (*model.params, *model.inputs)
    if isinstance(model, ChannelsLast):
        plain = (*model.to_plain(model.params), *model.plain_inputs())
    with jax.numpy_rank_promotion("allow"):
        loss, wanted = computed(by_jax()(model), plain)
    our_loss, found = computed(by_us()(model), (*model.params, *model.inputs))
    found = model.to_plain(found) if isinstance(model, ChannelsLast) else found
    np.testing.assert_allclose(our_loss, loss, rtol=1e-5)
    largest = max(float(abs(leaf).max()) for leaf in jax.tree.leaves(wanted))
    for mine, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-4 * largest)


def test_the_page_and_its_plot_show_the_newest_results() -> None:
    """Else: python benchmarks/suite_report.py."""
    text, results = PAGE.read_text(), newest()
    assert page_with(text, results) == text
    assert plot(results) == PLOT.read_text()
