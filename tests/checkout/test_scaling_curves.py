"""Curves over the sizes of a GPT: what is recorded is drawn, and one size changes at a time."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import jax
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import scaling  # found by the path above
from scaling_plot import LINES, MEASURES, PLOT, RESULTS, plot  # found by the path above

SVG = "{http://www.w3.org/2000/svg}"
ROW = {"seconds": 0.1, "temp_bytes": 1e6, "compile_seconds": [1.0, 2.0]}


def test_the_picture_shows_what_is_recorded() -> None:
    """Else: python benchmarks/scaling_plot.py."""
    sweeps = json.loads(RESULTS.read_text())["sweeps"]
    assert list(sweeps) == list(scaling.SWEEPS)
    for title, (_, values) in scaling.SWEEPS.items():
        assert list(sweeps[title]) == [str(value) for value in values]
    assert plot(sweeps) == PLOT.read_text()


def test_each_contestant_has_a_curve_of_each_measure_over_each_size() -> None:
    sweeps = {title: {"1": {"ours": ROW}, "8": {"ours": ROW}} for title in ("depth", "width")}
    sweeps["depth"]["8"] = {"ours": ROW, "plain": ROW}
    root = ElementTree.fromstring(plot(sweeps))
    curves = len(MEASURES) * (len(sweeps) + 1)
    assert len(list(root.iter(f"{SVG}path"))) == curves + 2  # with those of the legend
    assert {line.contestant for line in LINES} >= {"ours", "plain"}
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert words.count("depth") == words.count("width") == len(MEASURES)


def test_what_takes_no_memory_or_one_size_is_drawn_at_the_edge() -> None:
    nothing = ROW | {"temp_bytes": 0}
    drawn = plot({"depth": {"4": {"ours": ROW, "plain": nothing}}})
    assert "nan" not in drawn
    assert "inf" not in drawn


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # optax has new names for its norms
def test_a_size_is_measured_by_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    base = {"layers": 1, "batch": 2, "length": 4, "heads": 1, "width": 4, "words": 8}
    monkeypatch.setattr(scaling, "BASE", base)
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        found = scaling.point("words", 16, ["plain", "ours"], 1)
    assert found["plain"]["step"] == 1
    assert found["ours"]["temp_bytes"] > 0
    assert "words 16" in scaling.printed({"words": {"16": found}})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # optax has new names for its norms
def test_plain_jax_is_left_out_of_what_is_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    base = {"layers": 1, "batch": 2, "length": 4, "heads": 1, "width": 4, "words": 8}
    monkeypatch.setattr(scaling, "BASE", base)
    monkeypatch.setattr(scaling, "DEEPEST", 1)
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        found = scaling.point("layers", 2, ["plain", "ours"], 1)
    assert list(found) == ["ours"]
    assert "step" not in found["ours"]  # which is a ratio to plain JAX
    assert "depth 2" in scaling.printed({"depth": {"1": {"plain": ROW, "ours": ROW}, "2": found}})
