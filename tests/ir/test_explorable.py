"""`x.explore()`: the explorer stands above what it shows, and is entered by the package's root."""

from typing import Any

import jax.numpy as jnp
import pytest

from relaxjax import Trainer, VirtualMachine, build, explore, value_and_grad
from relaxjax.cli.demo import trainable
from relaxjax.explorer import Explorer


def a_trainer() -> Trainer:
    mod = trainable(0.1)
    return Trainer(mod, VirtualMachine(build(mod)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: trainable(0.1),
        lambda: trainable(0.1)["backbone"],
        lambda: build(trainable(0.1)),
        a_trainer,
    ],
    ids=["module", "function", "executable", "trainer"],
)
def test_it_is_what_explore_finds(make: Any) -> None:
    subject = make()
    found = subject.explore(title="seen")
    assert isinstance(found, Explorer)
    assert found.document.title == "seen"
    assert found.document.function == explore(subject).document.function


def test_a_value_and_grad_is_explored_with_its_arguments() -> None:
    step = value_and_grad(lambda w, x: jnp.sum(jnp.tanh(x @ w)), memory_policy="balanced")
    found = step.explore(jnp.ones((4, 4)), jnp.ones((8, 4)))
    assert isinstance(found, Explorer)
    assert found.document.function == "loss_adjoint"


def test_what_explore_refuses_is_refused() -> None:
    with pytest.raises(TypeError, match="an object of type IRModule takes none: leave them out"):
        trainable(0.1).explore(jnp.ones(3))
