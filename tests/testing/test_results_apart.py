"""What tells results from those expected: numbers beyond rounding, and other shapes."""

import re
from typing import Any

import numpy as np
import pytest

from relaxjax.testing.reference import first_apart


def test_equal_and_almost_equal_results_are_not_apart() -> None:
    assert first_apart([np.ones(3)], [np.ones(3) + 1e-9], [1e-6]) is None
    assert first_apart([], [], []) is None


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([np.zeros(1)], r"differ in leaves '0': shapes: \(1,\) != \(3,\)"),  # it would broadcast
        ([np.zeros((3, 1))], r"shapes: \(3, 1\) != \(3,\)"),
        ([np.zeros(3), np.zeros(3)], "trees 0 and 1 do not match"),
    ],
)
def test_other_shapes_are_apart_however_equal_the_numbers(found: list[Any], message: str) -> None:
    said = first_apart(found, [np.zeros(3)], [1.0])
    assert said is not None
    assert said.startswith("the results are of other shapes: ")
    assert re.search(message, said)


def test_the_farthest_number_is_named() -> None:
    said = first_apart([np.array([0.0, 5.0])], [np.zeros(2)], [0.1])
    assert said == "result 0[1] is 5, not 0 (rounding: 0.1)"
