"""Lines over numbered axes, drawn as SVG: all numbers are there, nothing lies outside."""

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from relaxjax.training import Chart, Panel

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*panels: Panel) -> ElementTree.Element:
    return ElementTree.fromstring(Chart(panels)._repr_svg_())


def panel(*ys: float) -> Panel:
    return Panel("loss", "epoch", {"loss": [(i + 1.0, y) for i, y in enumerate(ys)]})


def texts(root: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def path_places(root: ElementTree.Element) -> list[tuple[float, float]]:
    found = (re.findall(r"[ML]([\d.-]+) ([\d.-]+)", p.attrib["d"]) for p in root.iter(f"{SVG}path"))
    return [(float(x), float(y)) for each in found for x, y in each]


@pytest.mark.parametrize(
    ("ys", "numbers"),
    [
        ((2.0, 1.0, 0.1), ["0", "0.5", "1", "1.5", "2"]),
        ((0.93, 0.971), ["0.93", "0.94", "0.95", "0.96", "0.97", "0.98"]),
        ((3.0,), ["1", "2", "3", "4", "5"]),
        ((0.0,), ["-1", "-0.5", "0", "0.5", "1"]),
        ((1e6, 3e6), ["1e+06", "1.5e+06", "2e+06", "2.5e+06", "3e+06"]),
        ((-1e-7, 1e-7), ["-1e-07", "-5e-08", "0", "5e-08", "1e-07"]),
    ],
)
def test_both_axes_have_round_numbers(ys: Sequence[float], numbers: list[str]) -> None:
    root = drawn(panel(*ys))
    ends = [e.text for e in root.iter(f"{SVG}text") if e.attrib["text-anchor"] == "end"]
    assert ends == numbers
    middles = [e.text for e in root.iter(f"{SVG}text") if e.attrib["text-anchor"] == "middle"]
    assert middles == ["epoch", *(str(i + 1) for i in range(len(ys)))]


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_nothing_lies_outside(count: int) -> None:
    root = drawn(*(panel(*(1000.0 / (i + 1) for i in range(count))) for _ in range(3)))
    places = path_places(root)
    assert len(places) == 3 * count
    assert all(58 <= x <= 386 and 42 <= y <= 200 for x, y in places)
    assert root.attrib["viewBox"] == "0 0 1200 240"


def test_a_line_falls_where_its_numbers_do() -> None:
    places = path_places(drawn(panel(3.0, 2.0, 1.0)))
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert [y for _, y in places] == sorted(y for _, y in places)  # y grows downwards


def test_what_is_not_finite_is_a_gap() -> None:
    root = drawn(panel(3.0, float("nan"), 2.0, float("inf"), 1.0))
    (path,) = root.iter(f"{SVG}path")
    assert path.attrib["d"].count("M") == 3
    assert "L" not in path.attrib["d"]
    assert not list(drawn(panel(float("nan"))).iter(f"{SVG}path"))


def test_names_are_text_and_no_tags() -> None:
    name = "</svg><script>"
    root = drawn(Panel(name, name, {name: [(1.0, 1.0)]}))
    assert texts(root).count(name) == 3


def test_lines_are_told_apart_without_colour_where_there_are_many() -> None:
    many = {f"metric {i}": [(1.0, float(i)), (2.0, i + 1.0)] for i in range(8)}
    root = drawn(Panel("all", "epoch", many))
    styles = [(p.attrib["stroke"], p.attrib["stroke-dasharray"]) for p in root.iter(f"{SVG}path")]
    assert len(set(styles)) == 8


def test_it_takes_the_colour_of_the_page() -> None:
    root = drawn(panel(2.0, 1.0))
    assert root.attrib["fill"] == "currentColor"
    assert not [e for e in root.iter(f"{SVG}text") if "fill" in e.attrib]


def test_it_is_saved_as_svg(tmp_path: Path) -> None:
    chart = Chart((panel(2.0, 1.0),))
    chart.save(tmp_path / "loss.svg")
    assert (tmp_path / "loss.svg").read_text() == chart._repr_svg_()
    with pytest.raises(ValueError, match=r"a chart is written as \.svg, not as `.*loss\.png`"):
        chart.save(tmp_path / "loss.png")
