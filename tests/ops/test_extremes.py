"""Extremes are NaN where an element is, also where XLA's library for CPUs takes the other ones."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from relaxjax.ir import Call
from relaxjax.ir.op import get_op
from relaxjax.lowering import to_jax
from relaxjax.ops.platform import lowering_for
from relaxjax.passes import Gradient, LegalizeOps
from relaxjax.script import from_source

SHAPES: list[tuple[tuple[int, ...], str]] = [
    ((5000,), "[0]"),
    ((80, 64), "[0]"),
    ((80, 64), "[1]"),
    ((17000, 3), "[1]"),
    ((64, 80), "None"),
    ((4, 40, 32), "[0, 2]"),
]


def module(name: str, shape: tuple[int, ...], axes: str, dtype: str = "float32") -> Any:
    return from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor({shape}, "{dtype}")):
        with R.dataflow():
            y = R.{name}(x, axis={axes})
            z = R.sum(y)
            R.output(y, z)
        return z
""")


def with_nan(shape: tuple[int, ...], dtype: str = "float32") -> jax.Array:
    x = np.random.default_rng(sum(shape)).normal(size=shape)
    x[tuple(size // 2 for size in shape)] = np.nan
    return jnp.asarray(x, dtype)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_nan_is_found(name: str, shape: tuple[int, ...], axes: str) -> None:
    x = with_nan(shape)
    mod = module(name, shape, axes)
    legal = LegalizeOps()(mod)
    for one in (mod, legal):
        assert np.isnan(jax.jit(to_jax(one, "main"))(x))
    expected = getattr(np.asarray(with_nan(shape)), name)
    assert np.isnan(expected())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_what_is_no_nan_stays(dtype: str) -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(80, 64)), dtype).at[3, 4].set(jnp.inf)
    run = jax.jit(to_jax(module("max", (80, 64), "[1]", dtype), "main"))
    chex.assert_trees_all_close(run(x), x.max(1).sum())


def test_its_gradient_is_nan_as_well() -> None:
    mod = Gradient("main")(module("max", (80, 64), "[1]"))
    _, (slope,) = jax.jit(to_jax(mod, "main_adjoint"))(with_nan((80, 64)))
    is_nan = np.isnan(np.asarray(slope)).all(1)
    assert is_nan[40]
    assert not np.delete(is_nan, 40).any()


@pytest.mark.parametrize(("platform", "compares"), [("cpu", True), ("cuda", False)])
def test_other_platforms_need_not_look_for_it(platform: str, compares: bool) -> None:
    with lowering_for(platform):
        mod = LegalizeOps()(module("max", (80, 64), "[1]"))
    names = [b.value.op for b in mod["main"].body.bindings() if isinstance(b.value, Call)]
    assert (get_op("lax.reduce_or") in names) == compares


@pytest.mark.skipif(not version("jaxlib").startswith("0.10."), reason="asked of one version")
@pytest.mark.parametrize("read", [jnp.max, jnp.min])
def test_xla_still_loses_it(read: Callable[..., Any]) -> None:
    """Once it does not, no operator needs to look for NaN."""
    if jax.default_backend() == "cpu":
        assert not np.isnan(jax.jit(read)(with_nan((80, 64))))
