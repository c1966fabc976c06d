"""Files of trainings whose loss asks Python: they hold no function, and find none by its name."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from relaxjax import Trainer
from relaxjax.training import Checkpoints, Lines, load_trainer

QUIET = Lines(lambda line: None)
W, X = jnp.ones((3, 2)), np.ones((4, 3), "float32")


def asking(factor: float) -> Trainer:
    def loss(w: Any, x: Any) -> Any:
        scaled = jax.pure_callback(lambda x: np.float32(factor) * x, jax.typeof(x), x)
        return jnp.mean((scaled @ w) ** 2)

    return Trainer.from_jax(loss, W, optax.sgd(0.1), X)


def test_a_file_takes_no_function_of_another_program(tmp_path: Path) -> None:
    """What is written first and what is read later may have functions of one name."""
    asking(2.0).save(tmp_path / "file")
    other = asking(3.0)
    loaded = load_trainer(tmp_path / "file")
    with pytest.raises(
        KeyError, match=r"no file holds it: make .* by Trainer\.from_jax, whose `load`"
    ):
        loaded.update([X], [])
    again = asking(2.0)
    again.load(tmp_path / "file")
    assert float(again.update(X)) == pytest.approx(36)
    assert float(other.update(X)) == pytest.approx(81)


def test_a_training_goes_on_however_many_programs_were_made_before(tmp_path: Path) -> None:
    """Each has a name of its own for the function, as long as the others live."""
    run, first = Checkpoints(tmp_path), asking(2.0)
    first.fit([X], 1, reporter=QUIET, checkpoints=run)
    second = asking(2.0)
    second.fit([X], 2, reporter=QUIET, checkpoints=run, resume=True)
    first.fit([X], 1, reporter=QUIET)
    assert np.array_equal(first.params, second.params)
