"""Checkpoints of shards: written beside the training, whole or not there, and what is refused."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_models import batch, classifier

from relaxjax.ir.module import IRModule
from relaxjax.optim import Adam
from relaxjax.script.tensor_file import FileKind, TensorFile, write_tensors
from relaxjax.training import (
    CheckpointError,
    Checkpoints,
    Lines,
    ProcessesError,
    Trainer,
    load_trainer,
)
from relaxjax.training.saving import shards
from relaxjax.training.saving.checkpoint import write_shards
from relaxjax.training.saving.shards import INDEX, Snapshot, SplitArray, with_shards

QUIET = Lines(lambda line: None)
KIND = FileKind("mine", "file", CheckpointError)


def fresh() -> Trainer:
    trainer = classifier(Adam(0.01))
    trainer.xavier_uniform_init_params(seed=2)
    return trainer


def data(epoch: int) -> Any:
    return [batch(10 * epoch + index) for index in range(5)]


def sharded(folder: Path, **options: Any) -> Checkpoints:
    return Checkpoints(folder, sharded=True, **options)


def test_a_training_goes_on_from_shards_bit_for_bit(tmp_path: Path) -> None:
    whole, broken, resumed = fresh(), fresh(), fresh()
    expected = whole.fit(data, 4, reporter=QUIET)
    run = sharded(tmp_path, every=2, keep=2, best="loss")
    broken.fit(data, 2, reporter=QUIET, checkpoints=run)
    assert sorted(os.listdir(tmp_path)) == ["best", "step-000000008", "step-000000010"]
    assert [path.name for path in run.paths()] == ["step-000000008", "step-000000010"]
    one_file = Checkpoints(tmp_path, keep=2)
    resumed.fit(data, 3, reporter=QUIET, checkpoints=one_file, resume=True)
    assert [path.name for path in run.paths()] == ["step-000000010", "step-000000015.safetensors"]
    found = resumed.fit(data, 4, reporter=QUIET, checkpoints=run, resume=True)
    assert [path.name for path in run.paths()] == ["step-000000018", "step-000000020"]
    assert [one.loss for one in found] == [one.loss for one in expected]
    chex.assert_trees_all_equal(resumed.export_params(), whole.export_params())


def test_one_file_is_made_of_shards(tmp_path: Path) -> None:
    trainer = fresh()
    trainer.fit(data, 1, reporter=QUIET, checkpoints=sharded(tmp_path / "run"))
    load_trainer(tmp_path / "run" / "step-000000005").save(tmp_path / "one.safetensors")
    chex.assert_trees_all_equal(
        load_trainer(tmp_path / "one.safetensors").export_params(), trainer.export_params()
    )


def test_random_keys_go_on_where_they_were(tmp_path: Path) -> None:
    def loss(params: Any, mean: Any, batch: Any, key: Any) -> Any:
        value = (batch * params * jax.random.normal(key, ())).sum()
        return value, (mean + value.astype(mean.dtype), None)

    def made(seed: int) -> Trainer:
        given: Any = {"model_state": jnp.bfloat16(seed), "key": jax.random.key(seed)}
        return Trainer.from_jax(loss, jnp.ones(3), optax.sgd(0.1), jnp.ones(3), **given)

    batches = [jnp.full(3, number, "float32") for number in range(4)]
    trainer, other = made(1), made(2)
    trainer.fit(batches, 1, reporter=QUIET, checkpoints=sharded(tmp_path))
    other.load(tmp_path / "step-000000004")
    assert float(other.update(batches[2])) == float(trainer.update(batches[2]))


# While it is written


def held(monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]) -> None:
    """Let something be done before a part is written."""
    write = write_tensors

    def slowly(*args: Any) -> None:
        work()
        write(*args)

    monkeypatch.setattr(shards, "write_tensors", slowly)


def test_the_training_goes_on_while_a_checkpoint_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write, wrote_before_step_8 = Event(), list[bool]()
    held(monkeypatch, lambda: chex.assert_equal(may_write.wait(60), True))

    def watched(epoch: int) -> Any:
        for step, pair in enumerate(data(epoch) * 2):
            if step == 8:
                wrote_before_step_8.append((tmp_path / "step-000000005" / INDEX).exists())
                may_write.set()
            yield pair

    whole, trainer = fresh(), fresh()
    whole.fit(data, 1, reporter=QUIET)
    trainer.fit(watched, 1, reporter=QUIET, checkpoints=sharded(tmp_path, every=5))
    assert wrote_before_step_8 == [False]
    saved = load_trainer(tmp_path / "step-000000005")  # of then, and not of when it was written
    chex.assert_trees_all_equal(saved.export_params(), whole.export_params())


@pytest.mark.parametrize("step", [3, 10])
def test_an_error_in_writing_ends_the_training_at_the_next_step(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the last checkpoint, behind which there is no step, is raised at the end."""
    made, run = [0], sharded(tmp_path, every=step)

    def no_space() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    held(monkeypatch, no_space)

    def counted(epoch: int) -> Any:
        for pair in data(epoch) * 2:
            run._writing.settle()
            made[0] += 1
            yield pair

    with pytest.raises(OSError, match="No space left"):
        fresh().fit(counted, 1, reporter=QUIET, checkpoints=run, steps_per_call=1)
    assert made == [min(step + 1, 10)]
    assert not run.paths()


