"""What a training came to, epoch by epoch: the list that `fit` returns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.tables import html_table
from relaxjax.ir.wording import counted
from relaxjax.training.reports.epoch_report import numbers_of

from .chart import Chart, Panel, Points
from .epoch_report import EpochReport, is_share, shown_metric
from .notebook import in_notebook

_LOSSES = ("loss", "eval_loss")


class History(list[EpochReport]):
    """The reports of all epochs, in their order: a list, which also shows itself.

    history = trainer.fit(data, epochs=10, eval_data=test)
    history[-1].accuracy
    history.numbers("loss")
    history.plot()
    """

    def numbers(self, name: str) -> list[float]:
        """The loss or a metric of each epoch; NaN where it was not measured."""
        known = self.names
        if name not in known:
            raise KeyError(
                f"the reports have no `{name}`, only {', '.join(known) or 'no epochs at all'}"
                f"{did_you_mean(name, known)}"
            )
        return [numbers_of(report).get(name, math.nan) for report in self]

    @property
    def names(self) -> list[str]:
        """What was measured: the loss, and the metrics of the evaluation data."""
        return list(dict.fromkeys(name for report in self for name in numbers_of(report)))

    def plot(self) -> Any:
        """The losses and the metrics over the epochs.

        Where matplotlib is installed, it is a figure of that, which `plt.show()` shows; else it is
        a `Chart`, which notebooks show and `save("history.svg")` writes.
        """
        if find_spec("matplotlib") is None:
            return self.chart()
        return _figure(self._panels())

    def chart(self) -> Chart:
        """The losses and the metrics over the epochs as SVG, which needs nothing installed."""
        return Chart(self._panels())

    def to_json(self) -> list[dict[str, Any]]:
        """The reports as JSON has them; NaN and infinities, which it does not have, are None."""
        return [
            {
                **asdict(report),
                "loss": _finite(report.loss),
                "metrics": {name: _finite(value) for name, value in report.metrics.items()},
            }
            for report in self
        ]

    def __repr__(self) -> str:
        if not self:
            return "<History of no epochs>"
        last = [
            f"{name} {shown_metric(name, x).strip()}" for name, x in numbers_of(self[-1]).items()
        ]
        count = counted(len(self), "epoch")
        return f"<History of {count}: {', '.join(last)} in the last one>"

    def _repr_html_(self) -> str:
        names = self.names
        rows = [
            [
                str(report.epoch),
                *(_cell(name, numbers_of(report)) for name in names),
                f"{report.seconds:.1f}",
            ]
            for report in self
        ]
        table = html_table([["epoch", *names, "seconds"], *rows])
        return f"<div>{self.chart()._repr_svg_() if self else ''}{table}</div>"

    def _panels(self) -> tuple[Panel, ...]:
        return panels_of({name: self._points(name) for name in self.names}, "epoch")

    def _points(self, name: str) -> Points:
        epochs = [float(report.epoch) for report in self]
        return list(zip(epochs, self.numbers(name), strict=True))


def panels_of(lines: Mapping[str, Points], along: str) -> tuple[Panel, ...]:
    """Lines of one scale together: the losses, the shares, and each other number by itself."""
    losses = {name: lines[name] for name in lines if name in _LOSSES}
    shares = {name: lines[name] for name in lines if is_share(name)}
    rest = [name for name in lines if name not in losses and name not in shares]
    groups = {"loss": losses, "share": shares, **{name: {name: lines[name]} for name in rest}}
    return tuple(Panel(title, along, group) for title, group in groups.items() if group)


def _figure(panels: Sequence[Panel]) -> Any:
    plt = import_module("matplotlib.pyplot")
    count = max(len(panels), 1)
    figure, (row,) = plt.subplots(1, count, figsize=(5 * count, 3.5), squeeze=False)
    for axes, panel in zip(row, panels, strict=False):
        for name, points in panel.lines.items():
            axes.plot([x for x, _ in points], [y for _, y in points], marker=".", label=name)
        axes.set_title(panel.title)
        axes.set_xlabel(panel.along)
        axes.locator_params(axis="x", integer=True)  # there is no half of an epoch
        axes.legend()
    figure.tight_layout()
    if in_notebook():
        plt.close(figure)  # which would be shown twice there: at the end of the cell, and as value
    return figure


def _cell(name: str, numbers: Mapping[str, float]) -> str:
    return shown_metric(name, numbers[name]).strip() if name in numbers else "-"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
