"""Bessel functions, tails of normal distributions and bounded norms, as PyTorch has them."""

import numpy as np
import pytest
from aten_results import slopes, value

PLACES = [-5.0, -2, 0, 0.5, 3, 9]
# The values and the slopes at these places, by PyTorch in float64; then how far numbers are right.
WANTED = {
    "special_i0": (
        [27.2398718, 2.2795853, 1, 1.0634834, 4.8807926, 1093.58835],
        [-24.3356421, -1.5906369, 0, 0.2578943, 3.9533702, 1030.91472],
    ),
    "special_i0e": (
        [0.1835408, 0.3085083, 1, 0.6450353, 0.2430004, 0.1349595],
        [0.0195683, 0.0932390, 0, -0.4886145, -0.0461736, -0.0077345],
    ),
    "special_i1": (
        [-24.3356421, -1.5906369, 0, 0.2578943, 3.9533702, 1030.91472],
        [22.3727434, 1.4842669, 0.5, 0.5476948, 3.5630025, 979.042274],
    ),
    "special_i1e": (
        [-0.1639723, -0.2152693, 0, 0.1564208, 0.1968267, 0.1272250],
        [-0.0132259, -0.0143956, 0.5, 0.1757729, -0.0194353, -0.0064016],
    ),
    "special_erfcx": (
        [1.4400980e11, 108.940904, 1, 0.6156903, 0.1790012, 0.06230772],
        [-1.4400980e12, -436.891997, -1.1283792, -0.5126888, -0.0543723, -0.006840134],
    ),
    "special_log_ndtr": (
        [-15.0649984, -3.7831843, -0.6931472, -0.3689464, -0.0013508, -1.1285884e-19],
        [5.1865036, 2.3732155, 0.7978846, 0.5091604, 0.0044378, 1.0279774e-18],
    ),
}


@pytest.mark.parametrize("name", WANTED)
def test_values_and_slopes(name: str) -> None:
    values, wanted = WANTED[name]
    np.testing.assert_allclose(value(f"{name}.default", PLACES), values, rtol=2e-5, atol=1e-7)
    np.testing.assert_allclose(slopes(f"{name}.default", PLACES)[0], wanted, rtol=5e-5, atol=1e-7)


def test_far_tails_have_logarithms() -> None:
    np.testing.assert_allclose(value("special_log_ndtr.default", [-30.0]), -454.321244, rtol=1e-6)
    np.testing.assert_allclose(
        slopes("special_log_ndtr.default", [-30.0])[0], 30.0332597, rtol=1e-6
    )
    half = value("special_erfcx.default", np.array([-1, 0.5], "float16"))
    np.testing.assert_array_equal(half, np.array([5.00898, 0.61569], "float16"))
    half = value("special_i0.default", np.array([3], "float16"))
    np.testing.assert_array_equal(half, np.array([4.88079], "float16"))


def test_slices_are_scaled_down_to_a_norm() -> None:
    given = [[3.0, 4], [0.3, 0.4], [0.0, 0]]
    options = {"p": 2, "dim": 0, "maxnorm": 1.0}
    wanted = [[0.6, 0.8], [0.3, 0.4], [0.0, 0]]
    np.testing.assert_allclose(value("renorm.default", given, **options), wanted, rtol=1e-6)
    slope = slopes("renorm.default", given, **options)[0]
    np.testing.assert_allclose(slope, [[0.032, -0.024], [1.0, 1], [1.0, 1]], atol=1e-6)
