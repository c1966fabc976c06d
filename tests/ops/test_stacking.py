"""Arrays side by side along a new axis: by the place where they are few, or joined."""

from typing import Any

import jax
import numpy as np
import pytest

from relaxjax.ops.nn.cpu.stacking import stacked


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    ("count", "by"), [(1, "broadcast_in_dim"), (2, "select_n"), (3, "select_n"), (4, "concatenate")]
)
def test_arrays_stand_side_by_side(count: int, by: str, axis: int) -> None:
    parts = [np.random.default_rng(n).normal(size=(2, 3)).astype("float32") for n in range(count)]

    def function(*parts: Any) -> Any:
        return stacked(parts, axis)

    np.testing.assert_array_equal(jax.jit(function)(*parts), np.stack(parts, axis))
    found = {equation.primitive.name for equation in jax.make_jaxpr(function)(*parts).eqns}
    assert by in found
