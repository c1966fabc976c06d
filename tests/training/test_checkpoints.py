"""The checkpoints of a training: written, kept, resumed from, and what is refused."""

import json
import os
from pathlib import Path
from typing import Any

import chex
import numpy as np
import optax
import pytest
from small_models import batch, classifier

from relaxjax.optim import Adam, from_optax
from relaxjax.training import (
    CheckpointError,
    Checkpoints,
    EarlyStopping,
    EpochReport,
    Lines,
    ProcessesError,
    Trainer,
)
from relaxjax.training.checkpoints import Position
from relaxjax.training.devices.processes import Conversation

QUIET = Lines(lambda line: None)


def data(epoch: int) -> Any:
    return [batch(10 * epoch + index) for index in range(5)]


def fresh() -> Trainer:
    trainer = classifier(Adam(0.01))
    trainer.xavier_uniform_init_params(seed=2)
    return trainer


def names(folder: Path) -> list[str]:
    return sorted(name.removesuffix(".safetensors") for name in os.listdir(folder))


class BrokenOffError(Exception):
    """Raised in the middle of a training."""


def interrupted_at(step: int) -> Any:
    """The data of a training that breaks off before the given step, counted from 0."""

    def broken(epoch: int) -> Any:
        for index, pair in enumerate(data(epoch)):
            if 5 * epoch + index == step:
                raise BrokenOffError
            yield pair

    return broken


def test_epochs_are_saved_and_the_last_ones_kept(tmp_path: Path) -> None:
    run = Checkpoints(tmp_path / "deep" / "run", keep=2)
    fresh().fit(data, 4, reporter=QUIET, checkpoints=run)
    assert names(tmp_path / "deep" / "run") == ["step-000000015", "step-000000020"]
    assert [path.stem for path in run.paths()] == names(tmp_path / "deep" / "run")


@pytest.mark.parametrize("steps_per_call", [1, 2, "auto"])
def test_every_so_many_steps(steps_per_call: Any, tmp_path: Path) -> None:
    """A call of several steps ends where a checkpoint is due."""
    run = Checkpoints(tmp_path, every=3, keep=9)
    fresh().fit(data, 2, reporter=QUIET, checkpoints=run, steps_per_call=steps_per_call)
    assert names(tmp_path) == [f"step-{n:09}" for n in (3, 5, 6, 9, 10)]


def test_the_best_epoch_is_kept(tmp_path: Path) -> None:
    run = Checkpoints(tmp_path, keep=1, best="wanted", direction="highest")
    worth = iter([0.1, 0.9, 0.5])
    trainer = fresh()
    kept: list[Any] = []

    def wanted(predictions: Any, targets: Any) -> Any:
        kept.append(trainer.export_params())
        return np.float32(next(worth))

    trainer.fit(data, 3, [batch(0)], QUIET, checkpoints=run, metrics=[wanted])
    assert names(tmp_path) == ["best", "step-000000015"]
    best = fresh()
    best.load(run.best_path)
    chex.assert_trees_all_equal(best.export_params(), kept[1])


def test_the_best_epoch_may_be_that_of_the_lowest_loss_on_evaluation_data(tmp_path: Path) -> None:
    run = Checkpoints(tmp_path, keep=1, best="eval_loss")
    reports = fresh().fit(data, 4, [batch(0)], QUIET, checkpoints=run)
    losses = [report.metrics["eval_loss"] for report in reports]
    best = fresh()
    best.load(run.best_path)
    assert float(np.asarray(best.evaluate(*batch(0))[0])) == pytest.approx(min(losses))


