"""A training as events for TensorBoard."""

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from .callbacks import Callback
from .counts import check_every
from .progress import EpochReport


class TensorBoard(Callback):
    """Writes each epoch's numbers, and every so many steps a loss, into a folder of events.

    tensorboardX writes them: `pip install "relaxjax[tb]"`. TensorBoard shows them:
    `tensorboard --logdir FOLDER`.
    """

    looks_at_loss_only = True

    def __init__(self, folder: str | os.PathLike[str], every: int = 100) -> None:
        check_every(every)
        self.folder = os.fspath(folder)
        self.every = every
        self._writer_class = _writer_class()
        self._open: Any = None

    @property
    def writer(self) -> Any:
        """The writer of this training; each has a file of its own in the folder."""
        if self._open is None:
            self._open = self._writer_class(self.folder)
        return self._open

    def step(self, step: int, loss: Any) -> None:
        if self.every and step % self.every == 0:
            self.writer.add_scalar("loss/step", float(loss), step)

    def epoch(self, reports: Sequence[EpochReport]) -> None:
        last = reports[-1]
        steps = sum(report.steps for report in reports)
        speed = last.steps / max(last.seconds, 1e-9)
        numbers = {"loss/epoch": last.loss, "steps_per_second": speed}
        for name, value in {**numbers, **last.metrics}.items():
            self.writer.add_scalar(name, value, steps)
        self.writer.flush()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def _writer_class() -> Any:
    try:
        return import_module("tensorboardX").SummaryWriter
    except ImportError as error:
        raise ImportError(
            "events for TensorBoard are written by tensorboardX, which is not installed: "
            'pip install "relaxjax[tb]"'
        ) from error
