"""Errors in a loss show its own lines, and none of those that lead there."""

import traceback
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax

X = np.ones(3, "float32")


def deep(x: Any) -> Any:
    raise ValueError("in the loss")


def loss(x: Any) -> Any:
    return deep(x)


def frames(function: Callable[..., Any]) -> list[tuple[str, str]]:
    """The files and functions that the traceback of an error shows, from the test on."""
    with pytest.raises(Exception, match=r".") as caught:
        function(X)
    found = traceback.extract_tb(caught.value.__traceback__)[1:]
    return [(frame.filename.rpartition("/")[2], frame.name) for frame in found]


HERE = [("test_frames.py", "loss"), ("test_frames.py", "deep")]


@pytest.mark.parametrize(
    "function",
    [
        relaxjax.grad(loss),
        relaxjax.value_and_grad(loss),
        relaxjax.value_and_grad(loss).module,
        jax.jit(relaxjax.grad(loss)),
    ],
)
def test_an_error_in_a_loss_shows_the_loss(function: Any) -> None:
    assert frames(function) == HERE == frames(jax.grad(loss))


def test_an_error_in_what_jax_calls_shows_the_line_of_the_loss() -> None:
    def wrong(x: Any) -> Any:
        return jnp.sum(jnp.dot(x, jnp.ones(5)))

    assert frames(relaxjax.grad(wrong)) == frames(jax.grad(wrong))


def test_an_error_of_the_package_shows_where_it_was_found() -> None:
    found = frames(relaxjax.grad(lambda x: jax.lax.while_loop(jnp.all, jnp.sin, x).sum()))
    assert ("gradient.py", "Gradient") in found


def test_all_frames_are_shown_where_jax_shows_all() -> None:
    jax.config.update("jax_traceback_filtering", "off")
    try:
        found = frames(relaxjax.grad(loss))
    finally:
        jax.config.update("jax_traceback_filtering", "auto")
    assert ("from_jax.py", "traced") in found
    assert found[-2:] == HERE