def test_the_best_epoch_is_there_before_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is killed between the two makes the epoch again, and so its best one."""
    run, save = Checkpoints(tmp_path, best="loss"), Trainer.save

    def killed(self: Trainer, path: Path, notes: Any) -> None:
        if path.name.startswith("step"):
            raise BrokenOffError
        save(self, path, notes)

    monkeypatch.setattr(Trainer, "save", killed)
    with pytest.raises(BrokenOffError):
        fresh().fit(data, 2, reporter=QUIET, checkpoints=run)
    assert names(tmp_path) == ["best"]


def test_a_resumed_training_may_go_by_what_was_not_measured_before(tmp_path: Path) -> None:
    fresh().fit(data, 3, reporter=QUIET, checkpoints=Checkpoints(tmp_path))
    run, trainer = Checkpoints(tmp_path, best="accuracy"), fresh()
    stopping: Any = [EarlyStopping("accuracy", patience=1)]
    reports = trainer.fit(
        data, 9, [batch(0)], QUIET, checkpoints=run, resume=True, callbacks=stopping
    )
    found = [report.accuracy for report in reports]
    assert found[:3] == [None] * 3
    assert 5 <= len(found) < 9
    assert "best" in names(tmp_path)


def test_a_resumed_training_whose_data_became_less_is_an_error(tmp_path: Path) -> None:
    run = Checkpoints(tmp_path, every=2)
    with pytest.raises(BrokenOffError):
        fresh().fit(interrupted_at(9), 3, reporter=QUIET, checkpoints=run)
    match = "written after 3 steps of an epoch for which `data` has only 2 batches now: go on with"

    def less(epoch: int) -> Any:
        return iter(data(epoch)[:2])

    with pytest.raises(ValueError, match=match):
        fresh().fit(less, 3, reporter=QUIET, checkpoints=run, resume=True)


@pytest.mark.parametrize("count", [4, 6])
@pytest.mark.parametrize("asked", [False, True])
def test_a_training_is_not_resumed_on_other_data(count: int, asked: bool, tmp_path: Path) -> None:
    run, trainer = Checkpoints(tmp_path), fresh()
    trainer.fit(data, 2, reporter=QUIET, checkpoints=run)
    other = [batch(seed) for seed in range(count)]
    given: Any = (lambda epoch: other) if asked else other
    match = f"epoch 2 of the training to resume had 5 batches, but `data` has {count} for it now"
    with pytest.raises(ValueError, match=match):
        trainer.fit(given, 3, reporter=QUIET, checkpoints=run, resume=True)
    assert len(trainer.fit(given, 2, reporter=QUIET, checkpoints=run, resume=True)) == 2


def test_epochs_of_several_lengths_may_be_resumed(tmp_path: Path) -> None:
    def growing(epoch: int) -> Any:
        return [batch(seed) for seed in range(epoch + 1)]

    run = Checkpoints(tmp_path)
    fresh().fit(growing, 2, reporter=QUIET, checkpoints=run)
    reports = fresh().fit(growing, 3, reporter=QUIET, checkpoints=run, resume=True)
    assert [report.steps for report in reports] == [1, 2, 3]


@pytest.mark.parametrize("step", [1, 5, 7, 14])
@pytest.mark.parametrize("steps_per_call", [1, 2, "auto"])
def test_a_resumed_training_is_the_same_bit_for_bit(
    step: int, steps_per_call: Any, tmp_path: Path
) -> None:
    """Though it makes other calls than a training without checkpoints."""
    whole, broken, resumed = fresh(), fresh(), fresh()
    expected = whole.fit(data, 3, reporter=QUIET, steps_per_call=steps_per_call)
    run = Checkpoints(tmp_path, every=2)
    with pytest.raises(BrokenOffError):
        broken.fit(
            interrupted_at(step), 3, reporter=QUIET, checkpoints=run, steps_per_call=steps_per_call
        )
    found = resumed.fit(
        data, 3, reporter=QUIET, checkpoints=run, resume=True, steps_per_call=steps_per_call
    )
    chex.assert_trees_all_equal(resumed.export_params(), whole.export_params())
    assert [(r.epoch, r.steps) for r in found] == [(r.epoch, r.steps) for r in expected]
    np.testing.assert_allclose([r.loss for r in found], [r.loss for r in expected], rtol=1e-6)


def test_a_schedule_clipping_and_accumulation_go_on_where_they_were(tmp_path: Path) -> None:
    """They are part of the optimizer's state, whatever optax makes of it."""
    schedule = optax.cosine_decay_schedule(0.1, 15)
    tx = optax.MultiSteps(optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule)), 2)
    trainers = [classifier(from_optax(tx)) for _ in range(3)]
    for trainer in trainers:
        trainer.xavier_uniform_init_params(seed=2)
    whole, broken, resumed = trainers
    whole.fit(data, 3, reporter=QUIET)
    run = Checkpoints(tmp_path, every=1)
    with pytest.raises(BrokenOffError):
        broken.fit(interrupted_at(7), 3, reporter=QUIET, checkpoints=run)
    resumed.fit(data, 3, reporter=QUIET, checkpoints=run, resume=True)
    chex.assert_trees_all_equal(resumed.export_params(), whole.export_params())


def test_a_finished_training_is_not_trained_further(tmp_path: Path) -> None:
    run, trainer, other = Checkpoints(tmp_path), fresh(), fresh()
    trainer.fit(data, 2, reporter=QUIET, checkpoints=run)
    reports = other.fit(data, 2, reporter=QUIET, checkpoints=run, resume=True)
    assert len(reports) == 2
    chex.assert_trees_all_equal(other.export_params(), trainer.export_params())
    assert len(other.fit(data, 3, reporter=QUIET, checkpoints=run, resume=True)) == 3


