"""Norms of instances with running statistics, beside numpy."""

from typing import Any

import numpy as np
import pytest
from aten_results import slopes, value

from relaxjax.ir.expr import Constant
from relaxjax.torch.aten import TABLE

RANDOM = np.random.default_rng(0)
X: Any = RANDOM.normal(size=(2, 3, 4, 4)).astype("float32")
MEAN, VAR = np.array([0.5, -1, 2], "float32"), np.array([1.5, 0.5, 2], "float32")
RUNNING = (Constant(MEAN), Constant(VAR))


def normed(x: Any, running: tuple[Any, Any], by_instance: bool) -> Any:
    rule = TABLE["aten.instance_norm.default"].rule
    return rule(x, None, None, *running, by_instance, 0.3, 1e-5)


def apart(x: Any) -> Any:
    return x[None, :, None, None]


@pytest.mark.parametrize("running", [RUNNING, (None, None)], ids=["running", "none"])
def test_instances_are_normed_by_their_own_statistics(running: tuple[Any, Any]) -> None:
    mean, var = X.mean((2, 3), keepdims=True), X.var((2, 3), keepdims=True)
    found = value(lambda x: normed(x, running, True)[0], X)
    np.testing.assert_allclose(found, (X - mean) / np.sqrt(var + 1e-5), rtol=1e-4, atol=1e-5)


def test_running_statistics_take_in_the_means_of_those_of_instances() -> None:
    new = [value(lambda x, place=place: normed(x, RUNNING, True)[place], X) for place in (1, 2)]
    np.testing.assert_allclose(new[0], 0.7 * MEAN + 0.3 * X.mean((0, 2, 3)), rtol=1e-5)
    unbiased = X.var((2, 3), ddof=1).mean(0)
    np.testing.assert_allclose(new[1], 0.7 * VAR + 0.3 * unbiased, rtol=1e-5)


def test_instances_are_normed_by_running_statistics() -> None:
    found = normed(Constant(X), RUNNING, False)
    assert found[1:] == (None, None)
    scale = 1 / np.sqrt(VAR + 1e-5)
    found = value(lambda x: normed(x, RUNNING, False)[0], X)
    np.testing.assert_allclose(found, (X - apart(MEAN)) * apart(scale), rtol=1e-4, atol=1e-5)
    slope = slopes(lambda x: normed(x, RUNNING, False)[0], X)[0]
    np.testing.assert_allclose(slope, np.broadcast_to(apart(scale), X.shape), rtol=1e-5)