class KilledError(BaseException):
    """Nothing of the process is done from here on."""


def killed_after(count: int, patch: pytest.MonkeyPatch) -> None:
    """Let all that changes the disk fail, after so many times."""
    done = [0]

    def counting(work: Any) -> Any:
        def counted(*args: Any, **options: Any) -> Any:
            done[0] += 1
            if done[0] > count:
                raise KilledError
            return work(*args, **options)

        return counted

    for owner, name in (
        *((os, name) for name in ("replace", "fsync")),
        *((Path, name) for name in ("mkdir", "unlink", "open")),
        (shutil, "rmtree"),
    ):
        patch.setattr(owner, name, counting(getattr(owner, name)))


def test_a_kill_at_any_moment_of_a_write_leaves_whole_checkpoints(tmp_path: Path) -> None:
    trainer, other, states, snapshots = fresh(), fresh(), list[Any](), list[Snapshot]()
    for _ in range(2):
        states.append(trainer.export_params())
        snapshots.append(trainer.snapshot())
        trainer.update(*batch(7))

    def which(path: Path) -> int:
        other.load(path)
        is_first = np.all(other.export_params()["w0"] == states[0]["w0"])
        chex.assert_trees_all_equal(other.export_params(), states[0 if is_first else 1])
        return 0 if is_first else 1

    run, seen = sharded(tmp_path, keep=1), set[Any]()
    old, new, best = (tmp_path / name for name in ("step-000000005", "step-000000006", "best"))
    for count in range(60):
        shutil.rmtree(tmp_path)
        for path in (old, best):
            write_shards(path, snapshots[0])
        try:
            with pytest.MonkeyPatch.context() as patch:
                killed_after(count, patch)
                for path in (best, new):
                    write_shards(path, snapshots[1])
                run._remove_old()
        except KilledError:
            seen.add((*map(which, run.paths()), which(best)))
        else:
            break
        run._remove_abandoned()
        assert set(tmp_path.iterdir()) == {best, *run.paths()}
    else:
        raise AssertionError("the write did not come to its end")
    assert seen == {(0, 0), (0, 1), (0, 1, 1), (1, 1)}
    assert run.paths() == [new]
    assert all(len(list(path.iterdir())) == 2 for path in (new, best))


# Parts of several processes


