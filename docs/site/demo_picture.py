"""Draw what `relaxjax demo --show` prints, for the README: in light colours, and in dark ones.

    python docs/site/demo_picture.py

The picture begins where the model and its adjoint begin to compute, below their signatures. It ends
after as many rows as fit on a screen.
"""

import html
from collections.abc import Iterator
from pathlib import Path

from pygments.lexers import PythonLexer
from pygments.token import Token

from relaxjax.cli.demo import GAP, model_and_adjoint

FIGURES = Path(__file__).resolve().parents[1] / "figures"
BEGIN = "with R.dataflow():"
# Background, text, and the colours of kinds of tokens.
LIGHT = ("#ffffff", "#24292f", {"keyword": "#cf222e", "string": "#0a3069", "number": "#0550ae"})
DARK = ("#0d1117", "#e6edf3", {"keyword": "#ff7b72", "string": "#a5d6ff", "number": "#79c0ff"})
ADJOINTS = {LIGHT[0]: "#8250df", DARK[0]: "#d2a8ff"}
KINDS = {"keyword": Token.Keyword, "string": Token.Literal.String, "number": Token.Literal.Number}
WIDTH, ROWS = 133, 28  # letters in a row, and rows that are drawn
LINE, LETTER, MARGIN = 17, 7.23, 14  # pixels


def shown() -> str:
    """The rows of the demo from the first computation on; dots where more of them follow."""
    rows = model_and_adjoint(WIDTH).splitlines()
    first = next(place for place, row in enumerate(rows) if BEGIN in row)
    dots = " " * ((WIDTH - len(GAP)) // 2) + GAP + " " * 8 + "..."
    return "\n".join([*rows[first : first + ROWS], dots])


def picture(palette: tuple[str, str, dict[str, str]]) -> str:
    background, ink, colours = palette
    rows = list(coloured(shown(), {**colours, "adjoint": ADJOINTS[background]}))
    width = round(LETTER * WIDTH) + 2 * MARGIN
    height = LINE * len(rows) + 2 * MARGIN
    lines = [
        f'<text x="{MARGIN}" y="{MARGIN + LINE * (place + 1) - 4}">{row}</text>'
        for place, row in enumerate(rows)
        if row
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" font-size="12" fill="{ink}" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace">'
    )
    title = "<title>A model of three layers, and beside it the backward program</title>"
    paper = f'<rect width="{width}" height="{height}" rx="6" fill="{background}"/>'
    return "\n".join([head, title, paper, *lines, "</svg>\n"])


def coloured(text: str, colours: dict[str, str]) -> Iterator[str]:
    """The lines of a script with their tokens in colour; adjoints have a colour of their own."""
    line = ""
    for kind, token in PythonLexer(stripnl=False).get_tokens(text):
        colour = next((colours[name] for name, known in KINDS.items() if kind in known), None)
        if kind in Token.Name and "_adjoint" in token:
            colour = colours["adjoint"]
        for place, part in enumerate(token.split("\n")):
            if place:
                yield line.rstrip()
                line = ""
            escaped = html.escape(part, quote=False).replace(" ", "&#160;")
            line += f'<tspan fill="{colour}">{escaped}</tspan>' if colour and part else escaped
    if line:
        yield line


PICTURES = {"demo_light.svg": LIGHT, "demo_dark.svg": DARK}


if __name__ == "__main__":
    for name, palette in PICTURES.items():
        (FIGURES / name).write_text(picture(palette), encoding="utf-8")
