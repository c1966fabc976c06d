"""Slopes between neighbours, `torch.gradient`, beside numpy."""

from typing import Any

import numpy as np
import pytest
from aten_results import slopes, value

from relaxjax.torch.aten import TABLE

X: Any = np.random.default_rng(5).normal(size=(5, 4))
PLACES: Any = np.array([0.0, 1.0, 3.0, 4.0, 7.0])
pytestmark = pytest.mark.usefixtures("in_64_bits")


@pytest.mark.parametrize("edge_order", [1, 2])
@pytest.mark.parametrize(
    ("name", "options", "axis", "spacing"),
    [
        ("scalarint", {}, 0, 1.0),
        ("scalarint", {"spacing": 0.5, "dim": -1}, 1, 0.5),
        ("scalararray", {"spacing": 2, "dim": [1, 0]}, 1, 2.0),
        ("array", {"dim": [1]}, 1, 1.0),
        ("scalarrayint", {"spacing": [3.0, 0.5]}, 0, 3.0),
        ("scalarrayarray", {"spacing": [3.0, 0.5], "dim": [1, 0]}, 1, 3.0),
    ],
)
def test_slopes_are_numpys(
    name: str, options: dict[str, Any], axis: int, spacing: float, edge_order: Any
) -> None:
    found = value(f"gradient.{name}", X, edge_order=edge_order, **options)
    wanted = np.gradient(X, spacing, axis=axis, edge_order=edge_order)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("edge_order", [1, 2])
def test_slopes_between_places(edge_order: Any) -> None:
    """The rows of the matrix that it multiplies by add up to its gradient."""

    def ours(x: Any, places: Any) -> Any:
        rule = TABLE["aten.gradient.tensorarray"].rule
        return rule(x, spacing=[places], dim=[0], edge_order=edge_order)[0]

    wanted = np.gradient(X, PLACES, axis=0, edge_order=edge_order)
    np.testing.assert_allclose(value(ours, X, PLACES), wanted, rtol=1e-12)
    gradient: Any = np.gradient
    matrix = gradient(np.eye(5), PLACES, axis=0, edge_order=edge_order)
    by_x, by_places = slopes(ours, X, PLACES)
    np.testing.assert_allclose(by_x, np.tile(matrix.sum(0)[:, None], (1, 4)), rtol=1e-9, atol=1e-12)
    step = np.zeros(5)
    step[2] = 1e-6
    ends = (gradient(X, PLACES + d, axis=0, edge_order=edge_order).sum() for d in (step, -step))
    assert by_places[2] == pytest.approx((next(ends) - next(ends)) / 2e-6, rel=1e-6)


def test_whole_numbers_have_slopes_between_them() -> None:
    found = value("gradient.scalarint", np.array([1, 2, 4, 8]))
    np.testing.assert_allclose(found, [1, 1.5, 3, 4])
