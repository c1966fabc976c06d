"""Losses that ask Python for a value: where no gradient passes, and where one would."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_module

import relaxjax
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ops.lax import UnsupportedPrimitiveError
from relaxjax.ops.packed import as_held, held_name, is_traceable
from relaxjax.passes import GradientError
from relaxjax.script.values import call_pure_packed

W = np.linspace(0.5, 2.0, 4, dtype="float32")


def host_sine(x: Any) -> Any:
    """The sine, by NumPy."""
    return jax.pure_callback(
        np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="expand_dims"
    )


def of_what_is_held(w: Any, x: Any) -> Any:
    return jnp.sum(w * host_sine(jax.lax.stop_gradient(w)) * host_sine(x))


def of_a_place(w: Any, x: Any) -> Any:
    """An integer has no derivative, as little as that of `jnp.argmax`."""
    place = jax.pure_callback(
        lambda x: np.argmin(x).astype("int32"), jax.ShapeDtypeStruct((), "int32"), -x
    )
    return w[place] ** 2


def of_two_results(w: Any, x: Any) -> Any:
    shapes = (jax.ShapeDtypeStruct((4,), "float32"), jax.ShapeDtypeStruct((), "float32"))
    rows, total = jax.pure_callback(lambda x: (x[::-1], x.sum()), shapes, x)
    return jnp.sum(w**3 * rows) / total


def in_a_branch(w: Any, x: Any) -> Any:
    def refused() -> Any:
        def fails() -> Any:
            raise ValueError("not positive")

        return jax.pure_callback(fails, jax.ShapeDtypeStruct((4,), "float32"))

    return jnp.sum(jnp.sqrt(jax.lax.cond(jnp.any(x <= 0), refused, lambda: x) * w))


@jax.custom_jvp
def sine_with_a_rule(x: Any) -> Any:
    return host_sine(x)


@sine_with_a_rule.defjvp
def _sine_rule(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return sine_with_a_rule(x), t * jnp.cos(x)


@jax.custom_vjp
def cosine_with_a_rule(x: Any) -> Any:
    return host_sine(x + np.float32(np.pi / 2))


cosine_with_a_rule.defvjp(lambda x: (cosine_with_a_rule(x), x), lambda x, g: (-g * host_sine(x),))


def by_rules(w: Any, x: Any) -> Any:
    return jnp.sum(jax.checkpoint(sine_with_a_rule)(w * x) * cosine_with_a_rule(w))


def in_a_loop(w: Any, x: Any) -> Any:
    def step(total: Any, x: Any) -> Any:
        total = sine_with_a_rule(total) * x + host_sine(jax.lax.stop_gradient(total))
        return total, total**2

    last, squares = jax.lax.scan(step, w[0], w * x)
    return last + jnp.sum(squares)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize(
    "loss", [of_what_is_held, of_a_place, of_two_results, in_a_branch, by_rules, in_a_loop]
)
def test_gradients_are_those_of_jax(loss: Callable[..., Any], jitted: bool) -> None:
    ours, theirs = relaxjax.value_and_grad(loss), jax.value_and_grad(loss)
    if loss is of_a_place:  # JAX refuses that
        theirs = jax.value_and_grad(lambda w, x: w[jnp.argmin(-x)] ** 2)
    found = (jax.jit(ours) if jitted else ours)(W, W)
    chex.assert_trees_all_close(found, theirs(W, W), rtol=1e-5)


def test_an_array_of_numpy_beside_the_loss_comes_back_as_in_jax() -> None:
    """A float64 one that is not differentiated by was float32, and an array of JAX's."""

    def loss(x: Any, weights: Any, *, ids: Any) -> Any:
        return jnp.sum(x**2), (weights, ids)

    x, weights, ids = np.ones(3, "float32"), np.full(2, 1 + 1e-12), np.arange(2)
    (_, rest), _ = relaxjax.value_and_grad(loss, has_aux=True)(x, weights, ids=ids)
    (_, wanted), _ = jax.value_and_grad(loss, has_aux=True)(x, weights, ids=ids)
    assert [type(array) for array in rest] == [type(array) for array in wanted]
    chex.assert_trees_all_equal(rest, wanted)


def test_each_asks_as_it_says_where_it_is_mapped() -> None:
    """Here once for all rows."""
    shapes = []

    def seen(x: Any) -> Any:
        shapes.append(x.shape)
        return np.sin(x)

    def loss(w: Any, x: Any) -> Any:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jnp.sum(w * jax.pure_callback(seen, shape, x, vmap_method="expand_dims"))

    rows = np.stack([W, W + 1])
    found = jax.jit(jax.vmap(relaxjax.grad(loss), (None, 0)))(W, rows)
    chex.assert_trees_all_close(found, np.sin(rows), rtol=1e-5)
    assert shapes == [(2, 4)]


def test_an_error_of_python_ends_the_program() -> None:
    with pytest.raises(Exception, match="not positive"):
        jax.block_until_ready(relaxjax.grad(in_a_branch)(W, -W))


def test_what_a_gradient_would_pass_is_an_error_with_its_line() -> None:
    message = (
        "`found`: the call of `sin.*`, a Python function from outside: call it in a function that "
        "has a derivative, by CustomGradient or, in JAX, by jax.custom_vjp"
    )

    def loss(w: Any) -> Any:
        found = jax.pure_callback(np.sin, jax.ShapeDtypeStruct((4,), "float32"), w)
        return jnp.sum(found * w)

    with pytest.raises(GradientError, match=message) as caught:
        relaxjax.grad(loss)(W)
    assert "found = jax.pure_callback(" in str(caught.value)


def test_a_module_by_itself_holds_none() -> None:
    """It may be saved, and run where no one has the function."""
    with pytest.raises(UnsupportedPrimitiveError, match="`pure_callback` has no form in the IR"):
        relaxjax.from_jax(host_sine, W)


def asking_once(w: Any) -> Any:
    def only_here() -> Any:
        return np.float32(3)

    return w[0] * jax.pure_callback(only_here, jax.ShapeDtypeStruct((), "float32"))


def test_a_printed_program_runs_while_its_function_lives() -> None:
    module = relaxjax.value_and_grad(asking_once).module(W)
    read = parse_module(module.script())
    assert_structural_equal(read, module)
    value, _ = relaxjax.to_jax(read, "loss_adjoint")(W)
    chex.assert_trees_all_close(value, 1.5)


def test_a_function_is_known_as_long_as_its_name_is_in_use() -> None:
    name = held_name("sine", np.sin)
    call = call_pure_packed(str(name))
    del name
    assert is_traceable(as_held("sine"))
    assert held_name("sine", np.cos) == "sine1"
    del call
    assert not is_traceable(as_held("sine"))
