"""Batches of a kind that came before: what only their kind says is not asked again."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_models import batch, classifier

from relaxjax.training import Trainer
from relaxjax.training.batches.admission import Admission


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The batches that were looked at whole."""
    found = list[Any]()
    checked = Admission._checked

    def noted(self: Admission, *given: Any) -> Any:
        found.append(given)
        return checked(self, *given)

    monkeypatch.setattr(Admission, "_checked", noted)
    return found


def from_jax(example: Any) -> Trainer:
    def loss(params: Any, batch: Any) -> Any:
        return jnp.mean((batch["x"] @ params - batch["y"]) ** 2)

    return Trainer.from_jax(loss, jnp.ones(3), optax.sgd(0.1), example)


def pair(seed: int, rows: int = 4) -> dict[str, Any]:
    dice = np.random.default_rng(seed)
    return {"x": dice.normal(size=(rows, 3)).astype("f"), "y": dice.normal(size=rows).astype("f")}


def test_batches_of_one_kind_are_looked_at_once(looks: list[Any]) -> None:
    trainer = classifier()
    for seed in range(3):
        trainer.update(*batch(seed))
    assert len(looks) == 1
    trainer.update(*map(jnp.asarray, batch(3)))
    trainer.evaluate(*batch(3))
    assert len(looks) == 3


def test_of_a_known_kind_the_ids_are_looked_at(looks: list[Any]) -> None:
    trainer, (x, labels) = classifier(), batch(0)
    for _ in range(2):
        trainer.update(x, labels)
    with pytest.raises(ValueError, match=r"scores 3 classes, .* holds 7"):
        trainer.update(x, np.full_like(labels, 7))
    assert len(looks) == 1


def test_each_batch_gives_its_own_arrays(looks: list[Any]) -> None:
    known, anew = from_jax(pair(0)), from_jax(pair(0))
    for seed in range(3):
        anew._admission._last = None
        chex.assert_trees_all_equal(known.update(pair(seed)), anew.update(pair(seed)))
    assert len(looks) == 1 + 3


def test_an_array_that_is_there_twice_is_not_in_the_next_batch(looks: list[Any]) -> None:
    def loss(params: Any, batch: Any) -> Any:
        return jnp.mean((batch[0] * params - batch[1]) ** 2)

    x, y = jnp.ones(3), jnp.zeros(3)
    trainer = Trainer.from_jax(loss, jnp.zeros(3), optax.sgd(0.5), (x, x))
    assert float(trainer.update((x, x))) == 1
    expected = loss(trainer.params, (x, y))
    chex.assert_trees_all_close(trainer.update((x, y)), expected, rtol=1e-6)
    assert len(looks) == 2


def test_what_is_wrong_after_a_good_batch(looks: list[Any]) -> None:
    trainer, good = from_jax(pair(0)), pair(0)
    wrong: dict[str, tuple[type[Exception], Any]] = {
        "masked array": (TypeError, good | {"y": np.ma.masked_array(good["y"], good["y"] > 0)}),
        "is of shape": (ValueError, pair(0, rows=3)),
        "of dtype float32, but .* complex": (TypeError, good | {"x": good["x"] + 1j}),
        r"\['y'\] is missing": (ValueError, {"x": good["x"]}),
        "used it up, by donation": (RuntimeError, gone(jax.tree.map(jnp.asarray, good))),
    }
    for match, (error, given) in wrong.items():
        for _ in range(2):
            trainer.update(good)
            with pytest.raises(error, match=match):
                trainer.update(given)
    trainer.update(good)


def gone(tree: Any) -> Any:
    """Arrays of which the last was deleted after one of its kind was taken."""
    jax.tree.leaves(tree)[-1].delete()
    return tree


def test_wider_numbers_are_converted_in_each_batch(looks: list[Any]) -> None:
    trainer = from_jax(pair(0))
    for seed in range(2):
        trainer.update({name: array.astype("float64") for name, array in pair(seed).items()})
    assert len(looks) == 2


def test_a_mapping_whose_keys_have_no_order() -> None:
    trainer, (x, labels) = classifier(), batch(0)
    rows: dict[Any, Any] = {"x": x, "targets": labels, 1: "a note"}
    chex.assert_trees_all_equal(trainer.update(rows), classifier().update(x, labels))
