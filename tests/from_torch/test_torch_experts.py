"""Products of rows with the matrices of their groups, and counts of values, beside numpy."""

from typing import Any

import numpy as np
import pytest
from aten_results import slopes, value
from refusals import t

from relaxjax.ir.expr import Constant
from relaxjax.torch.aten import TABLE

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(6, 3)).astype("float32")
MATRICES = RANDOM.normal(size=(4, 3, 2)).astype("float32")
ENDS = np.array([2, 2, 5, 5], "int32")  # two groups without rows, and one row behind them
GROUPS = [0, 0, 2, 2, 2]


@pytest.mark.parametrize("name", ["aten._grouped_mm", "transformers.grouped_mm_fallback"])
def test_each_row_meets_the_matrix_of_its_group(name: str) -> None:
    rule = TABLE[f"{name}.default"].rule
    wanted = np.zeros((6, 2), "float32")
    wanted[:5] = np.einsum("sk,skn->sn", ROWS[:5], MATRICES[GROUPS])
    np.testing.assert_allclose(value(rule, ROWS, MATRICES, ENDS), wanted, rtol=1e-5, atol=1e-6)
    to_rows, to_matrices = slopes(rule, ROWS, MATRICES, ENDS)
    by_row = np.zeros_like(ROWS)
    by_row[:5] = MATRICES[GROUPS].sum(2)
    np.testing.assert_allclose(to_rows, by_row, rtol=1e-5)
    by_matrix = np.zeros_like(MATRICES)
    np.add.at(by_matrix, GROUPS, ROWS[:5, :, None])
    np.testing.assert_allclose(to_matrices, by_matrix, rtol=1e-5)


def test_a_bias_and_a_dtype_of_grouped_products() -> None:
    rule = TABLE["aten._grouped_mm.default"].rule
    options = {"bias": Constant(np.ones(2, "float32")), "out_dtype": "float16"}
    found = value(lambda x, w, ends: rule(x, w, ends, **options), ROWS, MATRICES, ENDS)
    assert found.dtype == "float16"
    np.testing.assert_array_equal(found[5], [1, 1])


@pytest.mark.parametrize("given", [(t(4, 6, 3), t(4, 3, 2)), (t(6, 3), t(3, 8), t(2))])
def test_other_grouped_products_are_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="of rows with a stack of matrices, by `offs`"):
        TABLE["aten._grouped_mm.default"].rule(*given)


@pytest.mark.parametrize(("bins", "low", "high"), [(4, 0, 3), (5, -1.5, 2.5), (1, 0, 1)])
def test_counts_within_a_range(bins: int, low: float, high: float) -> None:
    x = np.array([[0, 1, 2, 3, 3], [-1.5, 2.5, 0.7, 9, np.nan]], "float32")
    wanted, _ = np.histogram(x, bins, (low, high))
    options = {"bins": bins, "min": low, "max": high}
    np.testing.assert_array_equal(value("histc.default", x, **options), wanted)
    np.testing.assert_array_equal(slopes("histc.default", x, **options)[0], 0 * np.nan_to_num(x))


def test_counts_between_extremes_are_refused() -> None:
    with pytest.raises(ValueError, match="give `min` and `max`"):
        TABLE["aten.histc.default"].rule(t(3))
