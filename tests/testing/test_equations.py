"""JAX's primitives by NumPy: each gives what JAX gives."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from relaxjax.testing.equations import RULES, run, traced
from relaxjax.testing.rounding import Rounded

X = np.arange(24, dtype="float32").reshape(4, 6) - 11
# Some lie outside of X: before it, and behind it, and where only a part of a window fits.
PLACES = np.asarray([[0, 1], [-3, 2], [3, 5], [2, 2], [2, 2], [7, 0]])
MODES = [lax.GatherScatterMode.CLIP, lax.GatherScatterMode.FILL_OR_DROP]


def agrees(function: Callable[..., Any], *args: Any) -> None:
    """What it gives equation by equation is what it gives by JAX, dtypes included."""
    primitives = {eqn.primitive.name for eqn in jax.make_jaxpr(function)(*args).eqns}
    assert primitives <= set(RULES), "no rule of this one is tried"
    expected = jax.tree.map(np.asarray, function(*args))
    chex.assert_trees_all_close(run(function, *args), expected, rtol=1e-6)
    chex.assert_trees_all_equal_dtypes(run(function, *args), expected)


GATHERS = {
    "elements": (lax.GatherDimensionNumbers((), (0, 1), (0, 1)), (1, 1)),
    "rows of two": (lax.GatherDimensionNumbers((1,), (0,), (0, 1)), (1, 2)),
    "windows, in front": (lax.GatherDimensionNumbers((0, 1), (), (1, 0)), (2, 3)),
}


@pytest.mark.parametrize("case", GATHERS)
@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool"])
def test_gather(case: str, mode: lax.GatherScatterMode, dtype: str) -> None:
    numbers, sizes = GATHERS[case]
    x = X.astype(dtype)
    agrees(lambda x, i: lax.gather(x, i, numbers, sizes, mode=mode), x, PLACES)


def test_gather_with_what_is_filled_in() -> None:
    numbers, sizes = GATHERS["rows of two"]
    agrees(lambda x, i: lax.gather(x, i, numbers, sizes, mode="fill", fill_value=7.0), X, PLACES)


def test_gather_along_a_batch() -> None:
    numbers = lax.GatherDimensionNumbers((), (1,), (1,), (0,), (0,))
    places = np.asarray([[[0], [5]], [[1], [1]], [[9], [2]], [[3], [-9]]])
    agrees(lambda x, i: lax.gather(x, i, numbers, (1, 1), mode="clip"), X, places)


SCATTERS = {
    "elements": (lax.ScatterDimensionNumbers((), (0, 1), (0, 1)), (6,)),
    "rows of two": (lax.ScatterDimensionNumbers((1,), (0,), (0, 1)), (6, 2)),
    "windows, in front": (lax.ScatterDimensionNumbers((0, 1), (), (1, 0)), (2, 3, 6)),
}
COMBINED = {
    "set": lax.scatter,
    "add": lax.scatter_add,
    "multiply": lax.scatter_mul,
    "maximum": lax.scatter_max,
    "minimum": lax.scatter_min,
}


@pytest.mark.parametrize("case", SCATTERS)
@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("combine", COMBINED)
def test_scatter(case: str, mode: lax.GatherScatterMode, combine: str) -> None:
    numbers, shape = SCATTERS[case]
    updates = np.cos(np.arange(np.prod(shape), dtype="float32")).reshape(shape)
    scatter = COMBINED[combine]
    agrees(lambda x, i, y: scatter(x, i, y, numbers, mode=mode), X, PLACES, updates)


def test_scatter_along_a_batch() -> None:
    numbers = lax.ScatterDimensionNumbers((), (1,), (1,), (0,), (0,))
    places = np.asarray([[[0], [5]], [[1], [1]], [[9], [2]], [[3], [-9]]])
    updates = np.ones((4, 2), "float32")
    agrees(lambda x, i, y: lax.scatter_add(x, i, y, numbers), X, places, updates)


@pytest.mark.parametrize("config", [(1, 2, 0), (-1, 2, 1), (2, -3, 0), (-2, -2, 2), (0, -9, 1)])
def test_pad(config: tuple[int, int, int]) -> None:
    agrees(lambda x: lax.pad(x, np.float32(9), [(0, 1, 2), config]), X)


def test_what_slices_and_puts_together() -> None:
    agrees(lambda x: lax.split(x, [1, 3, 2], axis=1), X)
    agrees(lambda x: lax.concatenate([x, x], 1), X)
    agrees(lambda x: lax.slice(x, (1, 0), (4, 5), (2, 3)), X)
    for start in (-4, 1, 5):
        agrees(lambda x, i: lax.dynamic_slice(x, [i, i + 1], [2, 3]), X, np.int32(start))


def test_what_computes_by_elements() -> None:
    numbers = jnp.asarray([-1.5, -0.3, 0.0, 0.2, 2.0])
    for function in (lax.erf, lax.logistic, lax.rsqrt, lax.sign, lax.atan):
        agrees(function, numbers)


def test_what_each_device_runs() -> None:
    """JAX runs it as a whole."""
    mesh = jax.make_mesh((1,), ("all",), axis_types=(AxisType.Auto,))

    def summed(x: jax.Array) -> Any:
        return lax.psum(jnp.sin(x), "all")

    mapped = jax.shard_map(summed, mesh=mesh, in_specs=P("all"), out_specs=P())
    found = run(lambda x: mapped(x) + 1, X)
    chex.assert_trees_all_close(found, np.sin(X) + 1, rtol=1e-6)


def test_a_long_sum_is_rounded_on_its_way() -> None:
    numbers = np.full(1024, 0.7)
    total = traced(jnp.sum, numbers)
    off = [total(numbers, rounding=Rounded(1e-3, seed)) / 716.8 - 1 for seed in range(8)]
    assert 4e-3 < max(map(abs, off)) < 18e-3  # half the root of 1024 is 16
    few = np.full(4, 0.7)
    off = [traced(jnp.sum, few)(few, rounding=Rounded(1e-3, seed)) / 2.8 - 1 for seed in range(8)]
    assert 0 < max(map(abs, off)) < 4e-3
