"""The curves of benchmarks/scaling.py: a column a size, a row a measure, both axes by factors.

    python benchmarks/scaling_plot.py  # draws docs/scaling.svg of what is recorded

The picture has the colours of the reader's system, light or dark. Lines differ in dashes as well.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite_plot import STYLE, text

ROOT = Path(__file__).parents[1]
RESULTS, PLOT = ROOT / "benchmarks" / "results" / "scaling.json", ROOT / "docs" / "scaling.svg"

Point = Mapping[str, Any]  # of each contestant


@dataclass(frozen=True)
class Line:
    """How the curve of a contestant is drawn."""

    contestant: str
    words: str
    dashes: str
    colour: str


@dataclass(frozen=True)
class Measure:
    words: str
    of: Callable[[Point], float]


LINES = (
    Line("ours", "relaxjax", "none", "a"),
    Line("plain", "plain JAX and optax", "6 3", "d"),
    Line("torch", "PyTorch", "2 3", "b"),
)
MEASURES = (
    Measure("step, ms", lambda row: 1e3 * float(row["seconds"])),
    Measure("temporary memory, MB", lambda row: float(row["temp_bytes"]) / 1e6),
    Measure("compile, CPU seconds", lambda row: float(row["compile_seconds"][1])),
)
WIDTH, LEFT, TOP = 1000, 64, 66  # pixels
PANEL, ROW = 144, 150  # the sides of a panel
GAP, ROW_GAP = 44, 62  # between panels
COLOURS = ".d { color: currentColor; opacity: 0.75 }"


def plot(sweeps: Mapping[str, Mapping[str, Mapping[str, Point]]]) -> str:
    """The curves of each contestant over each size."""
    height = TOP + len(MEASURES) * (ROW + ROW_GAP) - 20
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    style = 'role="img" font-family="sans-serif" font-size="11" fill="currentColor"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>',
        "<title>Time, memory and compile time of a GPT over its sizes</title>",
        f"<style>{STYLE}{COLOURS}</style>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" style="fill: var(--paper)"/>',
        *_legend(sweeps),
    ]
    for row, measure in enumerate(MEASURES):
        y = TOP + row * (ROW + ROW_GAP)
        parts.append(text(LEFT - 44, y - 8, measure.words, "start"))
        values = [
            measure.of(found)
            for points in sweeps.values()
            for point in points.values()
            for found in point.values()
        ]
        heights = Scale(values, y + ROW, y)
        for column, (title, points) in enumerate(sweeps.items()):
            x = LEFT + column * (PANEL + GAP)
            widths = Scale([float(size) for size in points], x, x + PANEL)
            parts += _axes(x, y, heights, column == 0)
            parts += [
                text(widths(float(size)), y + ROW + 14, _short(size), "middle") for size in points
            ]
            parts.append(text(x + PANEL / 2, y + ROW + 28, title, "middle"))
            parts += _curves(points, measure, widths, heights)
    return "\n".join([*parts, "</svg>\n"])


class Scale:
    """A place on an axis by factors, between two ends; `ticks` are powers of ten."""

    def __init__(self, values: list[float], first: float, last: float) -> None:
        known = [value for value in values if value > 0]
        self.low, self.high = math.log10(min(known)), math.log10(max(known))
        self.first, self.last = first, last

    def __call__(self, value: float) -> float:
        part = (math.log10(value) - self.low) / max(self.high - self.low, 1e-9)
        return self.first + (self.last - self.first) * max(part, 0.0)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(math.ceil(self.low), math.floor(self.high) + 1)]


def _legend(sweeps: Mapping[str, Any]) -> Iterator[str]:
    there = {name for points in sweeps.values() for point in points.values() for name in point}
    x = LEFT - 44.0
    for line in LINES:
        if line.contestant in there:
            yield _path(line, [(x, 20), (x + 34, 20)])
            yield text(x + 42, 24, line.words, "start")
            x += 70 + 7 * len(line.words)


def _axes(x: float, y: float, heights: Scale, is_first: bool) -> Iterator[str]:
    yield (
        f'<rect x="{x}" y="{y}" width="{PANEL}" height="{ROW}" fill="none" stroke="currentColor" '
        'stroke-opacity="0.35"/>'
    )
    for tick in heights.ticks():
        place = heights(tick)
        yield (
            f'<line x1="{x}" y1="{place:.1f}" x2="{x + PANEL}" y2="{place:.1f}" '
            'stroke="currentColor" stroke-opacity="0.15"/>'
        )
        if is_first:
            yield text(x - 6, place + 4, f"{tick:g}", "end")


def _curves(
    points: Mapping[str, Mapping[str, Point]], measure: Measure, widths: Scale, heights: Scale
) -> Iterator[str]:
    for line in LINES:
        places = [
            (widths(float(size)), heights(measure.of(point[line.contestant])))
            for size, point in points.items()
            if line.contestant in point and measure.of(point[line.contestant]) > 0
        ]
        if places:
            yield _path(line, places)


def _path(line: Line, places: list[tuple[float, float]]) -> str:
    way = " L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="currentColor"/>' for x, y in places
    )
    return (
        f'<g class="{line.colour}"><path d="M{way}" fill="none" stroke="currentColor" '
        f'stroke-width="2" stroke-dasharray="{line.dashes}"/>{dots}</g>'
    )


def _short(size: str) -> str:
    number = int(size)
    return f"{number // 1024}k" if number >= 1024 and number % 1024 == 0 else size


if __name__ == "__main__":
    PLOT.write_text(plot(json.loads(RESULTS.read_text())["sweeps"]))
