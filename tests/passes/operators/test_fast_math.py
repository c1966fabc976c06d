"""The approximations of FastMath, and how far they are from the true values."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions
from rewriting import check_kept

from relaxjax.lowering import to_jax
from relaxjax.passes import FastMath, FastMathTransform, Gradient

TEXT = '@R.function\ndef main(x: R.Tensor(("n",), "{dtype}")):\n    y = R.{name}(x)\n    return y\n'
POINTS = np.concatenate([np.linspace(-30, 30, 20001), np.geomspace(1e-20, 1e20, 2001)])
BOUNDS = {"tanh": 6e-5, "sigmoid": 3e-5, "erf": 8e-5, "nn.silu": 3e-5, "nn.gelu": 4e-5}
TRUE: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh,
    "sigmoid": lambda x: 0.5 + 0.5 * np.tanh(x / 2),
    "erf": np.vectorize(math.erf),
    "nn.silu": lambda x: x * (0.5 + 0.5 * np.tanh(x / 2)),
    "nn.gelu": lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_the_error_is_within_the_bound_that_is_stated(name: str) -> None:
    module = parse_functions(TEXT.format(name=name, dtype="float32"))
    fast = FastMath()(module)
    assert f"R.{name}(" not in str(fast)
    assert FastMath()(fast) is fast
    points = np.asarray([*POINTS, *-POINTS], "float32")
    found = np.asarray(jax.jit(to_jax(fast, "main"))(points), "float64")
    exact = TRUE[name](points.astype("float64"))
    scale = np.maximum(1, np.abs(points)) if name.startswith("nn.") else 1
    assert np.max(np.abs(found - exact) / scale) <= BOUNDS[name]
    (nan,) = np.asarray(to_jax(fast, "main")(jnp.asarray([jnp.nan], "float32")))
    assert math.isnan(nan)


def test_other_dtypes_and_functions_stay() -> None:
    for dtype in ("float64", "float16", "bfloat16"):
        check_kept(FastMath(), TEXT.format(name="tanh", dtype=dtype))
    for name in ("exp", "nn.softmax"):
        check_kept(FastMath(), TEXT.format(name=name, dtype="float32"))


def test_backward_programs_are_approximated_too() -> None:
    module = parse_functions(TEXT.format(name="nn.gelu", dtype="float32"))
    adjoint = Gradient("main", cotangent=True)(module)
    fast = FastMathTransform()(adjoint)
    assert fast is not adjoint
    points = np.linspace(-6, 6, 1001, dtype="float32")
    ones = np.ones_like(points)
    found, exact = (jax.jit(to_jax(m, "main_adjoint"))(points, ones) for m in (fast, adjoint))
    np.testing.assert_allclose(found[1][0], exact[1][0], atol=2e-4)