def test_what_a_killed_training_left_half_written_is_removed(tmp_path: Path) -> None:
    half = tmp_path / ".step-000000003.safetensors.1234abcd.part"
    half.write_bytes(b"half")
    fresh().fit(data, 1, reporter=QUIET, checkpoints=Checkpoints(tmp_path), resume=True)
    assert names(tmp_path) == ["step-000000005"]


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    for name in ("step-1.safetensors.old", "notes.txt", "step-final.safetensors"):
        (tmp_path / name).write_text("mine")
    fresh().fit(data, 3, reporter=QUIET, checkpoints=Checkpoints(tmp_path, keep=1))
    assert len(os.listdir(tmp_path)) == 4


def test_positions_are_written_and_read() -> None:
    report = EpochReport(1, 3, 0.5, {"accuracy": 0.25}, 5, 0.1)
    position = Position((report,), 3, 1.5)
    assert Position.from_json(position.to_json()) == position
    assert position.total_steps == 8


# What they refuse


def test_a_new_training_does_not_mix_with_an_old_one(tmp_path: Path) -> None:
    run = Checkpoints(tmp_path)
    fresh().fit(data, 1, reporter=QUIET, checkpoints=run)
    match = "holds 1 checkpoints of a training: go on with it by"
    with pytest.raises(FileExistsError, match=match):
        fresh().fit(data, 1, reporter=QUIET, checkpoints=run)


def test_another_training_moves_on_while_this_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh().fit(data, 1, reporter=QUIET, checkpoints=Checkpoints(tmp_path))
    listed = Checkpoints.paths

    def old_ones(run: Checkpoints) -> list[Path]:
        found = listed(run)
        for path in found:
            path.unlink(missing_ok=True)  # as a training does that writes newer ones
        return found

    monkeypatch.setattr(Checkpoints, "paths", old_ones)
    match = (
        r"^another training has removed `.*step-000000005.safetensors` since this one began: give "
        "each a folder of its own, or go on with that one once it has ended$"
    )
    with pytest.raises(FileExistsError, match=match):
        fresh().fit(data, 2, reporter=QUIET, checkpoints=Checkpoints(tmp_path), resume=True)


def test_the_best_epoch_of_an_old_training_stays(tmp_path: Path) -> None:
    run = Checkpoints(tmp_path, best="loss")
    run.best_path.write_text("of an old training")
    match = r"best.safetensors` is the best epoch of a training: move it away, or give another"
    with pytest.raises(FileExistsError, match=match):
        fresh().fit(data, 1, reporter=QUIET, checkpoints=run)
    assert run.best_path.read_text() == "of an old training"


@pytest.mark.parametrize("resume", [False, True])
def test_trainings_that_began_in_one_folder_do_not_mix(tmp_path: Path, resume: bool) -> None:
    """Neither had a checkpoint in it, or both go on from one: the first to write another stays."""
    if resume:
        fresh().fit(data, 1, reporter=QUIET, checkpoints=Checkpoints(tmp_path))
    begun, other = fresh(), fresh()

    def with_another(epoch: int) -> Any:
        run = Checkpoints(tmp_path, best="loss")
        other.fit(data, 2, reporter=QUIET, checkpoints=run, resume=resume)
        return data(epoch)

    match = (
        r"another training has written `.*step-000000010.safetensors` since this one began: give"
    )
    run = Checkpoints(tmp_path, best="loss")
    with pytest.raises(FileExistsError, match=match):
        begun.fit(with_another, 2, reporter=QUIET, checkpoints=run, resume=resume)
    resumed = fresh()
    resumed.load(run.best_path)
    chex.assert_trees_all_equal(resumed.export_params(), other.export_params())


def test_resuming_needs_checkpoints() -> None:
    match = "resume=True needs to know from where: give `checkpoints`"
    with pytest.raises(ValueError, match=match):
        fresh().fit(data, 1, reporter=QUIET, resume=True)


@pytest.mark.parametrize("damage", ["cut off", "foreign", "of another optimizer"])
def test_a_file_that_does_not_fit_is_an_error_and_stays(damage: str, tmp_path: Path) -> None:
    run = Checkpoints(tmp_path)
    fresh().fit(data, 1, reporter=QUIET, checkpoints=run)
    (path,) = run.paths()
    if damage == "of another optimizer":
        classifier().save(path, {"position": Position().to_json()})
    else:
        path.write_bytes(path.read_bytes()[:-9] if damage == "cut off" else b"no such file")
    before = path.read_bytes()
    trainer = fresh()
    params = trainer.export_params()
    match = r"damaged|was written with another optimizer, or"
    with pytest.raises(CheckpointError, match=match):
        trainer.fit(data, 2, reporter=QUIET, checkpoints=run, resume=True)
    assert path.read_bytes() == before
    chex.assert_trees_all_equal(trainer.export_params(), params)


