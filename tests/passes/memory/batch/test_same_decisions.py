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
