"""Backward programs are written once for losses that are traced alike, whatever they are called."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax
from relaxjax.autodiff import backward
from relaxjax.passes import PassContext, pass_instrument

X = np.linspace(0.1, 1.0, 3, dtype="float32")


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The losses whose backward programs are written, from an empty store on."""
    found: list[Any] = []
    write = backward.written

    def noted(mod: Any, *rest: Any) -> Any:
        found.append(mod)
        return write(mod, *rest)

    monkeypatch.setattr(backward, "written", noted)
    monkeypatch.setattr(backward, "_KEPT", {})
    return found


def check(function: Callable[..., Any], *args: Any) -> None:
    found = relaxjax.value_and_grad(function)(*args)
    chex.assert_trees_all_close(found, jax.value_and_grad(function)(*args), rtol=1e-6)


def test_a_second_call_writes_no_second_program(programs: list[Any]) -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(jax.nn.relu(x) ** 2)

    both = relaxjax.value_and_grad(loss)
    first, second = both(X), both(X)
    chex.assert_trees_all_equal(first, second)
    check(loss, X - 0.5)  # by a derivative of its own
    assert len(programs) == 1
    check(loss, np.ones((2, 2), "float32"))
    assert len(programs) == 2


def test_a_loss_made_anew_is_the_same_loss(programs: list[Any]) -> None:
    for _ in range(3):
        check(lambda x: jnp.sum(jnp.sin(x)), X)
    assert len(programs) == 1


def test_variables_around_a_loss_may_change(programs: list[Any]) -> None:
    """Numbers are in the program, arrays are handed to it, and a branch makes another."""
    settings: dict[str, Any] = {"power": 2, "scale": jnp.ones(3), "mode": "sum"}

    def loss(x: Any) -> Any:
        found = settings["scale"] * x ** settings["power"]
        return jnp.sum(found) if settings["mode"] == "sum" else jnp.mean(jnp.sin(found))

    changes: list[dict[str, Any]] = [
        {},
        {"scale": 3 * jnp.ones(3)},
        {"power": 3},
        {"mode": "mean"},
        {"power": 2, "mode": "sum"},
    ]
    counts = []
    for change in changes:
        settings |= change
        check(loss, X)
        counts.append(len(programs))
    assert counts == [1, 1, 2, 3, 3]


def test_what_is_asked_of_the_program_counts(programs: list[Any]) -> None:
    def loss(x: Any, y: Any) -> Any:
        return jnp.sum(jnp.sin(x) * y)

    given: list[dict[str, Any]] = [
        {},
        {"argnums": 1},
        {"argnums": (0, 1)},
        {"memory_policy": "minimal"},
    ]
    for options in given:
        relaxjax.grad(loss, **options)(X, X)
    assert len(programs) == 4


def test_settings_of_jax_count(programs: list[Any]) -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(x @ jnp.sin(x))

    relaxjax.grad(loss)(X)
    with jax.default_matmul_precision("highest"):
        relaxjax.grad(loss)(X)
    with jax.enable_x64(True):
        relaxjax.grad(loss)(X)
    assert len(programs) == 3


def test_lines_count_which_errors_show(programs: list[Any]) -> None:
    check(lambda x: jnp.sum(jnp.sin(x)), X)
    check(lambda x: jnp.sum(jnp.sin(x)), X)
    assert len(programs) == 2


def test_functions_of_python_are_of_one_call(programs: list[Any]) -> None:
    def loss(x: Any) -> Any:
        rest = jax.lax.stop_gradient(x)
        return jnp.sum(x * jax.pure_callback(np.asarray, jax.ShapeDtypeStruct((3,), "f4"), rest))

    for _ in range(2):
        check(loss, X)
    assert len(programs) == 2
    assert not backward._KEPT


def test_whoever_watches_passes_sees_them(programs: list[Any]) -> None:
    seen: list[str] = []

    @pass_instrument
    class Watching:
        def run_before_pass(self, mod: Any, info: Any) -> None:
            seen.append(info.name)

    for _ in range(2):
        with PassContext(instruments=[Watching()]):
            check(lambda x: jnp.sum(jnp.sin(x)), X)
    assert seen.count("Gradient") == 2


def test_only_the_last_programs_are_kept(
    programs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backward, "MOST_KEPT", 2)
    for power in (1, 2, 3, 3, 2, 1):
        check(lambda x: jnp.sum(x**power), X)  # noqa: B023  # called at once
    assert len(programs) == 4
    assert len(backward._KEPT) == 2


def test_nothing_traced_is_kept(programs: list[Any]) -> None:
    def around(x: Any) -> Any:
        scale = jnp.sin(x)
        return relaxjax.grad(lambda x: jnp.sum(scale * x**2))(x)

    with jax.checking_leaks():
        jax.jit(around)(X)
        jax.vmap(around)(np.ones((2, 3), "float32"))
    assert len(programs) == 1
