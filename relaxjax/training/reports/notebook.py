"""What is shown of a training in a notebook: the curve of the loss, drawn anew while it trains."""

import sys
import time
from collections.abc import Callable, Mapping
from html import escape
from importlib import import_module
from typing import Any, ClassVar

from .chart import Chart, Panel
from .epoch_report import EpochReport

_MOST_POINTS = 400  # of a line; of more, every other one is left out


def in_notebook() -> bool:
    """Whether this is a cell of a notebook; one in a terminal's IPython is none."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class LiveCurve:
    """Draws the loss over the steps while a model trains, and each epoch's line below.

    `show` is given this object once, and gives back what to call when it has changed: IPython's
    display, unless it is said otherwise. The loss is read every `READ_LOSS_EVERY` steps, since
    reading it waits for the device, and drawn once in `DRAW_EVERY` seconds at most.
    """

    shows_steps: ClassVar[bool] = True
    READ_LOSS_EVERY: ClassVar[int] = 20
    DRAW_EVERY: ClassVar[float] = 0.5

    def __init__(self, show: "Callable[[LiveCurve], Callable[[], object]] | None" = None) -> None:
        self._show = show or _displayed
        self._redraw: Callable[[], object] | None = None
        self._steps = 0
        self._every = self.READ_LOSS_EVERY
        self._losses: list[tuple[float, float]] = []
        self._epochs: list[tuple[float, EpochReport]] = []  # with the steps made at its end
        self._drawn = 0.0

    def start(self, epoch: int, epochs: int, steps: int | None) -> None:
        if self._redraw is None:
            self._redraw = self._show(self)

    def step(self, loss: Any) -> None:
        self._steps += 1
        if self._steps % self._every:
            return
        self._losses.append((float(self._steps), float(loss)))
        if len(self._losses) > _MOST_POINTS:
            self._losses = self._losses[1::2]
            self._every *= 2
        if time.monotonic() - self._drawn >= self.DRAW_EVERY:
            self._draw()

    def end(self, report: EpochReport) -> None:
        self._epochs.append((float(self._steps), report))
        self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        if self._redraw is not None:
            self._redraw()

    def _repr_html_(self) -> str:
        lines = "".join(f"<div>{escape(str(report))}</div>" for _, report in self._epochs)
        return f"<div>{self._chart()._repr_svg_()}<div>{lines}</div></div>"

    def _chart(self) -> Chart:
        measured = [(at, report.metrics["eval_loss"]) for at, report in self._epochs
                    if "eval_loss" in report.metrics]  # fmt: skip
        means = [(at, report.loss) for at, report in self._epochs]
        lines: Mapping[str, list[tuple[float, float]]] = {
            "loss": self._losses,
            "mean of the epoch": means,
            "eval_loss": measured,
        }
        shown = {name: points for name, points in lines.items() if points}
        return Chart((Panel("loss", "step", shown),))


def _displayed(curve: LiveCurve) -> Callable[[], object]:
    """Let IPython show the curve; what it gives shows it anew in its place."""
    display: Any = import_module("IPython.display")  # there in a notebook
    handle = display.display(curve, display_id=True)
    return lambda: handle.update(curve)
