"""Saving and loading: everything comes back, and whatever does not fit is refused."""

import os
from pathlib import Path
from typing import Any

import chex
import numpy as np
import optax
import pytest
import safetensors.numpy
from small_models import batch, classifier, counting

from relaxjax.optim import SGD, Adam, from_optax
from relaxjax.training import CheckpointError, Trainer
from relaxjax.training.saving import checkpoint


def trained(optimizer: Adam | SGD | None = None) -> Trainer:
    trainer = classifier(optimizer or Adam(0.01))
    trainer.xavier_uniform_init_params()
    for seed in range(3):
        trainer.update(*batch(seed))
    return trainer


def test_training_goes_on_from_a_checkpoint_bit_for_bit(tmp_path: Path) -> None:
    trainer, other = trained(), classifier(Adam(0.01))
    trainer.save(tmp_path / "model.safetensors")
    other.load(tmp_path / "model.safetensors")
    chex.assert_trees_all_equal(trainer.export_params(), other.export_params())
    for seed in range(3, 6):
        assert float(trainer.update(*batch(seed))) == float(other.update(*batch(seed)))
    chex.assert_trees_all_equal(trainer.export_params(), other.export_params())


def test_states_are_part_of_a_checkpoint(tmp_path: Path) -> None:
    trainer, other = counting(), counting()
    trainer.load_states([np.float32(7)])
    trainer.save(tmp_path / "model")
    other.load(tmp_path / "model")
    assert other.export_states()["calls"] == 7


def test_a_checkpoint_holds_the_dtypes_of_the_program_and_the_program(tmp_path: Path) -> None:
    """The step counter is int64 in the program, whatever width JAX runs it in."""
    path = tmp_path / "model.safetensors"
    trainer = trained()
    trainer.save(path)
    arrays = safetensors.numpy.load_file(path)
    assert arrays["optimizer/0"].dtype == "int64"
    assert arrays["optimizer/0"] == 3
    assert arrays["params/w0"].dtype == "float32"
    assert checkpoint.module(path).attrs["param_num"] == 4


