"""What derivatives are called, beside functions of the user's that are called so already."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions

import relaxjax
from relaxjax.lowering import to_jax
from relaxjax.passes import Gradient, GradientError, HessianVectorProduct, Jvp

X = np.linspace(0.5, 1.5, 3, dtype="float32")


def with_rule(name: str) -> Any:
    """x^2, of that name, and with a derivative of three times the right one."""

    def function(x: Any) -> Any:
        return x * x

    function.__name__ = function.__qualname__ = name
    squared = jax.custom_jvp(function)
    squared.defjvp(lambda xs, ts: (squared(xs[0]), 6 * xs[0] * ts[0]))
    return squared


@pytest.mark.parametrize("name", ["loss", "loss_adjoint", "loss_jvp", "loss_hvp", "captured_0"])
def test_functions_with_rules_that_are_called_as_derivatives_are(name: str) -> None:
    rule = with_rule(name)
    shift = jnp.ones(3)

    def loss(x: Any) -> Any:
        return jnp.sum(rule(x) * jnp.sin(rule(rule(x + shift))))

    expected = jax.grad(loss)(X)
    chex.assert_trees_all_close(relaxjax.grad(loss)(X), expected, rtol=1e-5)
    module = relaxjax.from_jax(loss, X, name="loss")
    _, (found,) = to_jax(Gradient("loss")(module), "loss_adjoint")(X)
    chex.assert_trees_all_close(found, expected, rtol=1e-5)
    _, moved = to_jax(Jvp("loss")(module), "loss_jvp")(X, X)
    chex.assert_trees_all_close(moved, jnp.vdot(expected, X), rtol=1e-5)
    (product,) = to_jax(HessianVectorProduct("loss")(module), "loss_hvp")(X, X)
    wanted = jax.jvp(jax.grad(loss), (jnp.asarray(X),), (jnp.asarray(X),))[1]
    chex.assert_trees_all_close(product, wanted, rtol=1e-4)


CALLING = """
@R.function
def main_{0}(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    y = R.exp(x)
    return y

@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
    y = Module.main_{0}(x)
    z = R.sum(y)
    return z
"""


@pytest.mark.parametrize(
    ("ending", "derive"), [("adjoint", Gradient), ("jvp", Jvp), ("hvp", HessianVectorProduct)]
)
def test_a_function_that_is_called_is_not_replaced(ending: str, derive: Any) -> None:
    mod = parse_functions(CALLING.format(ending))
    message = f"`main` is to be called `main_{ending}`, but .* which `main` needs: rename that one"
    with pytest.raises(GradientError, match=message):
        derive("main")(mod)


def test_a_derivative_that_is_there_already_is_replaced() -> None:
    mod = parse_functions(CALLING.format("part"))
    once = Gradient("main", require_grads="x")(mod)
    again = Gradient("main")(once)
    assert again["main_adjoint"] is not once["main_adjoint"]
    assert "main_adjoint1" not in again


RECURSIVE = """
@R.function
def main(
    n: R.Tensor((), "int32"), x: R.Tensor((), "float32"), y: R.Tensor((), "float32")
) -> R.Tensor((), "float32"):
    goes_on = R.greater(n, R.const(0))
    if goes_on:
        rest = Module.main(n - R.const(1), y, R.multiply(x, y))
        z = R.add(rest, x)
    else:
        z = R.multiply(x, y)
    return z
"""


def test_a_recursive_function_is_called_with_more_tangents_inside_than_outside() -> None:
    """The one called inside was replaced by that asked for, which takes fewer."""
    mod = parse_functions(RECURSIVE)
    n, x, y = np.int32(3), np.float32(1.5), np.float32(2.0)
    _, moved = to_jax(Jvp("main", wrt="x")(mod), "main_jvp")(n, x, y, np.float32(1.0))

    def recursive(n: int, x: Any, y: Any) -> Any:
        return recursive(n - 1, y, x * y) + x if n > 0 else x * y

    expected = jax.grad(lambda x: recursive(3, x, y))(x)
    chex.assert_trees_all_close(moved, expected, rtol=1e-5)
