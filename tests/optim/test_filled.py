"""What fills arrays with numbers is run without XLA, and nothing else is."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from relaxjax.ops.lax import open_program
from relaxjax.optim.filled import filled

FILLING: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda x: jnp.zeros_like(x),
    "a number": lambda x: (jnp.full((2, 3), 0.1), jnp.full(x.shape, -0.0)),
    "narrow": lambda x: jnp.full((2,), 0.3, "bfloat16"),
    "what goes in": lambda x: (x, x.astype("float16"), jnp.array(x, copy=True)),
    "inside a function": jax.jit(lambda x: {"count": jnp.zeros([], "int32"), "mu": x}),
    "a constant": lambda x: np.arange(3, dtype="float32"),
}


@pytest.mark.parametrize("name", FILLING)
def test_arrays_are_filled_as_by_jax(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.linspace(-1, 1, 5, dtype="float32")
    found = filled(open_program(jax.make_jaxpr(FILLING[name])(x)), [x])
    expected = jax.tree.leaves(FILLING[name](x))
    assert found is not None
    chex.assert_trees_all_equal(found, expected, strict=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: jnp.broadcast_to(x, (2, 5)),
        lambda x: jax.random.key(0),
        jax.jit(lambda x: jnp.sin(x)),
    ],
    ids=["sum", "an array broadcast", "a key", "inside a function"],
)
def test_other_programs_are_left_to_xla(function: Callable[[Any], Any]) -> None:
    x = np.ones(5, "float32")
    assert filled(open_program(jax.make_jaxpr(function)(x)), [x]) is None
