"""Half precision: what is counted, squared and added up has float32's range in between."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from applying import applied
from parsing import parse_flow

from relaxjax.lowering import to_jax
from relaxjax.passes import DecomposeOpsForInference, Gradient

_EPSILON = {"float16": 2**-10, "bfloat16": 2**-7}
NORM_ARGS = ((20, 8), (8,), (8,))
# A value of arguments x, g and b, and their shapes; float16 ends at 65504.
CALLS: dict[str, tuple[str, tuple[tuple[int, ...], ...]]] = {
    "mean": ("R.mean(R.multiply(x, SCALE))", ((70_000,),)),
    "variance": ("R.variance(x)", ((70_000,),)),
    "deviation": ("R.std(x)", ((70_000,),)),
    "maximum of equals": ("R.max(R.multiply(R.zeros_like(x), x))", ((70_000,),)),
    "sum of many": ("R.sum(R.abs(x), axis=[0, 1])", ((50, 300, 2),)),
    "bias": ("R.add(x, g)", ((50, 300, 2), (2,))),
    "layer norm": ("R.nn.layer_norm(R.multiply(x, SCALE), g, b, axes=[1])", NORM_ARGS),
    "root mean square": ("R.nn.rms_norm(R.multiply(x, SCALE), g, axes=[1])", NORM_ARGS[:2]),
    "group norm": (
        "R.nn.group_norm(R.multiply(x, SCALE), g, b, num_groups=2, channel_axis=1, axes=[])",
        NORM_ARGS,
    ),
    "batch norm": ("R.nn.batch_norm(R.multiply(x, SCALE), g, b, b, g, axis=1)[0]", NORM_ARGS),
    "picked classes": (
        'R.nn.nll_loss(R.multiply(x, SCALE), R.zeros((70000,), "int32"))',
        ((70_000, 2),),
    ),
    "distributions": (
        "R.nn.cross_entropy_with_logits(R.multiply(x, SCALE), R.abs(x))",
        ((70_000, 2),),
    ),
}


def _module(value: str, shapes: tuple[tuple[int, ...], ...], dtype: str) -> Any:
    params = ", ".join(
        f'{name}: R.Tensor({shape}, "{dtype}")' for name, shape in zip("xgb", shapes, strict=False)
    )
    return parse_flow("y = " + value.replace("SCALE", f'R.const(600.0, "{dtype}")'), params)


def _args(shapes: tuple[tuple[int, ...], ...], dtype: str) -> list[Any]:
    random = np.random.default_rng(0)
    return [jnp.asarray(random.normal(size=shape), dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("value", "shapes"), CALLS.values(), ids=CALLS)
def test_as_exact_as_the_dtype(value: str, shapes: tuple[tuple[int, ...], ...], dtype: str) -> None:
    args = _args(shapes, dtype)
    wide = [arg.astype("float32") for arg in args]
    expected, pullback = jax.vjp(to_jax(_module(value, shapes, "float32"), "main"), *wide)
    cotangent = jnp.asarray(np.random.default_rng(1).uniform(0.5, 1.5, expected.shape), dtype)
    adjoint = Gradient("main", cotangent=True)(_module(value, shapes, dtype))
    result, gradients = to_jax(adjoint, "main_adjoint")(*args, cotangent)
    for found, exact in zip(
        (result, *gradients), (expected, *pullback(cotangent.astype("float32"))), strict=True
    ):
        assert found.dtype == dtype
        within = 6 * _EPSILON[dtype] * float(jnp.max(jnp.abs(exact)))
        np.testing.assert_allclose(found.astype("float32"), exact, rtol=0, atol=within)


@pytest.mark.parametrize("name", ["layer norm", "root mean square", "group norm"])
def test_norms_in_simpler_operators(name: str) -> None:
    value, shapes = CALLS[name]
    module, args = _module(value, shapes, "float16"), _args(shapes, "float16")
    expected = to_jax(module, "main")(*args)
    found = to_jax(DecomposeOpsForInference()(module), "main")(*args)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", _EPSILON)
@pytest.mark.parametrize(("name", "exact"), [("exp2", np.exp2), ("sinc", np.sinc)])
def test_multiples_of_large_numbers_are_exact_inside(name: str, exact: Any, dtype: str) -> None:
    x = np.asarray([14.9, -13.3, 11.7, 15.2], jnp.dtype(dtype))
    wanted = exact(x.astype("float64"))
    found = applied(name, x).astype("float64")
    np.testing.assert_allclose(found, wanted, rtol=_EPSILON[dtype])
