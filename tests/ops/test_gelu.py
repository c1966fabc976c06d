"""How far GELU and its derivative are from numbers of 64 bits, below zero too."""

import math

import jax
import numpy as np
import pytest
from applying import gradient
from parsing import parse_functions

from relaxjax.lowering import to_jax
from relaxjax.ops.emit import call
from relaxjax.passes import Gradient, LegalizeOps


def distribution(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize(("dtype", "within"), [("float32", 1e-6), ("float64", 2e-15)])
def test_values_and_derivatives_are_within_a_bound(dtype: str, within: float) -> None:
    """An absolute one where they are small, in parts of them where they are large."""
    count = 500
    module = parse_functions(f"""
    @R.function
    def main(x: R.Tensor(({count},), "{dtype}")):
        with R.dataflow():
            y = R.nn.gelu(x)
            R.output(y)
        return y
    """)
    with jax.enable_x64(dtype == "float64"):
        x = np.linspace(-14, 8, count).astype(dtype)
        adjoint = LegalizeOps()(Gradient("main", cotangent=True)(module))
        y, (found,) = to_jax(adjoint, "main_adjoint")(x, np.ones(count, dtype))
    values = [float(each) for each in x]
    wanted = [v * distribution(v) for v in values]
    np.testing.assert_allclose(y, wanted, rtol=within, atol=within)
    slopes = [distribution(v) + v * density(v) for v in values]
    np.testing.assert_allclose(found, slopes, rtol=within, atol=within)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_derivatives_by_tanh_of_large_numbers(dtype: str) -> None:
    """The square of such a number is infinite."""
    large = float(np.finfo(dtype).max) / 2
    x = np.asarray([large, -large, np.sqrt(large) * 2, 1.0], dtype)
    (found,) = gradient(lambda x: call("nn.gelu_tanh", x), x)
    np.testing.assert_allclose(found, [1.0, 0.0, 1.0, 1.082964], rtol=2e-3)
