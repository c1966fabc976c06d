"""What one epoch of a training came to."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
        metrics = "".join(f"  {name} {shown_metric(name, x)}" for name, x in self.metrics.items())
        epoch = f"epoch {self.epoch:{len(str(self.epochs))}}/{self.epochs}"
        speed = f"{self.steps / max(self.seconds, 1e-9):,.0f} steps/s"
        return f"{epoch}  loss {self.loss:.4f}{metrics}  {self.steps} steps, {speed}"


def numbers_of(report: EpochReport) -> dict[str, float]:
    """The loss and the metrics of an epoch, by their names."""
    return {"loss": report.loss, **report.metrics}


def shown_metric(name: str, value: float) -> str:
    """A number of a report as a person reads it."""
    return f"{value:7.2%}" if is_share(name) else f"{value:.4f}"


def is_share(name: str) -> bool:
    """Whether a metric is a share of all samples, from 0 to 1."""
    return name == "accuracy" or name.startswith("top ")
