"""Events for TensorBoard: what is written, by a stand-in and by tensorboardX itself."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from small_models import batch, classifier

from relaxjax.training import Lines, TensorBoard

DATA = [batch(seed) for seed in range(3)]
QUIET = Lines(lambda line: None)


class Written:
    """A stand-in for tensorboardX's writer, which keeps what it is told."""

    made: ClassVar[list["Written"]] = []

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.scalars: list[tuple[str, float, int]] = []
        self.flushes = 0
        self.closed = False
        self.made.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def flush(self) -> None:
        self.flushes += 1

    def close(self) -> None:
        self.closed = True


def test_steps_and_epochs_are_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake: Any = ModuleType("tensorboardX")
    fake.SummaryWriter = Written
    monkeypatch.setitem(sys.modules, "tensorboardX", fake)
    board = TensorBoard(tmp_path, every=2)
    reports = classifier().fit(DATA, 2, DATA, QUIET, callbacks=[board])
    classifier().fit(DATA, 1, None, QUIET, callbacks=[board])
    written, other = Written.made
    assert written.folder == other.folder == str(tmp_path)
    assert (written.flushes, other.flushes) == (2, 1)
    assert written.closed
    assert other.closed
    steps = [step for name, _, step in written.scalars if name == "loss/step"]
    assert steps == [2, 4, 6]
    epochs = {name: value for name, value, step in written.scalars if step == 6}
    assert epochs["loss/epoch"] == reports[-1].loss
    assert epochs["accuracy"] == reports[-1].accuracy
    assert epochs["eval_loss"] == reports[-1].metrics["eval_loss"]
    assert epochs["steps_per_second"] > 0


def test_tensorboardx_writes_a_file_of_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    classifier().fit(DATA, 1, reporter=QUIET, callbacks=[TensorBoard(tmp_path, every=1)])
    (events,) = tmp_path.glob("events.out.tfevents.*")
    content = events.read_bytes()
    assert b"loss/step" in content
    assert b"loss/epoch" in content
    assert b"steps_per_second" in content


def test_without_tensorboardx_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    match = r'written by tensorboardX, which is not installed: pip install "relaxjax\[tb\]"'
    with pytest.raises(ImportError, match=match):
        TensorBoard(tmp_path)


def test_losses_are_written_every_so_many_steps(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`every` must be a number of steps, .* but it is -1"):
        TensorBoard(tmp_path, -1)
