"""Pullbacks that are traced for one shape, and written for others."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_reading import read_module

from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ops.lax import gradient
from relaxjax.passes import Gradient

X = np.random.default_rng(0).uniform(0.5, 2.0, size=(4, 3)).astype("float32")
KINDS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "a scalar": lambda x, y: x * jnp.sum(y),
    "a row": lambda x, y: x * y[:1],
    "pow": lambda x, y: x**y,
    "max": jnp.maximum,
    "clamp": lambda x, y: lax.clamp(0.5, x, 1.0) * y,
    "tanh": lambda x, y: jnp.tanh(x) * lax.logistic(y),
    "rsqrt": lambda x, y: lax.rsqrt(x) + lax.sqrt(y),
    "cube": lambda x, y: x**3 + jnp.square(y),
    "abs": lambda x, y: jnp.abs(x) + jnp.sign(y),
    "cast": lambda x, y: x.astype("float16") * y.astype("float16"),
    "none": lambda x, y: x[:0] * y[:0],
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_program_is_the_one_for_that_shape(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def loss(x: Any, y: Any) -> Any:
        return jnp.sum(KINDS[kind](x, y).astype("float32"))

    module = read_module(loss, X, X + 1)
    found = Gradient("main")(module)
    monkeypatch.setattr(gradient, "vectors_instead", lambda *_: None)
    assert_structural_equal(found, Gradient("main")(module))


def test_products_of_many_shapes_are_traced_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def loss(x: Any) -> Any:
        return sum(jnp.sum(x[:rows] * jnp.sin(x[:rows])) for rows in (1, 2, 3, 4))

    asked: list[tuple[str, Any]] = []
    traced = gradient._traced

    def noted(op: Any, template: Any, types: Any, *rest: Any) -> Any:
        asked.append((op.name, types))
        return traced(op, template, types, *rest)

    monkeypatch.setattr(gradient, "_traced", noted)
    Gradient("main")(read_module(loss, X))
    assert len({types for name, types in asked if name == "lax.mul"}) == 1
    assert len({types for name, types in asked if name == "lax.reduce_sum"}) == 4
