"""The plot of the suite's newest results: a row a model, its ratios as marks over a log axis.

The picture has the colours of the reader's system, light or dark. Marks differ in shape as well.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Results = dict[str, Any]


@dataclass(frozen=True)
class Series:
    """What one kind of mark stands for: a number of a contestant."""

    contestant: str
    key: str
    words: str
    shape: str
    colour: str


STEPS = (
    Series("ours", "step", "relaxjax: time of a step", "disc", "a"),
    Series("torch", "step", "PyTorch: time of a step", "square", "b"),
    Series("torch, compiled", "step", "PyTorch, compiled: time of a step", "diamond", "c"),
)
MEMORY = (
    Series("ours", "temp", "relaxjax: temporary memory", "disc", "a"),
    Series("balanced", "temp", "relaxjax, balanced: temporary memory", "ring", "a"),
    Series("torch", "temp", "PyTorch: temporary memory", "square", "b"),
)
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
WIDTH, LABEL, GAP, EDGE = 860, 154, 40, 22  # pixels; EDGE is left free on the right
HEAD, ROW, FOOT = 104, 22, 44  # above the rows, of each, and below them
MARK, ASIDE = 5, 4  # half of a mark, and how far those of a row are from each other's height
STYLE = """
svg { color: #1f2328; --paper: #ffffff; --a: #0969da; --b: #bc4c00; --c: #8250df }
@media (prefers-color-scheme: dark) {
  svg { color: #e6edf3; --paper: #0d1117; --a: #58a6ff; --b: #f0883e; --c: #bc8cff }
}
.a { color: var(--a) } .b { color: var(--b) } .c { color: var(--c) }
"""


def plot(results: Results) -> str:
    """Times on the left and memory on the right, of each model, where plain JAX is 1."""
    models = results["models"]
    panels = [
        [one for one in series if any(one.contestant in found for found in models.values())]
        for series in (STEPS, MEMORY)
    ]
    height = HEAD + ROW * len(models) + FOOT
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    style = 'role="img" font-family="sans-serif" font-size="12" fill="currentColor"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>',
        "<title>Time and memory of each model, relative to plain JAX</title>",
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" style="fill: var(--paper)"/>',
        text(LABEL, 22, "Relative to plain JAX and optax, which are 1. Lower is better.", "start"),
        *(text(LABEL - 12, _row(place) + 4, model, "end") for place, model in enumerate(models)),
    ]
    span = (WIDTH - LABEL - GAP - EDGE) / 2
    for place, series in enumerate(panels):
        begin = LABEL + place * (span + GAP)
        parts += _panel(models, series, begin, begin + span)
    return "\n".join([*parts, "</svg>\n"])


def _panel(
    models: Mapping[str, Any], series: Sequence[Series], begin: float, end: float
) -> Iterator[str]:
    rows = models.values()
    axis = _axis([_ratio(row, one) for row in rows for one in series if one.contestant in row])

    def x(ratio: float) -> float:
        low, high = math.log(axis[0]), math.log(axis[-1])
        return begin + (end - begin) * (math.log(max(ratio, axis[0])) - low) / (high - low)

    for place, one in enumerate(series):
        yield _mark(one, begin + MARK, 44 + 18 * place)
        yield text(begin + 18, 48 + 18 * place, one.words, "start")
    top, bottom = HEAD - 4, HEAD + ROW * len(models)
    for tick in axis:
        weight = 'stroke-opacity="0.9" stroke-width="1.5"' if tick == 1 else 'stroke-opacity="0.15"'
        line = f'x1="{x(tick):.1f}" y1="{top}" x2="{x(tick):.1f}" y2="{bottom}"'
        yield f'<line {line} stroke="currentColor" {weight}/>'
        yield text(x(tick), bottom + 16, f"{tick:g}", "middle")
    yield text((begin + end) / 2, bottom + 34, "times what plain JAX takes", "middle")
    for place, found in enumerate(rows):
        y = _row(place)
        line = f'x1="{begin}" y1="{y}" x2="{end}" y2="{y}"'
        yield f'<line {line} stroke="currentColor" stroke-opacity="0.15"/>'
        for number, one in enumerate(series):
            if one.contestant in found:
                yield _mark(one, x(_ratio(found, one)), y + ASIDE * (number - 1))


def _ratio(found: Mapping[str, Any], one: Series) -> float:
    return float(found[one.contestant][one.key])


def _axis(ratios: Sequence[float]) -> list[float]:
    """The ticks from the last one below all ratios to the first one above, and 1 among them.

    A program without temporary bytes stands at the left end.
    """
    known = [1.0, *(ratio for ratio in ratios if ratio >= TICKS[0])]
    first = max(tick for tick in TICKS if tick < min(known) or tick == TICKS[0])
    last = min(tick for tick in TICKS if tick > max(known) or tick == TICKS[-1])
    return [tick for tick in TICKS if first <= tick <= last]


def _mark(one: Series, x: float, y: float) -> str:
    shapes = {
        "disc": f'<circle cx="{x:.1f}" cy="{y}" r="{MARK}"/>',
        "ring": f'<circle cx="{x:.1f}" cy="{y}" r="{MARK - 1}" fill="none" '
        'stroke="currentColor" stroke-width="2"/>',
        "square": f'<rect x="{x - MARK + 1:.1f}" y="{y - MARK + 1}" width="{2 * MARK - 2}" '
        f'height="{2 * MARK - 2}"/>',
        "diamond": f'<path d="M{x:.1f} {y - MARK}l{MARK} {MARK}l-{MARK} {MARK}l-{MARK} -{MARK}z"/>',
    }
    return f'<g class="{one.colour}" fill="currentColor">{shapes[one.shape]}</g>'


def _row(place: int) -> int:
    return HEAD + ROW * place + ROW // 2


def text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{text}</text>'
