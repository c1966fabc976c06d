"""Derivatives of gradients, by JAX and by us."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import relaxjax
from relaxjax.passes import Gradient

X = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")


@jax.custom_jvp
def squashed(x: jax.Array) -> jax.Array:
    return jnp.tanh(x)


@squashed.defjvp
def _squashed_jvp(primals: Any, tangents: Any) -> Any:
    y = squashed(*primals)
    return y, (1 - y * y * 0.5) * tangents[0]


@pytest.mark.parametrize("outer", [jax.grad, relaxjax.grad])
def test_second_derivatives_go_by_the_rules_too(outer: Any) -> None:
    def bent(x: Any, steps: Any) -> Any:
        return jnp.sum(squashed(x) ** 2) * jnp.sum(steps).astype("float32"), steps

    def squared(gradient: Any, x: Any) -> Any:
        return jnp.sum(gradient(bent, has_aux=True)(x, np.arange(3))[0] ** 2)

    found = jax.jit(outer(lambda x: squared(relaxjax.grad, x)))(X)
    expected = jax.jit(jax.grad(lambda x: squared(jax.grad, x)))(X)
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("kind", "again"), [("jvp", jax.jacfwd), ("jvp", jax.jacrev), ("vjp", jax.jacrev)]
)
def test_second_derivatives_know_what_a_rule_has_from_around_it(kind: str, again: Any) -> None:
    """Rules use it while the loss is traced, so the loss is traced once more."""

    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        scale = jnp.max(x)

        def waves(y: jax.Array) -> jax.Array:
            return jnp.sin(y) * scale

        if kind == "jvp":
            ruled: Any = jax.custom_jvp(waves)
            ruled.defjvp(lambda y, t: (waves(y[0]), jnp.cos(y[0]) * scale * t[0] * 2))
        else:
            ruled = jax.custom_vjp(waves)
            ruled.defvjp(
                lambda y: (waves(y), (y, scale)), lambda kept, g: (jnp.cos(kept[0]) * kept[1] * g,)
            )
        return jnp.sum(ruled(w[None] * x))

    found = jax.jit(again(lambda w: relaxjax.grad(loss)(w, X)))(X[0])
    expected = again(lambda w: jax.grad(loss)(w, X))(X[0])
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-6)


def of_tasks(gradient: Callable[..., Any]) -> Callable[..., Any]:
    """A step for each task, by a loss that names the variable of the loop, as people write it."""

    def loss(x: jax.Array) -> jax.Array:
        total = jnp.zeros(())
        for task in (1.0, 2.0, 3.0):
            step = gradient(lambda y: jnp.sum(jnp.sin(y * task)))(x)  # noqa: B023  # which is tested
            total += jnp.sum((x - 0.1 * step) ** 2) * task
        return total

    return loss


@pytest.mark.parametrize("outer", [jax.grad, relaxjax.grad, lambda loss: jax.grad(jax.jit(loss))])
def test_a_loss_may_name_the_variable_of_a_loop(outer: Any) -> None:
    expected = jax.grad(of_tasks(jax.grad))(X)
    chex.assert_trees_all_close(outer(of_tasks(relaxjax.grad))(X), expected, rtol=1e-5)


def test_a_loss_that_must_run_again_may_not() -> None:
    def loss(x: jax.Array) -> jax.Array:
        total = jnp.zeros(())
        for task in (1.0, 2.0):

            def own(y: jax.Array, data: jax.Array) -> jax.Array:
                scale = jnp.max(data) * task  # noqa: B023  # which is tested
                ruled = jax.custom_jvp(lambda z: jnp.sin(z) * scale)
                ruled.defjvp(lambda z, t: (jnp.sin(z[0]) * scale, jnp.cos(z[0]) * scale * t[0]))
                return jnp.sum(ruled(2.0 * y))

            total += jnp.sum(relaxjax.grad(own)(x, X) ** 2)
        return total

    message = "the loss runs again for its second derivatives, and computes something else than"
    with pytest.raises(ValueError, match=message):
        relaxjax.grad(loss)(X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.max(x**3),
        lambda x: jnp.sum(jax.lax.cummax(x**3, axis=1)),
        lambda x: jnp.sum(jnp.zeros(3).at[np.array([0, 1, 0])].max(x[0] ** 3)),
    ],
    ids=["max", "cummax", "scatter_max"],
)
def test_what_has_a_form_on_each_platform_has_second_derivatives(function: Any) -> None:
    """Whoever reads the first one meets a branch for platforms that have no name, too."""

    def moved(gradient: Any, x: Any) -> Any:
        return jnp.sum(gradient(lambda x: jnp.sum(jax.vmap(function)(x[:, None])))(x) * x[::-1])

    x = X[:, :3]
    found = jax.jit(relaxjax.grad(lambda x: moved(relaxjax.grad, x)))(x)
    expected = jax.jit(jax.grad(lambda x: moved(jax.grad, x)))(x)
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-6)


def attended(q: jax.Array) -> jax.Array:
    return jnp.sum(jax.nn.dot_product_attention(q, q, q) ** 2)


def test_a_gradient_whose_program_differs_by_platform_is_read_into_a_module() -> None:
    """What stands for the other platforms has no derivative; the function around it has a rule."""
    q = np.random.default_rng(1).normal(size=(1, 3, 1, 2)).astype("float32")
    module = relaxjax.from_jax(lambda q: jnp.sum(relaxjax.grad(attended)(q) ** 2), q)
    again = relaxjax.from_source(module.script())
    found = jax.jit(relaxjax.to_jax(Gradient("main")(again), "main_adjoint"))(q)
    expected = jax.value_and_grad(lambda q: jnp.sum(jax.grad(attended)(q) ** 2))(q)
    chex.assert_trees_all_close(found, (expected[0], (expected[1],)), rtol=1e-4, atol=1e-5)


def test_the_choice_of_a_platform_may_be_made_outside_of_the_loop_that_it_is_for() -> None:
    """JAX has its number as a constant of the loop, which the IR has not."""

    def peaks(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.maximum.accumulate(x) ** 2)

    def twice(gradient: Any) -> Any:
        return jax.jit(gradient(lambda x: jnp.sum(gradient(peaks)(x) ** 2)))

    x = np.array([1, 3, 2, 4], "float32")
    chex.assert_trees_all_close(twice(relaxjax.grad)(x), twice(jax.grad)(x), rtol=1e-6)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_a_gradient_inside_of_a_loss_may_have_a_budget(platform: str) -> None:
    """Read into a module, it is also written for a platform whose compiler is not here."""

    def loss(x: Any, gradient: Any, **options: Any) -> Any:
        return jnp.sum(gradient(lambda y: jnp.sum(jnp.tanh(y @ y.T) ** 2), **options)(x) ** 2)

    budgeted = jax.jit(relaxjax.grad(lambda x: loss(x, relaxjax.grad, memory_budget=1.0)))
    expected = jax.jit(jax.grad(lambda x: loss(x, jax.grad)))(X)
    chex.assert_trees_all_close(budgeted(X), expected, rtol=1e-4)
    assert export.export(budgeted, platforms=[platform])(X).platforms == (platform,)
