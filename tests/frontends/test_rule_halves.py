"""The program of a rule, taken apart where its author does."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from relaxjax.frontends.rule_halves import in_halves


def primitives(program: Any) -> list[str]:
    return [eqn.primitive.name for eqn in program.jaxpr.eqns]


def whole(x: Any, y: Any, cotangent: Any) -> Any:
    fixed = jax.lax.iota("float32", 3)
    product = jnp.sin(x) * y
    kept = jnp.cos(x)
    # The value, what is kept for the way back, and two adjoints.
    return product, kept, cotangent * kept * jnp.exp(y) * fixed, cotangent * product


def test_what_needs_no_cotangent_stays_where_the_rule_has_it() -> None:
    x = np.linspace(0.0, 1.0, 3, dtype="float32")
    halves = in_halves(jax.make_jaxpr(whole)(x, x, x), results=1, first=2, inputs=2)
    assert sorted(primitives(halves.forward)) == ["cos", "mul", "sin"]
    assert not {"sin", "cos"} & {*primitives(halves.backward)}
    assert "exp" in primitives(halves.backward)  # which the rule computes on the way back
    assert halves.saved == 2

    value, *saved = jaxpr_as_fun(halves.forward)(x, x + 1)
    adjoints = jaxpr_as_fun(halves.backward)(x, x + 1, *saved, x)
    product, _, *expected = whole(x, x + 1, x)
    np.testing.assert_allclose(value, product, rtol=1e-6)
    np.testing.assert_allclose(adjoints, expected, rtol=1e-6)


def test_what_depends_on_no_input_is_computed_twice_and_not_saved() -> None:
    def filled(x: Any, cotangent: Any) -> Any:
        fixed = jax.lax.iota("float32", 3)
        return x * fixed, fixed, cotangent * fixed

    x = np.ones(3, "float32")
    halves = in_halves(jax.make_jaxpr(filled)(x, x), results=1, first=2, inputs=1)
    assert halves.saved == 0
    assert "iota" in primitives(halves.forward)
    assert "iota" in primitives(halves.backward)
