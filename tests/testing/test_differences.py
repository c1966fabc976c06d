"""Slopes by differences: near the truth, and no surer of themselves than they may be."""

import math

import numpy as np
import pytest

from relaxjax.testing.differences import slope_at_zero

SINGLE = float(np.finfo("float32").eps)


@pytest.mark.parametrize("pace", [0.01, 1.0, 30.0, 300.0])
def test_a_slope_is_found_whatever_the_pace(pace: float) -> None:
    def along(distance: float) -> float:
        return float(np.float32(math.sin(1 + pace * distance)))

    slope = slope_at_zero(along, SINGLE, 1.0, enough=1e-5)
    wanted = pace * math.cos(1)
    assert abs(slope.value - wanted) <= 10 * slope.error
    assert slope.error <= 1e-2 * wanted


def test_what_differs_by_rounding_alone_has_no_certain_slope() -> None:
    random = np.random.default_rng(0)
    slope = slope_at_zero(lambda _: SINGLE * random.normal(), SINGLE, 1.0, enough=1e-5)
    assert abs(slope.value) <= 10 * slope.error
    assert slope.error < 1e-4


def test_steps_out_of_the_domain_are_left_out() -> None:
    def along(distance: float) -> float:
        return math.sqrt(1e-3 + distance) if distance > -1e-3 else math.nan

    slope = slope_at_zero(along, SINGLE, 0.03, enough=1e-5)
    assert slope.value == pytest.approx(0.5 / math.sqrt(1e-3), rel=1e-2)
    assert math.isnan(slope_at_zero(lambda _: math.nan, SINGLE, 1.0, enough=1e-5).value)
