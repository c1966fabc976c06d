"""Losses that print: as often as under JAX's own `value_and_grad`, and what it prints there."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax
from relaxjax.ops.lax import UnsupportedPrimitiveError

W = np.linspace(-1.0, 1.0, 6, dtype="float32").reshape(3, 2)
X = np.linspace(0.0, 2.0, 6, dtype="float32").reshape(2, 3)


@jax.custom_vjp
def scaled(x: jax.Array) -> jax.Array:
    return x * 2


scaled.defvjp(lambda x: (x * 2, None), lambda _, g: (g * 2,))


@jax.jit
def doubled(x: jax.Array) -> jax.Array:
    jax.debug.print("doubling {}", x.sum())
    return x * 2


def report(x: np.ndarray) -> None:
    print("called back with", x.shape)


def talking(w: jax.Array, x: jax.Array) -> jax.Array:
    hidden = jnp.tanh(x @ w)
    jax.debug.print("first {} of {count}", hidden[0, 0], count=hidden.size)
    hidden = doubled(doubled(hidden))
    jax.debug.callback(report, hidden, ordered=True)
    jax.debug.print("nothing to show")
    jax.vmap(lambda row: jax.debug.print("row {}", row))(hidden)
    scale = jnp.max(x)

    @jax.custom_jvp
    def clipped(x: jax.Array) -> jax.Array:
        return jnp.minimum(x, 1.0)

    clipped.defjvp(lambda x, t: (clipped(x[0]), t[0] * scale))
    hidden = scaled(clipped(hidden))
    jax.debug.print("place {}", jnp.argmax(hidden))
    return jnp.mean(hidden**2)


def printed(capsys: pytest.CaptureFixture[str], function: Callable[..., Any], *args: Any) -> Any:
    """The lines that a call prints, in any order, and its result."""
    capsys.readouterr()
    result = jax.block_until_ready(function(*args))
    jax.effects_barrier()
    return sorted(capsys.readouterr().out.splitlines()), result


@pytest.mark.parametrize("policy", [None, "balanced"])
@pytest.mark.parametrize("jitted", [False, True])
def test_a_loss_prints_what_it_prints_under_jax(
    capsys: pytest.CaptureFixture[str], jitted: bool, policy: str | None
) -> None:
    """Once, whether values are computed again or not, and inside of what is compiled too."""
    ours = relaxjax.value_and_grad(talking, memory_policy=policy)
    lines, found = printed(capsys, jax.jit(ours) if jitted else ours, W, X)
    expected_lines, expected = printed(capsys, jax.value_and_grad(talking), W, X)
    assert lines == expected_lines
    assert len(lines) == 8
    chex.assert_trees_all_close(found, expected, rtol=1e-5)


def test_it_prints_once_where_jax_differentiates_again(capsys: pytest.CaptureFixture[str]) -> None:
    def loss(w: jax.Array) -> jax.Array:
        jax.debug.print("w is {}", w)
        return w**3

    twice = jax.jit(jax.grad(relaxjax.grad(loss)))
    assert printed(capsys, twice, 2.0) == (["w is 2.0"], 12.0)


def test_results_beside_the_loss_stay_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    def loss(w: jax.Array) -> Any:
        jax.debug.print("sum {}", w.sum())
        return jnp.sum(w), {"first": w[0, 0], "second": 3}

    lines, found = printed(capsys, relaxjax.value_and_grad(loss, has_aux=True), W)
    assert lines == ["sum 0.0"]
    chex.assert_trees_all_close(found, jax.value_and_grad(loss, has_aux=True)(W))


def test_what_prints_in_a_loop_is_refused_and_says_where() -> None:
    def loss(w: jax.Array) -> Any:
        def step(total: Any, x: Any) -> Any:
            jax.debug.print("total {}", total)
            return total * x, None

        return jax.lax.scan(step, jnp.float32(1), w.ravel())[0]

    message = "prints what stands in a loss outside of loops, .*: make it a result of these"
    with pytest.raises(UnsupportedPrimitiveError, match=message) as caught:
        relaxjax.grad(loss)(W)
    assert 'jax.debug.print("total {}", total)' in "".join(caught.value.__notes__)
