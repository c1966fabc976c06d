"""What results of a jaxpr depend on."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from relaxjax.ops.lax import depends_on_inputs


@jax.jit
def _apart(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    return x * 2, y + 1


def _in_a_call(x: jax.Array) -> list[Any]:
    """A call that takes the input, one result of which is made without it."""
    return list(_apart(x, jnp.zeros(2)))


def _with_an_effect(x: jax.Array) -> list[Any]:
    jax.debug.print("{}", x)
    return [jnp.zeros(2), x]


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: [x, x + 1, jnp.zeros_like(x), 3.0], [True, True, False, False]),
        (_in_a_call, [True, False]),
        (_with_an_effect, [True, True]),
    ],
)
def test_a_result_depends_on_what_it_is_made_of(
    function: Callable[[jax.Array], list[Any]], wanted: list[bool]
) -> None:
    assert depends_on_inputs(jax.make_jaxpr(function)(jnp.ones(2))) == wanted