@pytest.mark.parametrize(
    ("is_flipped", "sharded"),
    [(False, False), (True, False), (True, True)],
    ids=["cut off", "a bit flipped", "a bit of a part flipped"],
)
def test_the_checkpoint_before_a_damaged_one_is_named(
    is_flipped: bool, sharded: bool, tmp_path: Path
) -> None:
    run, trainer = Checkpoints(tmp_path, sharded=sharded), fresh()
    trainer.fit(data, 2, reporter=QUIET, checkpoints=run)
    before, last = run.paths()
    (path,) = last.glob("part-*") if sharded else [last]
    content = path.read_bytes()
    flipped = content[:-2] + bytes([content[-2] ^ 1]) + content[-1:]
    path.write_bytes(flipped if is_flipped else content[:99])
    params = trainer.export_params()
    by_checksum = "what it holds of `.*/.*` is not what was written, by its checksum: take another"
    found = f"`{path}` is damaged: {by_checksum}" if is_flipped else "damaged or no"
    match = f"{found} .*; to go on from `{before}`, move `{last}` away$"
    with pytest.raises(CheckpointError, match=match):
        trainer.fit(data, 3, reporter=QUIET, checkpoints=run, resume=True)
    chex.assert_trees_all_equal(trainer.export_params(), params)
    last.rename(tmp_path / "damaged")
    assert len(trainer.fit(data, 3, reporter=QUIET, checkpoints=run, resume=True)) == 3
    assert before.exists()


def test_a_checkpoint_that_another_process_cannot_load_is_an_error_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It found a fault in its own part, and this one would wait for it in the first step."""
    fresh().fit(data, 1, reporter=QUIET, checkpoints=Checkpoints(tmp_path))

    def told(self: Conversation, subject: str, own: str, seconds: float = 1) -> list[str]:
        other = json.dumps(["", "`part-1` is damaged"])
        return [own, other] if subject == "the last checkpoint" else [own]

    monkeypatch.setattr(Conversation, "told", told)
    match = "^process 1 could not load the last checkpoint: `part-1` is damaged$"
    with pytest.raises(ProcessesError, match=match):
        fresh().fit(data, 2, reporter=QUIET, checkpoints=Checkpoints(tmp_path), resume=True)


@pytest.mark.parametrize("position", [None, "{", '{"reports": [{}]}', "[]", '{"reports": 1}'])
def test_a_position_that_cannot_be_read_is_an_error(tmp_path: Path, position: str | None) -> None:
    said = {} if position is None else {"position": position}
    fresh().save(tmp_path / "step-000000005.safetensors", said)
    match = "does not say where" if position is None else "damaged: it says no more where"
    with pytest.raises(CheckpointError, match=f"{match} in its data"):
        fresh().fit(data, 2, reporter=QUIET, checkpoints=Checkpoints(tmp_path), resume=True)


def test_a_folder_that_is_a_file_and_a_file_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        for resume in (False, True):
            with pytest.raises(FileExistsError, match="file` is a file: give a folder of its own"):
                fresh().fit(data, 2, reporter=QUIET, checkpoints=Checkpoints(folder), resume=resume)
    with pytest.raises(CheckpointError, match=r"` is a folder: give a .* that lies in it"):
        fresh().load(tmp_path)


def test_a_link_to_nothing_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("gone")
    for folder in (tmp_path / "link", tmp_path / "link" / "run"):
        match = "link` is a link to `gone`, which is not there: give a folder of its own"
        with pytest.raises(FileExistsError, match=match):
            fresh().fit(data, 2, reporter=QUIET, checkpoints=Checkpoints(folder))
    (tmp_path / "gone").mkdir()
    fresh().fit(data, 1, reporter=QUIET, checkpoints=Checkpoints(tmp_path / "link"))
    assert names(tmp_path / "gone") == ["step-000000005"]


@pytest.mark.parametrize(("option", "value"), [("every", 0), ("every", 2.5), ("keep", None)])
def test_counts_are_at_least_one(option: str, value: Any, tmp_path: Path) -> None:
    match = f"`{option}` of Checkpoints must be an integer of at least 1, but it is {value}"
    with pytest.raises(ValueError, match=match):
        Checkpoints(tmp_path, **{option: value})
