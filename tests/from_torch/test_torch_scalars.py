"""Scalars along an axis, which PyTorch takes for rows of one element there."""

from typing import Any

import numpy as np
import pytest
from aten_results import program, slopes, value

from relaxjax import to_jax
from relaxjax.ir.expr import Constant
from relaxjax.torch.aten import TABLE

X = np.array(1.5, "float32")
FIRST, ONE = np.array(0), np.array([0])
# The operator, what else it is given, its first result, and the gradient.
CASES: list[tuple[str, dict[str, Any], float, float]] = [
    ("cumsum.default", {"dim": 0}, 1.5, 1),
    ("cumprod.default", {"dim": -1}, 1.5, 1),
    ("logcumsumexp.default", {"dim": 0}, 1.5, 1),
    ("topk.default", {"k": 1}, 1.5, 1),
    ("sort.default", {"dim": 0}, 1.5, 1),
    ("mode.default", {}, 1.5, 1),
    ("max.dim", {"dim": 0, "keepdim": True}, 1.5, 1),
    ("flip.default", {"dims": [0]}, 1.5, 1),
    ("softmax.int", {"dim": 0}, 1, 0),
    ("log_softmax.int", {"dim": -1}, 0, 0),
    ("_softmax.default", {"dim": 0, "half_to_float": False}, 1, 0),
    ("gather.default", {"dim": 0, "index": Constant(FIRST)}, 1.5, 1),
    ("index_select.default", {"dim": 0, "index": Constant(ONE)}, 1.5, 1),
    ("index_fill.int_Scalar", {"dim": 0, "index": Constant(ONE), "value": 2.0}, 2, 0),
    ("index_add.default", {"dim": 0, "index": Constant(ONE), "source": Constant(X)}, 3, 1),
    ("index_copy.default", {"dim": -1, "index": Constant(FIRST), "source": Constant(X)}, 1.5, 0),
    ("scatter.src", {"dim": 0, "index": Constant(FIRST), "src": Constant(X)}, 1.5, 0),
    ("scatter_add.default", {"dim": 0, "index": Constant(ONE), "src": Constant(X)}, 3, 1),
    ("scatter_reduce.two",
     {"dim": 0, "index": Constant(FIRST), "src": Constant(X * 2), "reduce": "amax"}, 3, 0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "wanted", "slope"), CASES)
def test_a_scalar_is_a_row_of_one_element(
    name: str, options: dict[str, Any], wanted: float, slope: float
) -> None:
    found = value(name, X, **options)
    assert found.shape == ()
    np.testing.assert_allclose(found, wanted)
    np.testing.assert_allclose(slopes(name, X, **options)[0], slope, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("argsort.default", {}),
        ("argmax.default", {"dim": 0}),
        ("argmin.default", {"dim": -1, "keepdim": True}),
    ],
)
def test_the_place_in_a_scalar_is_0(name: str, options: dict[str, Any]) -> None:
    np.testing.assert_array_equal(value(name, X, **options), 0, strict=False)
    assert value(name, X, **options).shape == ()


def test_the_places_beside_elements_of_a_scalar_are_0() -> None:
    for name, options in (("topk.default", {"k": 1}), ("sort.default", {}), ("mode.default", {})):
        place = value(lambda x, n=name, o=options: TABLE[f"aten.{n}"].rule(x, **o)[1], X)
        assert place.shape == ()
        assert place == 0


def test_one_place_of_a_row_is_a_scalar() -> None:
    row = np.array([1.0, 2, 3], "float32")
    found = value("gather.default", row, dim=0, index=Constant(np.array(1)))
    np.testing.assert_array_equal(found, np.float32(2), strict=True)
    found = value("index_select.default", row, dim=0, index=Constant(np.array(1)))
    np.testing.assert_array_equal(found, [2])
    found = value("gather.default", X, dim=0, index=Constant(np.array([0, 0])))
    np.testing.assert_array_equal(found, [1.5, 1.5])


def test_elements_of_all_in_a_row_are_taken() -> None:
    table = np.array([[1.0, 2], [3, 4]], "float32")
    found = value("take_along_dim.default", table, indices=Constant(np.array([[3, 0]])))
    np.testing.assert_array_equal(found, [4, 1])


def test_windows_of_a_scalar_are_a_row() -> None:
    np.testing.assert_array_equal(value("unfold.default", X, dimension=0, size=1, step=1), [1.5])


def test_the_variance_of_a_scalar_is_that_of_one_element() -> None:
    options = {"dim": 0, "correction": 1}
    assert np.isnan(value("var.correction", X, **options))
    module = program("var.correction", [X], {"dim": 0, "correction": 0})
    assert to_jax(module, "main")(X) == 0
