"""Products of matrices that are written by other operators."""

import chex
import numpy as np
import pytest
from parsing import parse_main

from relaxjax import to_jax
from relaxjax.lowering.export import exported_function
from relaxjax.passes import LegalizeOps

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


@pytest.mark.parametrize("rows", [1, 3, 9, 40])
def test_rows_of_a_symbolic_number_are_multiplied_by_each_of_a_stack(rows: int) -> None:
    stack = np.random.default_rng(1).normal(size=(2, 8, 32)).astype("float32")
    x = np.random.default_rng(rows).normal(size=(rows, 8)).astype("float32")
    mod = parse_main(
        "y = R.matmul(x, w)\nreturn y", x='R.Tensor(("n", 8), "float32")', w=(2, 8, 32)
    )
    for run in (to_jax(mod, "main"), exported_function(mod, "main").call):
        chex.assert_trees_all_close(run(x, stack), x @ stack, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("count", "is_repeated"), [(4, False), (8, True)])
def test_rows_are_repeated_for_matrices_that_are_not_tiny(count: int, is_repeated: bool) -> None:
    mod = parse_main("y = R.matmul(x, w)\nreturn y", x=(8, count), w=(2, count, 8))
    assert ("broadcast_in_dim" in str(LegalizeOps()(mod))) == is_repeated
