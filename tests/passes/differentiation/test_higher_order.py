"""Gradients of gradients: to third order, and what cannot be differentiated again."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
from parsing import parse_flow, parse_functions

from relaxjax import op, to_jax
from relaxjax.ir import IRModule, TensorType, well_formed
from relaxjax.ir.op import OPS
from relaxjax.passes import Gradient, GradientError
from relaxjax.testing.equations import run

MODULE = parse_functions("""
@R.function
def main(x: R.Tensor((2, 3), "float64"), w: R.Tensor((3, 2), "float64")):
    with R.dataflow():
        y = R.tanh(R.matmul(x, w))
        scale, shift = R.const([1.0, 2.0], "float64"), R.const([0.5, 0.1], "float64")
        z = R.nn.layer_norm(y, scale, shift, axes=[-1])
        loss = R.mean(R.multiply(R.nn.gelu(z), R.take(x, R.const([0, 1], "int64"), axis=1)))
        R.output(loss)
    return loss
""")


def of_gradients(name: str, module: IRModule) -> IRModule:
    """Differentiate all gradients of an adjoint by both parameters."""
    mode = "higher_order"
    return Gradient(name, ["x", "w"], target_index=1, cotangent=True, mode=mode)(module)


def test_to_third_order() -> None:
    """Each order is differentiated by all gradients of the one before, with cotangents."""
    first = Gradient("main", mode="higher_order")(MODULE)
    second = of_gradients("main_adjoint", first)
    third = of_gradients("main_adjoint_adjoint", second)
    well_formed(third)
    random = np.random.default_rng(0)
    x, w, u, v = (random.uniform(-1, 1, shape) for shape in [(2, 3), (3, 2)] * 2)
    forward = to_jax(MODULE, "main")

    def pulled(function: Callable[..., Any], cotangent: Any) -> Callable[..., Any]:
        return lambda x, w: jax.vjp(function, x, w)[1](cotangent)

    with jax.enable_x64(True):
        name = "main_adjoint_adjoint_adjoint"
        (_, found) = run(to_jax(third, name), x, w, (u, v), (v.T, u.T))
        by_jax = pulled(pulled(jax.grad(forward, (0, 1)), (u, v)), (v.T, u.T))
        expected = run(by_jax, x, w)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.fixture
def half_smooth() -> Iterator[IRModule]:
    """An operator whose gradient is written with one that has none."""
    slope = op("relax.test_slope", lower=lambda x: x)(_same)

    @op("relax.test_smooth", lower=lambda x: x * x, gradient=lambda g, y, x: g * slope(x))
    def smooth(x: TensorType) -> TensorType:
        """Half a square."""
        return x

    yield parse_functions("""
@R.function
def main(x: R.Tensor((2,), "float32")):
    y = R.test_smooth(x)
    loss = R.sum(y)
    return loss
""")
    del OPS["relax.test_slope"], OPS["relax.test_smooth"]


def _same(x: TensorType) -> TensorType:
    return x


def test_what_cannot_be_differentiated_again(half_smooth: IRModule) -> None:
    assert "main_adjoint" in Gradient("main")(half_smooth)
    with pytest.raises(GradientError) as caught:
        Gradient("main", mode="higher_order")(half_smooth)
    message = str(caught.value)
    assert message.startswith("the gradients cannot be differentiated again, because no gradient")
    assert "the operator relax.test_slope" in message
    assert "y = R.test_smooth(x)" in message


def test_an_unknown_mode() -> None:
    match = "`mode` must be 'first_order' or 'higher_order', found"
    with pytest.raises(GradientError, match=match):
        Gradient("main", mode="second_order")(MODULE)


def test_running_products_of_zeros_to_third_order() -> None:
    """Where elements are zero, no derivative may be found by dividing by them."""
    module = parse_flow(
        "loss = R.add(R.sum(R.multiply(R.cumprod(x, axis=0), w)), R.prod(x))\nreturn loss",
        x='R.Tensor((5,), "float64")',
        w='R.Tensor((5,), "float64")',
    )
    adjoint = to_jax(Gradient("main", ["x"])(module), "main_adjoint")
    with jax.enable_x64(True):
        x, w = jax.numpy.asarray([2.0, 0.0, 0.0, 3.0, 0.0]), jax.numpy.arange(1.0, 6.0)

        def loss(x: jax.Array) -> jax.Array:
            return (jax.numpy.cumprod(x) * w).sum() + jax.numpy.prod(x)

        third = jax.jit(jax.jacfwd(jax.jacfwd(lambda x: adjoint(x, w)[1][0])))(x)
        expected = jax.jit(jax.jacfwd(jax.hessian(loss)))(x)
    assert np.any(expected)
    np.testing.assert_allclose(third, expected, rtol=1e-12)