def test_saving_replaces_the_old_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_text("old")
    trained().save(path)
    assert os.listdir(tmp_path) == ["model.safetensors"]
    trained().load(path)


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.safetensors"
    trainer = trained()
    trainer.save(path)
    old = path.read_bytes()
    trainer.update(*batch(9))

    def full(handle: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        trainer.save(path)
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_saving_before_initialisation_is_an_error(tmp_path: Path) -> None:
    trainer = classifier(zero_init_param_state=False)
    with pytest.raises(RuntimeError, match=r"0-th parameter is not initialized before saving"):
        trainer.save(tmp_path / "model")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_a_truncated_file_is_refused(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "model.safetensors"
    trainer = trained()
    trainer.save(path)
    path.write_bytes(path.read_bytes()[:kept])
    before = trainer.export_params()
    with pytest.raises(CheckpointError, match=r"model.safetensors` is damaged or no safetensors"):
        trainer.load(path)
    chex.assert_trees_all_equal(trainer.export_params(), before)


def test_a_flipped_bit_in_a_parameter_is_refused(tmp_path: Path) -> None:
    """The number is as good as any other: only its checksum tells."""
    path = tmp_path / "model.safetensors"
    trainer = trained()
    trainer.save(path)
    before = trainer.export_params()
    content = bytearray(path.read_bytes())
    content[content.rindex(np.asarray(before["w0"]).tobytes()) + 2] ^= 16
    path.write_bytes(content)
    for optimizer in (True, False):
        with pytest.raises(CheckpointError, match="what it holds of `params/w0` is not what was w"):
            trainer.load(path, optimizer=optimizer)
    chex.assert_trees_all_equal(trainer.export_params(), before)


def test_a_foreign_safetensors_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    safetensors.numpy.save_file({"w0": np.zeros((5, 7), "float32")}, path)
    match = r"weights.safetensors` is no checkpoint of a trainer: its format is None, expected"
    with pytest.raises(CheckpointError, match=match):
        classifier().load(path)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        classifier().load(tmp_path / "nowhere")


def test_a_file_for_another_model_is_refused_with_names_and_shapes(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    trained(SGD(0.1)).save(path)
    arrays = safetensors.numpy.load_file(path)
    arrays["params/w0"] = np.zeros((5, 9), "float32")
    arrays["params/b0"] = np.zeros(7, "float16")
    arrays["params/w9"] = arrays.pop("params/w1")
    safetensors.numpy.save_file(arrays, path, {"format": checkpoint.FORMAT, "script": ""})
    trainer = trained(SGD(0.1))
    before = trainer.export_params()
    with pytest.raises(CheckpointError) as caught:
        trainer.load(path)
    has = "the program has float32 of shape"
    assert str(caught.value).splitlines()[1:] == [
        f"  parameter `w0`: {has} (5, 7), the file float32 of shape (5, 9)",
        f"  parameter `b0`: {has} (7,), the file float16 of shape (7,)",
        f"  parameter `w1`: {has} (7, 3), the file lacks it",
        "  `params/w9`: the program has no such array",
    ]
    chex.assert_trees_all_equal(trainer.export_params(), before)


@pytest.mark.parametrize("notes", [{"epoch": 3}, "three"])
def test_notes_are_texts_by_name(notes: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"`notes` must be a mapping from names to texts, but it"):
        trained().save(tmp_path / "model.safetensors", notes)
    assert not list(tmp_path.iterdir())


def test_a_file_of_another_optimizer_is_refused(tmp_path: Path) -> None:
    trained(SGD(0.1)).save(tmp_path / "model")
    match = (
        r"model` holds this model, but was written with another optimizer, or with other master "
        r"weights or another `loss_scale`: give those that it was written with, or load the model "
        r"alone by trainer\.load\(path, optimizer=False\)\n"
        r"  optimizer state `1`: .* the file lacks it\n  and 9 more of its states$"
    )
    with pytest.raises(CheckpointError, match=match):
        classifier(Adam(0.1)).load(tmp_path / "model")


def test_what_is_of_neither_model_nor_optimizer_is_not_blamed_on_one(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    trained(SGD(0.1)).save(path)
    arrays = safetensors.numpy.load_file(path)
    arrays["other/w0"] = np.zeros(3, "float32")
    safetensors.numpy.save_file(arrays, path, {"format": checkpoint.FORMAT, "script": ""})
    match = (
        r"not written for this model and optimizer:\n  `other/w0`: the program has no such array$"
    )
    with pytest.raises(CheckpointError, match=match):
        trained(SGD(0.1)).load(path)


def test_a_model_may_be_taken_over_without_the_state_of_its_optimizer(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    old, new = trained(), classifier(SGD(0.05))
    old.save(path)
    new.load(path, optimizer=False)
    chex.assert_trees_all_equal(new.export_params(), old.export_params())
    with pytest.raises(CheckpointError, match=r"parameter `w`: the program has float32 of shape"):
        counting().load(path, optimizer=False)


def test_states_of_another_optimizer_are_refused_though_they_have_its_types(tmp_path: Path) -> None:
    """A momentum may be negative, a mean of squares not; hyperparameters may change."""
    momentum, squares = optax.trace(0.9), optax.scale_by_rms(0.9)
    rates = [optax.scale(-rate) for rate in (0.1, 0.2)]
    first = classifier(from_optax(optax.chain(momentum, rates[0])))
    first.save(tmp_path / "model")
    classifier(from_optax(optax.chain(momentum, rates[1]), "slow")).load(tmp_path / "model")
    other = classifier(from_optax(optax.chain(squares, rates[0])))
    match = r"another optimizer, .*\n  optimizer states: the program has nu_b0, the file trace_b0$"
    with pytest.raises(CheckpointError, match=match):
        other.load(tmp_path / "model")
