"""What `fit` returns: a list of reports that shows itself."""

import json
import math
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from small_models import batch, classifier

from relaxjax.training import Chart, EpochReport, History, Lines
from relaxjax.training.reports import history as module

DATA = [batch(seed) for seed in range(3)]
HISTORY = History(
    [
        EpochReport(1, 3, 2.0, {"eval_loss": 2.5, "accuracy": 0.5}, 7, 0.25),
        EpochReport(
            2, 3, 1.0, {"eval_loss": math.nan, "accuracy": 0.75, "perplexity": 4.0}, 7, 1.0
        ),
    ]
)


@pytest.fixture
def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)


def test_fit_returns_it_and_it_is_a_list() -> None:
    history = classifier().fit(DATA, 2, DATA, Lines(lambda line: None))
    assert isinstance(history, History)
    assert isinstance(history, list)
    assert [report.epoch for report in history] == [1, 2]
    assert history == list(history)
    assert history.numbers("loss") == [report.loss for report in history]
    assert history.names == ["loss", "eval_loss", "accuracy"]


def test_a_line_tells_the_last_epoch() -> None:
    assert repr(HISTORY) == (
        "<History of 2 epochs: loss 1.0000, eval_loss nan, accuracy 75.00%, perplexity 4.0000 in "
        "the last one>"
    )
    assert repr(History(HISTORY[:1])).startswith("<History of 1 epoch: loss 2.0000")
    assert repr(History()) == "<History of no epochs>"


def test_numbers_by_name() -> None:
    assert HISTORY.numbers("accuracy") == [0.5, 0.75]
    first, second = HISTORY.numbers("perplexity")
    assert math.isnan(first)
    assert second == 4.0
    message = "the reports have no `acuracy`, only loss, eval_loss, .*; did you mean `accuracy`"
    with pytest.raises(KeyError, match=message):
        HISTORY.numbers("acuracy")
    with pytest.raises(KeyError, match="have no `loss`, only no epochs at all"):
        History().numbers("loss")


def test_json_has_no_numbers_that_are_not_finite() -> None:
    text = json.dumps(HISTORY.to_json(), allow_nan=False)
    assert json.loads(text)[1] == {
        "epoch": 2,
        "epochs": 3,
        "loss": 1.0,
        "metrics": {"eval_loss": None, "accuracy": 0.75, "perplexity": 4.0},
        "steps": 7,
        "seconds": 1.0,
    }


def test_numbers_of_one_scale_share_a_panel(without_matplotlib: None) -> None:
    chart = HISTORY.plot()
    assert isinstance(chart, Chart)
    assert chart == HISTORY.chart()
    assert [(panel.title, list(panel.lines)) for panel in chart.panels] == [
        ("loss", ["loss", "eval_loss"]),
        ("share", ["accuracy"]),
        ("perplexity", ["perplexity"]),
    ]
    assert chart.panels[1].lines["accuracy"] == [(1.0, 0.5), (2.0, 0.75)]


def test_a_notebook_shows_curves_above_a_table() -> None:
    page = HISTORY._repr_html_()
    assert page.index("<svg") < page.index("<table ")
    assert "<th>perplexity</th>" in page
    assert "<tr><td>1</td><td>2.0000</td><td>2.5000</td><td>50.00%</td><td>-</td><td>0.2" in page
    named = EpochReport(1, 1, 1.0, {"<b>": 1.0}, 1, 1.0)
    assert "<b>" not in History([named])._repr_html_()
    assert "<svg" not in History()._repr_html_()


class Recorded:
    """Takes calls of any name, and keeps them."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **options: self.calls.append((name, *args))


@pytest.mark.parametrize("in_notebook", [False, True])
def test_matplotlib_draws_where_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, in_notebook: bool
) -> None:
    figure, axes, closed = Recorded(), [Recorded(), Recorded(), Recorded()], list[object]()

    def subplots(rows: int, columns: int, **options: Any) -> tuple[Any, Any]:
        assert (rows, columns, options["squeeze"]) == (1, 3, False)
        return figure, [axes]

    plt = ModuleType("matplotlib.pyplot")
    plt.__dict__.update(subplots=subplots, close=closed.append)
    matplotlib = ModuleType("matplotlib")
    matplotlib.__spec__ = ModuleSpec("matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib", matplotlib)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", plt)
    if in_notebook:
        shell = SimpleNamespace(kernel=object())
        ipython = SimpleNamespace(get_ipython=lambda: shell)
        monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert HISTORY.plot() is figure
    assert axes[0].calls[0] == ("plot", [1.0, 2.0], [2.0, 1.0])
    assert ("set_title", "loss") in axes[0].calls
    assert ("set_xlabel", "epoch") in axes[2].calls
    assert ("locator_params",) in axes[0].calls
    assert closed == ([figure] if in_notebook else [])
