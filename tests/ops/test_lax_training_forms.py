"""Loops and branches of the `lax` dialect, as they are differentiated."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from parsing import parse_functions

import relaxjax
from relaxjax import from_jax, to_jax
from relaxjax.ops.platform import lowering_for
from relaxjax.passes import Gradient
from relaxjax.testing import check_gradients

X = np.linspace(-1.0, 1.0, 6, dtype="float32").reshape(2, 3)

LOOP = """
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3,), "float32")):
        @R.function
        def body(w: R.Tensor((3,), "float32"), c: R.Tensor((3,), "float32"),
                 row: R.Tensor((3,), "float32")):
            new = L.tanh(L.mul(L.add(c, row), w))
            return (new, R.sum(new))
        done = L.scan(body, w, w, x, length=2, num_consts=1, num_carry=1, reverse=True, unroll=2)
        out = R.add(R.sum(done[0]), R.sum(done[1]))
        return out
"""
CHOICE = """
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), index: R.Tensor((), "int32")):
        @R.function
        def first(x: R.Tensor((2, 3), "float32")):
            return (L.sin(x),)
        @R.function
        def second(x: R.Tensor((2, 3), "float32")):
            return (L.mul(x, x),)
        @R.function
        def third(x: R.Tensor((2, 3), "float32")):
            return (L.exp(x),)
        chosen = L.switch(index, first, second, third, x)
        out = R.sum(chosen[0])
        return out
"""


def test_a_loop_is_differentiated_by_all_that_it_uses() -> None:
    module = parse_functions(LOOP)
    adjoint = Gradient("main")(module)
    assert "unroll=2" in adjoint.script()

    def loop(x: Any, w: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            new = jnp.tanh((carry + row) * w)
            return new, jnp.sum(new)

        last, sums = jax.lax.scan(step, w, x, reverse=True)
        return jnp.sum(last) + jnp.sum(sums)

    found = to_jax(adjoint, "main_adjoint")(X, X[0])
    chex.assert_trees_all_close(found, jax.value_and_grad(loop, (0, 1))(X, X[0]), rtol=1e-5)
    check_gradients(module, "main", [X, X[0]])


@pytest.mark.parametrize("index", [-4, 0, 1, 2, 9])
def test_a_choice_has_the_gradient_of_what_is_chosen(index: int) -> None:
    adjoint = to_jax(Gradient("main", "x")(parse_functions(CHOICE)), "main_adjoint")

    def chosen(x: Any) -> Any:
        return jnp.sum(jax.lax.switch(index, [jnp.sin, lambda x: x * x, jnp.exp], x))

    _, (found,) = adjoint(X, np.int32(index))
    chex.assert_trees_all_close(found, jax.grad(chosen)(X), rtol=1e-6)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_what_differs_by_platform_is_differentiated_for_one(platform: str) -> None:
    def by_platform(x: Any) -> Any:
        return jnp.sum(jax.lax.platform_dependent(x, cpu=jnp.sin, default=jnp.exp))

    with lowering_for(platform):
        adjoint = Gradient("main")(from_jax(by_platform, X))
    assert adjoint.attrs["platform"] == platform
    value, (slopes,) = to_jax(adjoint.without_attr("platform"), "main_adjoint")(X)
    expected = jnp.sin if platform == "cpu" else jnp.exp
    chex.assert_trees_all_close(
        (value, slopes), jax.value_and_grad(lambda x: jnp.sum(expected(x)))(X), rtol=1e-5
    )


@pytest.mark.parametrize("unroll", [0, False, True, 5])
def test_ways_of_jax_to_say_how_a_loop_is_unrolled(unroll: int) -> None:
    """0 leaves it to JAX, and more steps than there are may be asked for."""

    def loss(x: Any) -> Any:
        return lax.scan(lambda c, _: (c * x, c), 1.0, None, length=3, unroll=unroll)[0]

    assert relaxjax.grad(loss)(2.0) == jax.grad(loss)(2.0) == 12.0
