"""Loops by `jax.lax.while_loop`, which have a derivative where nothing that moves is carried."""

from collections.abc import Callable
from typing import Any, TypeAlias

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import relaxjax
from relaxjax import from_jax, to_jax
from relaxjax.passes import Gradient, GradientError, Jvp

Loss: TypeAlias = Callable[[Any], Any]

X = np.float32(2.5)


def counted(x: Any, add: Callable[[Any], Any] = lambda c: c + 1.0) -> Any:
    """As many steps as lead to x."""
    return lax.while_loop(lambda c: c < x, add, 0.0)


def a_step_late(x: Any) -> Any:
    """What the first step only hands on comes into the result at the second."""

    def step(carry: Any) -> Any:
        first, second, count = carry
        return second, jnp.floor(first * x), count + 1

    return lax.while_loop(lambda carry: carry[2] < 3, step, (1.0, 2.0, 0))[0]


STILL: dict[str, Loss] = {
    "in the condition alone": lambda x: x * counted(x),
    "stop_gradient": lambda x: x * counted(5.0, lambda c: lax.stop_gradient(c + x)),
    "floor": lambda x: x * counted(5.0, lambda c: c + jnp.floor(x)),
    "sign": lambda x: x * counted(5.0, lambda c: c + jnp.sign(x)),
    "a comparison": lambda x: x * counted(5.0, lambda c: c + jnp.where(x > 1, 2.0, 1.0)),
    "beside what moves": lambda x: (
        x * lax.while_loop(lambda c: c[1] < 5, lambda c: (c[0] * x, c[1] + 1), (1.0, 0.0))[1]
    ),
    "a step late": lambda x: x * a_step_late(x),
    "a loop inside": lambda x: x * counted(5.0, lambda c: c + counted(x)),
    "a scan inside": lambda x: (
        x * counted(5.0, lambda c: lax.scan(lambda a, _: (a + jnp.ceil(x), a), c, None, 2)[0])
    ),
    "inside a scan": lambda x: lax.scan(lambda c, _: (c * x * counted(c), None), 1.1, None, 3)[0],
    "inside a branch": lambda x: lax.cond(x > 1, lambda x: x * counted(x), jnp.sin, x),
    "inside a checkpoint": jax.checkpoint(lambda x: jnp.sin(x) * counted(x)),
    "mapped": lambda x: jnp.sum(jax.vmap(lambda y: y * counted(y))(x * jnp.arange(1.0, 4.0))),
    "random.binomial": lambda x: x * jax.random.binomial(jax.random.key(0), 5.0, x / 10),
}


@pytest.mark.parametrize("name", STILL)
def test_loops_that_carry_nothing_that_moves(name: str) -> None:
    loss = STILL[name]
    chex.assert_trees_all_close(relaxjax.grad(loss)(X), jax.grad(loss)(X), rtol=1e-5)
    mod = from_jax(loss, X)
    expected = jax.jvp(loss, (jnp.asarray(X),), (jnp.float32(1.0),))
    found = to_jax(Jvp("main")(mod), "main_jvp")(X, np.float32(1.0))
    chex.assert_trees_all_close(found, expected, rtol=1e-5)


MOVING: dict[str, Loss] = {
    "x itself": lambda x: lax.while_loop(lambda c: c < 5, lambda c: c * 2, x),
    "by a step": lambda x: counted(5.0, lambda c: c + x),
    "two steps late": lambda x: lax.while_loop(
        lambda c: c[3] < 3, lambda c: (c[1], c[2], x, c[3] + 1), (1.0, 1.0, 1.0, 0)
    )[0],
    "through a loop inside": lambda x: counted(9.0, lambda c: counted(5.0, lambda d: d + c + x)),
}


@pytest.mark.parametrize("name", MOVING)
def test_loops_that_carry_what_moves_are_refused(name: str) -> None:
    """As by JAX; the error says what to write instead."""
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
        jax.grad(MOVING[name])(X)
    message = (
        r"the operator lax.while_loop: how many steps it takes is known only where it runs; write "
        r"jax.lax.scan, jax.lax.fori_loop between fixed bounds, or R.while_loop with a bound; "
        r"in PyTorch, `scan`, or a test `i < n` of a count that starts as a number\n.*" + __file__
    )
    with pytest.raises(GradientError, match=message):
        relaxjax.grad(MOVING[name])(X)


def test_the_loop_is_not_gone_through_backwards() -> None:
    mod = Gradient("main")(from_jax(STILL["in the condition alone"], X))
    assert str(mod["main_adjoint"]).count("L.while_loop") == 1
