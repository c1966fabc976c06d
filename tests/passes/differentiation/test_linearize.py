"""Rules by tangents in loops and branches: what they need of the way forth is computed once."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax
from relaxjax import IRModule, from_jax, from_source
from relaxjax.passes import Gradient

X = np.linspace(-2, 2, 6).astype("float32")


@jax.custom_jvp
def bent(x: Any) -> Any:
    return jnp.tanh(x)


@bent.defjvp
def _bent_tangent(primals: Any, tangents: Any) -> Any:
    (x,), (moved,) = primals, tangents
    return bent(x), moved / jnp.cosh(x) ** 2  # not as JAX writes it of the tangent, so it shows


@jax.custom_jvp
def straight(x: Any) -> Any:
    return jnp.round(x)


straight.defjvps(lambda moved, out, x: moved)


def in_loop(x: Any) -> Any:
    return jax.lax.scan(lambda c, v: (bent(c * v), c), x, jnp.stack([x, x + 1]))[0].sum()


def in_branch(x: Any) -> Any:
    return jax.lax.cond(x[0] > 0, lambda v: bent(v), lambda v: v * 2, x).sum()


def in_checkpointed_steps(x: Any) -> Any:
    step = jax.checkpoint(lambda c, v: (bent(c * v), None))
    return jax.lax.scan(step, x, jnp.stack([x, x + 1]))[0].sum()


def in_function(x: Any) -> Any:
    return bent(jax.nn.softplus(x)).sum() + in_loop(x)


def straight_in_loop(x: Any) -> Any:
    return jax.lax.scan(lambda c, v: (straight(c * v), None), x, jnp.stack([x, x]))[0].sum()


@pytest.mark.parametrize(
    "loss", [in_loop, in_branch, in_checkpointed_steps, in_function, straight_in_loop]
)
def test_gradients_are_those_of_jax(loss: Callable[[Any], Any]) -> None:
    for x in (X, -X):
        found = relaxjax.value_and_grad(loss)(x)
        chex.assert_trees_all_close(found, jax.value_and_grad(loss)(x), rtol=1e-5)


def test_second_derivatives_are_those_of_jax() -> None:
    def along(loss: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: (loss(x) * x).sum()

    found, expected = (jax.jit(jax.grad(along(g(in_loop))))(X) for g in (relaxjax.grad, jax.grad))
    chex.assert_trees_all_close(found, expected, rtol=1e-5)
    module = Gradient("main_adjoint", "x", cotangent=True, target_index=1)(
        Gradient("main")(from_jax(in_loop, X))
    )
    seed = (jnp.asarray(X),)
    (_, (found,)) = jax.jit(relaxjax.to_jax(module, "main_adjoint_adjoint"))(X, seed)
    (expected,) = jax.jit(lambda x, seed: jax.vjp(jax.grad(in_loop), x)[1](seed))(X, seed[0])
    chex.assert_trees_all_close(found, expected, rtol=1e-5)


def steps(module: IRModule) -> tuple[str, str]:
    """The function around both loops, the way back apart."""
    before, _, after = module["main_adjoint"].script().partition("_step_adjoint(")
    return before, after


def test_steps_back_are_given_what_a_rule_has_of_the_arguments() -> None:
    module = Gradient("main")(from_jax(in_loop, X))
    before, after = steps(module)
    assert "cls.bent_gradient_ready(" in before
    assert "cls.bent_gradient_rest(" in after
    assert "_ready(" not in after
    assert "L.cosh" in module["bent_gradient_ready"].script()
    assert "L.cosh" not in module["bent_gradient_rest"].script()
    assert (
        "L.cosh"
        not in relaxjax.value_and_grad(in_loop).module(X).script().partition("_adjoint(c")[2]
    )


def test_rules_that_need_nothing_but_the_adjoint_stay_whole() -> None:
    module = Gradient("main")(from_jax(straight_in_loop, X))
    assert "cls.straight_gradient(" in module["main_adjoint"].script()
    assert not [name for name in module if name.endswith(("_ready", "_rest"))]


def test_outside_of_loops_and_branches_rules_stay_whole() -> None:
    module = Gradient("main")(from_jax(lambda x: bent(x).sum(), X))
    assert "cls.bent_gradient(" in module["main_adjoint"].script()


def test_rules_of_adjoints_stay_whole() -> None:
    """Those of `jax.custom_vjp` compute again what their authors want computed again."""

    @jax.custom_vjp
    def lean(x: Any) -> Any:
        return jnp.sin(x)

    lean.defvjp(lambda x: (lean(x), x), lambda x, g: (jnp.cos(x) * g,))

    def loss(x: Any) -> Any:
        return jax.lax.scan(lambda c, v: (lean(c * v), None), x, jnp.stack([x, x]))[0].sum()

    module = Gradient("main")(from_jax(loss, X))
    assert "cls.lean_gradient(" in module["main_adjoint"].script()
    found = relaxjax.value_and_grad(loss)(X)
    chex.assert_trees_all_close(found, jax.value_and_grad(loss)(X), rtol=1e-5)


def test_the_attribute_is_read_back() -> None:
    module = from_jax(in_loop, X)
    text = module.script()
    assert 'R.func_attr({"linearized": True})' in text
    assert from_source(text).script() == text
