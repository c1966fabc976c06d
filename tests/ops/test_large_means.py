"""Norms of data whose mean is large beside its spread: nothing cancels, forward or backward."""

from typing import Any

import chex
import jax
import numpy as np
import pytest

from relaxjax import from_source, to_jax
from relaxjax.passes import Gradient, SimplifyGradient

CALLS = {
    "batch": "R.nn.batch_norm(x, g, b, b, g, axis=1)[0]",
    "layer": "R.nn.layer_norm(x, g, b, axes=[-1])",
    "group": "R.nn.group_norm(x, g, b, num_groups=2, channel_axis=1, axes=[0])",
}


@pytest.mark.parametrize("value", CALLS.values(), ids=CALLS)
def test_a_mean_of_a_thousand_deviations(value: str) -> None:
    """In float32, where the square of the mean has no bit left for the variance."""
    vector = 'R.Tensor((8,), "DTYPE")'
    source = f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((64, 8), "DTYPE"), g: {vector}, b: {vector}):
        with R.dataflow():
            y = {value}
            R.output(y)
        return y
"""
    random = np.random.default_rng(0)
    args = [3000 + random.normal(size=(64, 8)), random.normal(size=8), random.normal(size=8)]
    args.append(random.normal(size=(64, 8)))
    args = [arg.astype("float32") for arg in args]
    found, exact = (_with_adjoints(source, dtype, args) for dtype in ("float32", "float64"))
    # The mean itself is known to 1e-3, by the order of its sum; what cancels would be off by 1.
    chex.assert_trees_all_close(found, exact, rtol=1e-2, atol=1e-2)


def _with_adjoints(source: str, dtype: str, args: list[Any]) -> Any:
    module: Any = from_source(source.replace("DTYPE", dtype))
    adjoint = SimplifyGradient()(Gradient("main", ["x", "g", "b"], cotangent=True)(module))
    with jax.enable_x64(dtype == "float64"):
        out, found = jax.jit(to_jax(adjoint, "main_adjoint"))(*(a.astype(dtype) for a in args))
        return jax.tree.map(lambda x: np.asarray(x, "float32"), (out, found))
