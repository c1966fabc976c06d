"""What samples need of all is computed before the loop, and in it if both decide alike."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax
from relaxjax.ir.check import well_formed
from relaxjax.lowering import to_jax
from relaxjax.passes.memory.batch.kinds import MixedError
from relaxjax.passes.memory.batch.split_batch import in_equal_parts, is_apart

ADJOINT = "loss_adjoint"


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def vectors(params: Any, x: Any) -> Any:
    """What is computed of one sample, in several layers."""
    for weight in params:
        x = jax.nn.relu(x @ weight)
    return x[:, :3]


def split(loss: Any, params: Any, x: Any, again: bool = True) -> Any:
    mod = relaxjax.value_and_grad(loss, memory_policy="none").module(params, x)
    function = mod[ADJOINT]
    return mod.with_function(
        ADJOINT, in_equal_parts(mod, function, 4, {function.params[-1]: 0}, again)
    )


def contrastive(params: Any, x: Any) -> Any:
    rows = vectors(params, x)
    return -jnp.diagonal(jax.nn.log_softmax(rows @ rows.T)).mean()


PARAMS = [normal(32, 32, seed=layer) / 6 for layer in range(4)]


def test_samples_that_are_compared() -> None:
    """They are computed before the loop, and each part once more."""
    given = PARAMS, normal(8, 32, seed=5)
    mod = split(contrastive, *given)
    well_formed(mod)
    value, gradients = to_jax(mod, ADJOINT)(*jax.tree.leaves(given))
    wanted = jax.value_and_grad(contrastive)(*given)
    chex.assert_trees_all_close(value, wanted[0], rtol=1e-5)
    chex.assert_trees_all_close(list(gradients), list(wanted[1]), rtol=1e-4, atol=1e-6)
    assert "length=4" in mod.script()


def test_they_are_not_unless_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relaxjax.passes.memory.batch.reading._EARLY", 0)
    with pytest.raises(MixedError):
        split(contrastive, PARAMS, normal(8, 32, seed=5), again=False)


def largest(params: Any, x: Any) -> Any:
    """The gradient goes to what equals the maximum, which would be rounded in two ways."""
    return (vectors(params, x) / vectors(params, x).max(0, keepdims=True)).sum()


def chosen(params: Any, x: Any) -> Any:
    """The forward part decides by floats that are computed of each sample."""
    rows = vectors(params, x)
    rows = jnp.where(jnp.floor(rows * 8) > 1, rows, 2 * rows)
    return ((rows @ rows.T) ** 2).mean()


def in_a_loop(params: Any, x: Any) -> Any:
    """Nobody looks for decisions in it."""
    x, _ = jax.lax.scan(lambda x, w: (jax.nn.relu(x @ w), None), x, jnp.stack(params))
    return ((x @ x.T) ** 2).mean()


@pytest.mark.parametrize("loss", [largest, chosen, in_a_loop])
def test_what_may_decide_otherwise_is_no_batch_in_parts(loss: Any) -> None:
    mod = relaxjax.value_and_grad(loss, memory_policy="none").module(PARAMS, normal(8, 32))
    function = mod[ADJOINT]
    assert not is_apart(mod, function, 4, {function.params[-1]: 0}, again=True)


def scores(params: Any, x: Any) -> Any:
    """One number for each sample, which is so small that all are computed early."""
    return (vectors(params, x) ** 2).sum(1)


def hardest(params: Any, x: Any) -> Any:
    """The maximum in the loop is none of the scores there, if they are rounded otherwise."""
    each = scores(params, x)
    return each.max() + each.mean()


def above_the_mean(params: Any, x: Any) -> Any:
    each = scores(params, x)
    return jnp.where(each >= each.mean(), each, 0).mean()


def hardest_in_a_loop(params: Any, x: Any) -> Any:
    each = scores(params, x)
    most = jax.lax.stop_gradient(each.max())

    def step(c: Any, _: Any) -> Any:
        return jnp.where(c >= most, c, c / 2), None

    return jax.lax.scan(step, each, length=2)[0].mean()


def hardest_of_branches(params: Any, x: Any) -> Any:
    each = scores(params, x)
    most = jax.lax.stop_gradient(each.max())
    return jax.vmap(lambda one: jax.lax.cond(one >= most, jnp.sin, jnp.cos, one))(each).mean()


@pytest.mark.parametrize("loss", [hardest, above_the_mean, hardest_in_a_loop, hardest_of_branches])
def test_samples_that_are_compared_with_all_are_no_batch_in_parts(
    loss: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relaxjax.passes.memory.batch.reading._EARLY", 1000)
    with pytest.raises(MixedError):
        split(loss, PARAMS, normal(8, 32, seed=5), again=False)


def normalized(params: Any, x: Any) -> Any:
    """Numbers of the data alone have the same bits before the loop and in it."""
    gains = x[:, 0] - x[:, 0].mean()
    each = scores(params, x) * gains / jnp.sqrt((gains**2).mean())
    return jnp.minimum(each, 0.8).mean()


def first(params: Any, x: Any) -> Any:
    """A place is known of all, not a number."""
    each = scores(params, x)
    return jnp.where(jnp.arange(8) == each.argmax(), each, each / 2).mean()


@pytest.mark.parametrize("loss", [normalized, first])
def test_what_decides_once_may_read_what_is_known_of_all(
    loss: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relaxjax.passes.memory.batch.reading._EARLY", 1000)
    given = PARAMS, normal(8, 32, seed=5)
    mod = split(loss, *given, again=False)
    value, gradients = to_jax(mod, ADJOINT)(*jax.tree.leaves(given))
    wanted = jax.value_and_grad(loss)(*given)
    chex.assert_trees_all_close(value, wanted[0], rtol=1e-5)
    chex.assert_trees_all_close(list(gradients), list(wanted[1]), rtol=1e-4, atol=1e-6)
