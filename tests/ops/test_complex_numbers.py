"""Complex numbers: right where an operator takes them, an error where it is of real ones."""

import chex
import jax
import numpy as np
import pytest
from parsing import parse_flow, parse_functions

from relaxjax import TensorType, Var, to_jax
from relaxjax.ir.op import get_op
from relaxjax.ops.declare import OpError
from relaxjax.passes import Gradient, LegalizeOps

ANALYTIC = """
    @R.function
    def main(
        x: R.Tensor((3, 3), "complex64"), y: R.Tensor((3, 3), "complex64")
    ) -> R.Tensor((3,), "complex64"):
        with R.dataflow():
            a = R.matmul(x, y)
            b = R.subtract(R.multiply(a, x), R.divide(y, x))
            c = R.square(R.negative(b))
            d = R.add(R.cumsum(c, axis=0), R.permute_dims(R.tril(c)))
            e = R.add(R.mean(d, axis=[0]), R.prod(x, axis=[1]))
            out = R.add(e, R.sum(R.concat((c, y), axis=0), axis=[0]))
            R.output(out)
        return out
"""


def test_gradients_by_complex_numbers_are_those_of_jax() -> None:
    module = parse_functions(ANALYTIC)
    rng = np.random.default_rng(0)
    x, y = ((rng.normal(size=(3, 3, 2)) @ [1, 1j]).astype("complex64") for _ in range(2))
    g = np.array([1, 2j, 1 - 1j], "complex64")
    adjoint = to_jax(LegalizeOps()(Gradient("main", cotangent=True)(module)), "main_adjoint")
    value, gradients = jax.jit(adjoint)(x, y, g)
    wanted, pull = jax.vjp(to_jax(LegalizeOps()(module), "main"), x, y)
    chex.assert_trees_all_close((value, gradients), (wanted, pull(g)), rtol=1e-4)


REAL_ONLY = """
    abs ceil floor round sign trunc nn.relu max min median std variance
    atan2 floor_divide floor_mod log_add_exp maximum minimum mod
"""


@pytest.mark.parametrize("name", REAL_ONLY.split())
def test_operators_of_real_numbers_refuse_complex_ones(name: str) -> None:
    operator = get_op(f"relax.{name}")
    numbers = [Var(name, TensorType((3,), "complex64")) for name in "xy"]
    count = sum(param.required for param in operator.params)
    with pytest.raises(OpError, match="must have a dtype of real numbers, found complex64"):
        operator(*numbers[:count])


def test_complex_numbers_made_of_real_ones_have_a_gradient() -> None:
    """It was zero: the transform of a real signal, taken as complex, did not train what made it."""
    module = parse_flow('loss = R.astype(x, "complex64")', x=(2,))
    adjoint = to_jax(Gradient("main", cotangent=True)(module), "main_adjoint")
    _, (found,) = adjoint(np.array([1, 2], "float32"), np.array([3, 1 - 2j], "complex64"))
    np.testing.assert_array_equal(found, np.array([3, 1], "float32"))
    assert found.dtype == "float32"
