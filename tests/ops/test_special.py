"""Functions of each element against Python's own, and the sum in the logarithm's domain."""

import math
from collections.abc import Callable
from typing import Any

import chex
import numpy as np
import pytest
from applying import applied, inferred, tensor
from parsing import parse_flow

from relaxjax.ir import SymbolicVar, TensorType
from relaxjax.lowering import to_jax
from relaxjax.ops import OpError
from relaxjax.passes import Gradient

LARGE, SMALL = [3.0, 12.5, 88.0], [1e-6, 1e-3, 0.4]
FUNCTIONS: dict[str, tuple[Callable[[float], float], list[float]]] = {
    "log1p": (math.log1p, [*LARGE, *SMALL, -0.5, -1e-5]),
    "expm1": (math.expm1, [3.0, *SMALL, -1e-5, -20.0]),
    "exp2": (math.exp2, [3.0, -4.5, *SMALL]),
    "log2": (math.log2, [8.0, *LARGE, *SMALL]),
    "log10": (math.log10, [1000.0, *LARGE, *SMALL]),
    "logit": (lambda x: math.log(x / (1 - x)), [0.5, 0.99, *SMALL]),
    "cbrt": (math.cbrt, [27.0, -8.0, 0.0, *LARGE]),
    "erfc": (math.erfc, [-2.0, 0.0, 3.0, 6.0]),
    "lgamma": (math.lgamma, [*LARGE, *SMALL, -0.5]),
    "sinc": (
        lambda x: math.sin(math.pi * x) / (math.pi * x) if x else 1.0,
        [0.0, 0.25, -1.5, 1e-5],
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    found = applied(name, np.array(arguments, "float32"))
    np.testing.assert_allclose(found, [function(x) for x in arguments], rtol=2e-5, atol=1e-30)


def test_inverse_error_function() -> None:
    x = np.array([-0.999, -0.5, -1e-4, 0.0, 0.3, 0.9999], "float32")
    np.testing.assert_allclose([math.erf(y) for y in applied("erf_inv", x)], x, rtol=1e-5)


@pytest.mark.parametrize("order", [0, 1, 3])
def test_derivatives_of_the_logarithm_of_gamma(order: int) -> None:
    """By their series, sums of 1 / (x + k) ** (n + 1); what is left out of them, by an integral."""
    x, k = np.array([0.3, 1.0, 4.5], "float32"), np.arange(20000.0) + 0.5
    if order:
        terms = (x[:, None].astype(float) + k - 0.5) ** -(order + 1)
        rest = (x + 20000 - 0.5) ** -order / order
        wanted = (-1) ** (order + 1) * math.factorial(order) * (terms.sum(1) + rest)
    else:
        whole = 1 / (k + 0.5) - 1 / (x[:, None].astype(float) + k - 0.5)
        wanted = whole.sum(1) - 0.5772156649015329 + (x - 1) / 20000
    np.testing.assert_allclose(applied("polygamma", x, order), wanted, rtol=1e-4)
    if not order:
        np.testing.assert_allclose(applied("digamma", x), wanted, rtol=1e-4)


def test_polygamma_far_below_zero_is_the_slope_of_digamma() -> None:
    """The wanted numbers are by mpmath."""
    x = np.array([-30.3, -4.9, 0.25], "float32")
    wanted = [15.046949, 103.17118, 17.197329]
    np.testing.assert_allclose(applied("polygamma", x, 1), wanted, rtol=1e-4)
    mod = Gradient("main", cotangent=True)(parse_flow("y = R.digamma(x)\nreturn y", x=(3,)))
    _, (slope,) = to_jax(mod, "main_adjoint")(x, np.ones(3, "float32"))
    np.testing.assert_allclose(slope, wanted, rtol=1e-4)
    of_order_4 = [9738.7603, -2399973.8, -24584.375]
    np.testing.assert_allclose(applied("polygamma", x, 4), of_order_4, rtol=1e-3)


@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), (1, True), ((0, 2), False)])
def test_sum_of_exponentials(axis: Any, keepdims: bool) -> None:
    """Without overflow, also where there is nothing but minus infinity to sum."""
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32") * 50 + 90
    x[0, 0] = -np.inf
    with np.errstate(divide="ignore"):
        wanted = np.log(np.sum(np.exp(x.astype(float)), axis, keepdims=keepdims))
    np.testing.assert_allclose(applied("logsumexp", x, axis, keepdims), wanted, rtol=1e-5)


def test_the_adjoint_of_nothing_but_minus_infinity_is_zero() -> None:
    module = parse_flow("y = R.logsumexp(x, axis=1)\ngv = R.sum(R.exp(y))\nreturn gv", x=(2, 3))
    x = np.array([[-np.inf] * 3, [0.0, 1.0, -np.inf]], "float32")
    _, (grad,) = to_jax(Gradient("main")(module), "main_adjoint")(x)
    chex.assert_trees_all_close(grad, np.exp(x), rtol=1e-6)


def test_types() -> None:
    n = SymbolicVar("n")
    assert inferred("logsumexp", tensor(n, 3), -1) == tensor(n)
    assert inferred("logsumexp", TensorType(None, "float32"), None) == tensor()
    assert inferred("digamma", tensor(n, dtype=None)) == tensor(n, dtype=None)


def test_bad_arguments() -> None:
    with pytest.raises(OpError, match=r"relax.logsumexp: `x` must have a float dtype, found int32"):
        inferred("logsumexp", tensor(3, dtype="int32"))
    with pytest.raises(OpError, match=r"relax.logsumexp: `axis` must be in \[-1, 1\)"):
        inferred("logsumexp", tensor(3), 1)
    with pytest.raises(OpError, match=r"relax.polygamma: `x` must have a float dtype"):
        inferred("polygamma", tensor(3, dtype="bool"), 1)
    with pytest.raises(OpError, match=r"relax.polygamma: `n` must not be negative, found -1"):
        inferred("polygamma", tensor(3), -1)
    with pytest.raises(OpError, match=r"relax.erf_inv: `x` must have a float dtype"):
        inferred("erf_inv", tensor(3, dtype="int8"))