def test_any_region_of_an_array_is_read_of_its_shards(tmp_path: Path) -> None:
    """Also of a dtype that safetensors does not have."""
    whole = np.arange(6 * 4).reshape(6, 4).astype("float8_e4m3fn")
    pieces = [(0, 0, 2, 4), (2, 0, 4, 2), (2, 2, 4, 2)]
    listed = []
    for number, (row, column, rows, columns) in enumerate(pieces):
        piece = slice(row, row + rows), slice(column, column + columns)
        write_tensors(tmp_path / str(number), KIND, {"x": whole[piece]}, {})
        listed.append((piece, TensorFile(tmp_path / str(number), KIND), "x"))
    array = SplitArray(whole.dtype, whole.shape, tuple(listed))
    np.testing.assert_array_equal(array.read(), whole)
    regions: list[Any] = [np.s_[1:5, 1:3], np.s_[:, 3:], np.s_[4:5, :1], np.s_[2:2, :]]
    for region in regions:
        np.testing.assert_array_equal(array.read(region), whole[region])


def written(folder: Path) -> Path:
    arrays = {"params/w": (jnp.arange(6.0), np.dtype("float32"))}
    Snapshot.of(IRModule(), {}, arrays).write(folder, KIND)
    return folder / INDEX


class Other:
    """A conversation with a second process, which says this."""

    def __init__(self, *said: Any) -> None:
        self._said = list(said)

    def told(self, subject: str, own: str, seconds: float) -> list[str]:
        return [own, json.dumps(self._said.pop(0))]


def test_what_fails_in_one_process_is_an_error_in_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "_saving", Other(["", "no space"]))
    match = "^process 1 could not write the parts of `step-000000005`: no space$"
    with pytest.raises(ProcessesError, match=match):
        written(tmp_path / "step-000000005")
    assert not (tmp_path / "step-000000005" / INDEX).exists()


def test_a_folder_that_is_not_shared_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = ["part-1-abcd.safetensors", None]
    monkeypatch.setattr(shards, "_saving", Other(elsewhere, elsewhere))
    match = r"what process 1 wrote into `.*` is not there: all processes write into one folder"
    with pytest.raises(FileNotFoundError, match=match):
        written(tmp_path / "run")


# What is refused


def stored(index: Path) -> Any:
    file = TensorFile(index, KIND)
    return with_shards(index, {name: file.read(name) for name in file.names}, KIND)


def test_shards_are_read_where_they_were_written(tmp_path: Path) -> None:
    moved = written(tmp_path / "run").parent.rename(tmp_path / "moved")
    np.testing.assert_array_equal(stored(moved / INDEX)["params/w"].read(), np.arange(6.0))


def test_a_part_that_is_gone_is_named(tmp_path: Path) -> None:
    index = written(tmp_path)
    (part,) = tmp_path.glob("part-0-*")
    part.unlink()
    match = rf"lacks the file `{part.name}`, which a process wrote beside it: move the whole folder"
    with pytest.raises(CheckpointError, match=match):
        stored(index)


@pytest.mark.parametrize("shard", ["params/w@3", "params/v@0", "params/w@x", "params/w@0,0", "w"])
def test_parts_that_do_not_hold_all_are_refused(shard: str, tmp_path: Path) -> None:
    index = written(tmp_path)
    (part,) = tmp_path.glob("part-0-*")
    write_tensors(part, FileKind("relaxjax shards 1", "", ValueError), {shard: np.zeros(3)}, {})
    with pytest.raises(CheckpointError, match="is damaged: "):
        stored(index)


@pytest.mark.parametrize(
    "table",
    [b"{", b"[]", b'{"parts": ["../x"], "arrays": {}}', b'{"parts": [], "arrays": {"a": [1]}}'],
)
def test_a_damaged_table_is_refused(table: bytes, tmp_path: Path) -> None:
    found = {"shards": np.frombuffer(table, np.uint8)}
    with pytest.raises(CheckpointError, match="is damaged: its table of shards is wrong"):
        with_shards(tmp_path / INDEX, found, KIND)


def test_a_folder_without_an_index_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is a folder: give a checkpoint of a trainer that"):
        fresh().load(tmp_path)


def test_sharded_is_yes_or_no(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="`sharded` must be True or False"):
        Checkpoints(tmp_path, sharded="yes")  # type: ignore[arg-type]
