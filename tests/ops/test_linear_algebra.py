"""Products of matrices that are written by other operators."""

import chex
import numpy as np
import pytest
from parsing import parse_main

from relaxjax import to_jax

X, W, B = (np.random.default_rng(0).normal(size=s).astype("float32") for s in ((2, 4), (3, 4), 3))
PARAMS = ", ".join(
    f'{name}: R.Tensor({array.shape}, "float32")'
    for name, array in zip("xwb", (X, W, B), strict=True)
)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("R.linear(x, w)", X @ W.T),
        ("R.linear(x, w, b)", X @ W.T + B),
        ('R.linear(x, w, out_dtype="float32")', X @ W.T),
    ],
)
def test_a_linear_layer_adds_its_bias(call: str, expected: np.ndarray) -> None:
    mod = parse_main(f"y = {call}\nreturn y", PARAMS)
    chex.assert_trees_all_close(to_jax(mod, "main")(X, W, B), expected, rtol=1e-5, atol=1e-6)
