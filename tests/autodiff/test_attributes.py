"""Losses that are objects, or have attributes: none is taken for what a derivative knows."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax

X, Y = np.float32(2.0), np.float32(5.0)

# All that a derivative holds of its own, or is asked for by its users.
_DERIVATIVE = relaxjax.value_and_grad(jnp.sum)
OWN_NAMES = [name for name in {*vars(_DERIVATIVE), *dir(_DERIVATIVE)} if name[:2] != "__"]


def cubes(x: Any, y: Any) -> Any:
    return 3.0 * x**2 * y


def check(loss: Callable[..., Any], **options: Any) -> None:
    for name in ("value_and_grad", "grad"):
        found = getattr(relaxjax, name)(loss, **options)(X, Y)
        chex.assert_trees_all_close(found, getattr(jax, name)(loss, **options)(X, Y), rtol=1e-6)


@pytest.mark.parametrize("value", [1, None, True, "all"])
def test_attributes_of_a_function(value: Any) -> None:
    """Whatever they are called."""
    assert {"argnums", "has_aux", "module"} <= set(OWN_NAMES)

    def loss(x: Any, y: Any) -> Any:
        return cubes(x, y)

    for name in OWN_NAMES:
        setattr(loss, name, value)
    check(loss)
    check(loss, argnums=(0, 1))
    assert "loss_adjoint" in relaxjax.value_and_grad(loss).module(X, Y)


class Weighted:
    """A loss of one's own, whose settings are called as it likes."""

    def __init__(self) -> None:
        self.argnums = 1
        self.has_aux = self.allow_int = True
        self.memory_budget = self.memory_policy = "as before"
        self.function: Callable[[Any], Any] = lambda x: 7.0 * x

    def __call__(self, x: Any, y: Any) -> Any:
        return self.function(x) * cubes(x, y) + self.argnums


@jax.tree_util.register_dataclass
@dataclass
class Tree:
    """A loss that holds arrays, as a module of equinox does."""

    function: float = 3.0
    has_aux: bool = field(default=False, metadata={"static": True})

    def __call__(self, x: Any, y: Any) -> Any:
        return self.function * cubes(x, y)


@pytest.mark.parametrize("loss", [Weighted(), Tree(), Weighted().__call__])
def test_losses_that_are_objects(loss: Callable[..., Any]) -> None:
    check(loss)
    check(loss, argnums=1)


@pytest.mark.parametrize("which", ["value_and_grad", "grad"])
def test_a_loss_in_the_clothes_of_a_derivative(which: str) -> None:
    """As `functools.wraps` makes it, which copies the attributes of what it is given."""
    inner = relaxjax.value_and_grad(cubes, argnums=1)
    wrapped = inner if which == "value_and_grad" else relaxjax.grad(cubes, argnums=1)

    @functools.wraps(wrapped)
    def loss(x: Any, y: Any) -> Any:
        value, slope = inner(x, y)
        return value + 10 * slope

    check(loss)


def test_a_derivative_has_the_name_and_the_docstring_of_its_loss() -> None:
    def loss(x: Any, y: Any) -> Any:
        """How far it is."""
        return cubes(x, y)

    for found in (relaxjax.value_and_grad(loss), relaxjax.grad(loss)):
        assert (found.__name__, found.__doc__) == ("loss", "How far it is.")
    assert relaxjax.value_and_grad(Weighted()).__name__ == "loss"


def test_a_derivative_says_what_it_is_of_and_how() -> None:
    def loss(x: Any, y: Any) -> Any:
        return cubes(x, y)

    assert repr(relaxjax.value_and_grad(loss)) == "value_and_grad(loss)"
    found = relaxjax.value_and_grad(loss, (0, 1), has_aux=True, memory_budget="50%")
    text = "value_and_grad(loss, argnums=(0, 1), has_aux=True, memory_budget='50%')"
    assert repr(found) == text


def test_standing_in_for_those_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries find them there; second derivatives are made by JAX's own all the same."""
    expected = jax.grad(jax.grad(cubes))(X, Y), jax.hessian(cubes)(X, Y)
    monkeypatch.setattr(jax, "value_and_grad", relaxjax.value_and_grad)
    monkeypatch.setattr(jax, "grad", relaxjax.grad)
    found = jax.grad(jax.grad(cubes))(X, Y), jax.jacfwd(jax.grad(cubes))(X, Y)
    chex.assert_trees_all_close(found, expected, rtol=1e-6)


def test_nothing_to_differentiate_by_is_a_type_error_as_it_is_by_jax() -> None:
    for module in (jax, relaxjax):
        with pytest.raises(TypeError, match=r"argnums.* is 0|argnums=0"):
            module.grad(lambda **kwargs: kwargs["x"])(x=1.0)
