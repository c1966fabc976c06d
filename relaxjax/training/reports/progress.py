"""What a person sees while a model trains."""

import importlib.util
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from .epoch_report import EpochReport, shown_metric
from .notebook import LiveCurve, in_notebook


class Reporter(Protocol):
    """Someone who is told how the training goes, and shows it.

    One for whom `shows_steps` is False is not told of single steps, whose losses stay on the
    device then.
    """

    def start(self, epoch: int, epochs: int, steps: int | None) -> None: ...

    def step(self, loss: Any) -> None: ...

    def end(self, report: EpochReport) -> None: ...


class Lines:
    """One line an epoch; a subclass that shows steps too says `shows_steps = True`."""

    shows_steps: ClassVar[bool] = False

    def __init__(self, write: Callable[[str], object] = print) -> None:
        self.write = write

    def start(self, epoch: int, epochs: int, steps: int | None) -> None:
        pass

    def step(self, loss: Any) -> None:
        pass

    def end(self, report: EpochReport) -> None:
        self.write(str(report))


class Bars:
    """A bar that fills during each epoch and leaves one line behind.

    It shows the loss, the metrics of the epoch before, and the steps a second.
    """

    READ_LOSS_EVERY = 20  # reading the loss waits for the device

    def __init__(self) -> None:
        self.metrics: dict[str, str] = {}

    def start(self, epoch: int, epochs: int, steps: int | None) -> None:
        from tqdm.auto import tqdm

        self.bar = tqdm(total=steps, desc=f"epoch {epoch}/{epochs}", unit="step", leave=False)

    def step(self, loss: Any) -> None:
        self.bar.update()
        if self.bar.n % self.READ_LOSS_EVERY == 0:
            self.bar.set_postfix({"loss": f"{float(loss):.4f}", **self.metrics})

    def end(self, report: EpochReport) -> None:
        self.metrics = {name: shown_metric(name, x).strip() for name, x in report.metrics.items()}
        self.bar.close()
        self.bar.write(str(report))


def reporter_for_output() -> Reporter:
    """A curve in a notebook, bars on a terminal where tqdm is installed, else plain lines."""
    if in_notebook():
        return LiveCurve()
    if sys.stdout.isatty() and importlib.util.find_spec("tqdm") is not None:
        return Bars()
    return Lines()
