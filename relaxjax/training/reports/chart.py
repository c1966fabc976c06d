"""Lines over numbered axes as SVG, in the colours of the page around it, light or dark."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TypeAlias

from relaxjax.ir.whole_file import write_whole

Points: TypeAlias = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 400, 240  # of a panel
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 42, 40  # around what is drawn in
_TICKS = 5
# Of medium lightness, and told apart by those who see red and green alike.
_COLOURS = ("#3a86c8", "#d97b29", "#2c9f7a", "#b05cb5")
_DASHES = ("", "6 3", "2 3", "8 3 2 3")


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines by their names, over a common axis. What is not finite is a gap in its line."""

    title: str
    along: str  # what the horizontal axis counts
    lines: Mapping[str, Points]


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels beside each other. A notebook shows it, and `save` writes it into a file."""

    panels: tuple[Panel, ...]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the chart as an SVG file."""
        if Path(path).suffix != ".svg":
            raise ValueError(f"a chart is written as .svg, not as `{os.fspath(path)}`")
        write_whole(path, self._repr_svg_().encode())

    def _repr_svg_(self) -> str:
        width = _WIDTH * max(len(self.panels), 1)
        parts = "".join(
            f'<g transform="translate({_WIDTH * place} 0)">{"".join(_drawn(panel))}</g>'
            for place, panel in enumerate(self.panels)
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_HEIGHT}" '
            f'width="{width}" height="{_HEIGHT}" style="max-width:100%;height:auto" role="img" '
            f'font-family="sans-serif" font-size="11" fill="currentColor">{parts}</svg>'
        )


def _drawn(panel: Panel) -> Iterator[str]:
    """The pieces of a panel: its title, its axes, its lines, and what these are called."""
    points = [point for line in panel.lines.values() for point in line if _is_finite(point)]
    across, up = _Axis.across([x for x, _ in points]), _Axis.up([y for _, y in points])
    yield _text(_LEFT, 14, panel.title, "start", weight="bold")
    yield _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, panel.along, "middle")
    for value in up.ticks:
        y = up.place(value)
        yield (
            f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" '
            'stroke="currentColor" stroke-opacity="0.2"/>'
        )
        yield _text(_LEFT - 6, y + 4, f"{value:.6g}", "end")
    for value in across.ticks:
        yield _text(across.place(value), _HEIGHT - _BOTTOM + 16, f"{value:.6g}", "middle")
    at = float(_LEFT)
    for place, (name, line) in enumerate(panel.lines.items()):
        style = (
            f'fill="none" stroke="{_COLOURS[place % len(_COLOURS)]}" stroke-width="2" '
            f'stroke-dasharray="{_DASHES[place // len(_COLOURS) % len(_DASHES)] or "none"}"'
        )
        path = _path(line, across, up)
        if path:
            yield f'<path d="{path}" {style} stroke-linejoin="round" stroke-linecap="round"/>'
        yield f'<line x1="{at:.0f}" y1="28" x2="{at + 18:.0f}" y2="28" {style}/>'
        yield _text(at + 23, 32, name, "start")
        at += 40 + 6.2 * len(name)


def _path(line: Points, across: "_Axis", up: "_Axis") -> str:
    """The line, lifted over what is not finite; one point alone is a dot, by its round ends."""
    steps: list[str] = []
    is_down = False
    for point in line:
        if _is_finite(point):
            place = f"{across.place(point[0]):.1f} {up.place(point[1]):.1f}"
            steps.append(f"L{place}" if is_down else f"M{place}h0")
        is_down = _is_finite(point)
    return "".join(steps)


@dataclass(frozen=True, slots=True)
class _Axis:
    """From the numbers between `low` and `high` to places between `begin` and `end`."""

    low: float
    high: float
    step: float
    begin: float
    end: float

    @staticmethod
    def across(values: Sequence[float]) -> "_Axis":
        """What counts something: from the first to the last."""
        low, high = min(values, default=0.0), max(values, default=1.0)
        if low == high:
            low, high = low - 0.5, high + 0.5
        step = max(_round_step((high - low) / _TICKS), 1.0)
        return _Axis(low, high, step, _LEFT, _WIDTH - _RIGHT)

    @staticmethod
    def up(values: Sequence[float]) -> "_Axis":
        """What is measured: from a round number to another."""
        low, high = min(values, default=0.0), max(values, default=1.0)
        if low == high:
            low, high = low - (abs(low) / 2 or 1), high + (abs(high) / 2 or 1)
        step = _round_step((high - low) / _TICKS)
        low, high = step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)
        return _Axis(low, high, step, _HEIGHT - _BOTTOM, _TOP)

    @property
    def ticks(self) -> list[float]:
        first = math.ceil(self.low / self.step - 1e-9)
        last = math.floor(self.high / self.step + 1e-9)
        return [self.step * i for i in range(first, last + 1)]

    def place(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return self.begin + (self.end - self.begin) * part


def _round_step(least: float) -> float:
    """The smallest of 1, 2 and 5, times a power of ten, that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * i for i in (1, 2, 5, 10) if power * i >= least * (1 - 1e-9))


def _is_finite(point: tuple[float, float]) -> bool:
    return all(map(math.isfinite, point))


def _text(x: float, y: float, text: str, anchor: str, weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">'
        f"{escape(text)}</text>"
    )
