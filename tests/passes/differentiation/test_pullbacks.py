"""Functions by `jax.custom_vjp`: differentiated, they run as their rules say, and once."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax
from relaxjax import from_jax, from_source
from relaxjax.ir.check import well_formed
from relaxjax.passes import CustomGradient, Gradient

X = np.linspace(0.1, 1.0, 6, dtype="float32").reshape(2, 3)
KEYS = jax.random.split(jax.random.key(0), 2)


@jax.custom_vjp
def iterated(x: Any, count: Any) -> Any:
    """Some steps in a loop that JAX does not differentiate."""
    return jax.lax.while_loop(
        lambda c: c[1] < count, lambda c: (jnp.sin(c[0]) + 0.5, c[1] + 1), (x, 0)
    )[0]


def _iterated_forward(x: Any, count: Any) -> Any:
    """The same steps, which are kept."""

    def step(c: Any) -> Any:
        y, i, kept = c
        return jnp.sin(y) + 0.5, i + 1, kept.at[i].set(y)

    start = (x, 0, jnp.zeros((5, *x.shape), x.dtype))
    y, _, kept = jax.lax.while_loop(lambda c: c[1] < count, step, start)
    return y, (kept, count)


def _iterated_backward(saved: Any, cotangent: Any) -> Any:
    kept, count = saved

    def step(c: Any) -> Any:
        return c[0] * jnp.cos(kept[c[1]]), c[1] - 1

    return jax.lax.while_loop(lambda c: c[1] >= 0, step, (cotangent, count - 1))[0], None


iterated.defvjp(_iterated_forward, _iterated_backward)


@jax.custom_vjp
def odd(x: Any, key: Any) -> Any:
    """A function whose rule gives another value, and keeps values of many types."""
    return jnp.sin(x)


def _odd_backward(saved: Any, cotangent: Any) -> Any:
    kept, mask, index, key, _, number, fixed, y = saved
    noise = jax.random.uniform(key, cotangent.shape)
    slope = jnp.where(mask, kept, noise) + number * index.astype(kept.dtype) + fixed * jnp.tanh(y)
    return cotangent * slope, None


odd.defvjp(
    lambda x, key: (
        2 * x,
        (jnp.exp(x), x > 0.5, jnp.argmax(x), key, None, 1.5, jnp.arange(3.0)[None], 2 * x),
    ),
    _odd_backward,
)


def alone(x: Any) -> Any:
    return jnp.sum(odd(x, KEYS[0]) ** 2)


def in_loop(x: Any) -> Any:
    return jnp.sum(jax.lax.scan(lambda c, k: (odd(c, k), None), x, KEYS)[0] ** 2)


def in_branch(x: Any) -> Any:
    return jnp.sum(jax.lax.cond(x[0, 0] > 0, lambda v: odd(v, KEYS[1]), jnp.sin, x) ** 2)


def checkpointed(x: Any) -> Any:
    return jnp.sum(jax.checkpoint(lambda v: jnp.sin(odd(jnp.cos(v), KEYS[0])))(x) ** 2)


def in_checkpointed_steps(x: Any) -> Any:
    step = jax.checkpoint(lambda c, k: (jnp.tanh(odd(c, k)), None))
    return jnp.sum(jax.lax.scan(step, x, KEYS)[0] ** 2)


def mapped(x: Any) -> Any:
    return jnp.sum(jax.vmap(lambda row: in_loop(row[None]))(x))


LOSSES = [alone, in_loop, in_branch, checkpointed, in_checkpointed_steps, mapped]


@pytest.mark.parametrize("loss", LOSSES)
def test_values_and_gradients_are_those_of_the_rule(loss: Callable[[Any], Any]) -> None:
    found = relaxjax.value_and_grad(loss)(X)
    chex.assert_trees_all_close(found, jax.value_and_grad(loss)(X), rtol=1e-5)


@pytest.mark.parametrize("loss", [alone, in_loop, in_checkpointed_steps])
def test_second_derivatives_are_those_of_jax(loss: Callable[[Any], Any]) -> None:
    found, expected = (
        jax.grad(lambda x, g=g: jnp.sum(jnp.sin(g(loss)(x))))(X) for g in (relaxjax.grad, jax.grad)
    )
    chex.assert_trees_all_close(found, expected, rtol=1e-5)


def test_what_is_not_differentiated_is_the_function_itself() -> None:
    found = relaxjax.value_and_grad(lambda x, y: jnp.sum(x * odd(y, KEYS[0])))(X, X)
    chex.assert_trees_all_close(found, (np.sum(X * np.sin(X)), np.sin(X)), rtol=1e-6)


def test_a_loop_runs_once_forth_and_once_back() -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(iterated(x, 4) ** 2)

    found = relaxjax.value_and_grad(loss)(X)
    chex.assert_trees_all_close(found, jax.value_and_grad(loss)(X), rtol=1e-5)
    assert relaxjax.value_and_grad(loss).module(X).script().count("L.while_loop(") == 2


def test_steps_of_a_loop_back_are_given_what_the_steps_forth_have_kept() -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(jax.lax.scan(lambda c, n: (iterated(c, n), None), x, jnp.arange(2, 4))[0])

    found = relaxjax.value_and_grad(loss)(X)
    chex.assert_trees_all_close(found, jax.value_and_grad(loss)(X), rtol=1e-5)
    assert relaxjax.value_and_grad(loss).module(X).script().count("L.while_loop(") == 2


def test_the_attribute_is_read_back_and_goes_with_its_gradient() -> None:
    module = from_jax(alone, X)
    text = module.script()
    assert '"custom_forward": "odd_forward"' in text
    assert from_source(text).script() == text
    adjoint = Gradient("main")(module)
    well_formed(adjoint)
    assert "cls.odd_forward(" in adjoint["main_adjoint"].script()

    replaced = CustomGradient("odd", gradient=lambda x, key, g: (g * 7,))(module)
    assert "custom_forward" not in replaced["odd"].attrs
    value, (found,) = relaxjax.to_jax(Gradient("main")(replaced), "main_adjoint")(X)
    expected = np.sum(np.sin(X) ** 2), 14 * np.sin(X)
    chex.assert_trees_all_close((value, found), expected, rtol=1e-6)


def test_a_gradient_of_two_halves_is_compared_with_tangents() -> None:
    tripled = jax.custom_vjp(lambda x: x * 3)
    tripled.defvjp(lambda x: (x * 3, jnp.exp(jnp.log(x * 3))), lambda y, g: (g * 3 * y / y,))
    module = from_jax(lambda x: jnp.sum(tripled(x)), X)
    (name,) = (n for n in module if module[n].attrs.get("custom_forward"))
    CustomGradient(name, jvp=lambda x, t: (x * 3, t * 3))(module)
    with pytest.raises(ValueError, match="do not belong together"):
        CustomGradient(name, jvp=lambda x, t: (x * 3, t * 4))(module)


@pytest.mark.parametrize("loss", [alone, in_loop, checkpointed])
def test_jax_differentiates_the_module_by_the_rule(loss: Callable[[Any], Any]) -> None:
    found = jax.grad(relaxjax.to_jax(from_jax(loss, X), "main"))(X)
    chex.assert_trees_all_close(found, jax.grad(loss)(X), rtol=1e-5)
