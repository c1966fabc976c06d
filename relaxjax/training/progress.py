"""What a person sees while a model trains."""

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol


@dataclass(frozen=True, slots=True)
class EpochReport:
    """What one epoch came to; epochs count from 1. `metrics` are those of the evaluation data."""

    epoch: int
    epochs: int
    loss: float
    metrics: Mapping[str, float] = field(hash=False)
    steps: int
    seconds: float

    @property
    def accuracy(self) -> float | None:
        """The accuracy on the evaluation data; None where it was not measured."""
        return self.metrics.get("accuracy")

    def __str__(self) -> str:
        metrics = "".join(f"  {name} {_shown(name, x)}" for name, x in self.metrics.items())
        epoch = f"epoch {self.epoch:{len(str(self.epochs))}}/{self.epochs}"
        speed = f"{self.steps / max(self.seconds, 1e-9):,.0f} steps/s"
        return f"{epoch}  loss {self.loss:.4f}{metrics}  {self.steps} steps, {speed}"


def _shown(name: str, value: float) -> str:
    is_share = name == "accuracy" or name.startswith("top ")
    return f"{value:7.2%}" if is_share else f"{value:.4f}"


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
        self.metrics = {name: _shown(name, x).strip() for name, x in report.metrics.items()}
        self.bar.close()
        self.bar.write(str(report))


def reporter_for_output() -> Reporter:
    """Bars on a terminal where tqdm is installed, else plain lines."""
    if sys.stdout.isatty() and importlib.util.find_spec("tqdm") is not None:
        return Bars()
    return Lines()
