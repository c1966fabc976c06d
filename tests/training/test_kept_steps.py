"""Trainers and steps go on with the executable that another process has left on disk."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import chex
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_models import batch, classifier, counting

import relaxjax
from relaxjax import Trainer
from relaxjax.passes.infrastructure.kept_executables import KeptExecutable
from relaxjax.training.step import _STEPS


@pytest.fixture(autouse=True)
def folder(executables_on_disk: Path) -> Path:
    return executables_on_disk


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.executable"))


@pytest.fixture
def unused(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX keeps nothing of its own."""
    monkeypatch.setattr("relaxjax.training.trained_model.use_compilation_cache", lambda: None)


def losses() -> list[float]:
    """Of a trainer whose step no other one shares."""
    _STEPS.clear()
    trainer = classifier()
    return [float(trainer.update(*batch(number))) for number in range(3)]


def check_kept(folder: Path, monkeypatch: pytest.MonkeyPatch, trained: Callable[[], Any]) -> Any:
    """A training keeps its one step, by which the next one goes on alike without a compilation."""
    first = trained()
    assert len(kept(folder)) == 1
    monkeypatch.setattr(KeptExecutable, "_first", lambda *_: pytest.fail("it is compiled"))
    chex.assert_trees_all_equal(trained(), first)
    return first


@pytest.mark.usefixtures("unused")
def test_a_trainer_goes_on_with_the_step_of_another_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_kept(folder, monkeypatch, losses)


@pytest.mark.usefixtures("unused")
def test_as_many_steps_a_call_are_made_in_each_process(folder: Path) -> None:
    """Otherwise the second would round otherwise."""
    counts = []
    for _ in range(2):
        _STEPS.clear()
        trainer = classifier()
        counts.append(trainer.best_steps_per_call(batch(0)))
        trainer.update(*batch(0))
        assert len(kept(folder)) == 1
    assert counts[0] == counts[1] > 1


def loss(params: Any, batch: Any) -> Any:
    return ((batch @ params["w"]) ** 2).mean()


PARAMS = {"w": jnp.ones((3, 2))}
ROWS = jnp.ones((4, 3))


@pytest.mark.usefixtures("unused")
def test_a_trainer_of_a_loss_in_jax_goes_on_with_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained() -> list[float]:
        trainer = Trainer.from_jax(loss, PARAMS, optax.adam(0.1), ROWS)
        return [float(trainer.update(ROWS)) for _ in range(3)]

    first = check_kept(folder, monkeypatch, trained)
    assert first[0] > first[2]


def test_a_step_in_a_loop_of_ones_own_goes_on_with_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained() -> tuple[Any, Any]:
        init, step = relaxjax.train_step(loss, optax.adam(0.1))
        state = init(PARAMS)
        for _ in range(3):
            state, value = step(state, ROWS)
        assert len(step._steps) == 1
        return state.params, value

    first = check_kept(folder, monkeypatch, trained)
    assert float(first[1]) < float(loss(PARAMS, ROWS))


def test_a_step_for_batches_of_any_size_is_not_kept(folder: Path) -> None:
    """It is compiled for each."""
    trainer = counting()
    for rows in (2, 3):
        ones = np.ones((rows, 2), "float32")
        trainer.update([ones], [ones])
    assert not kept(folder)
