"""The curve of a training in a notebook."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from small_models import batch, classifier

from relaxjax.training import EpochReport, Lines, LiveCurve
from relaxjax.training.reports.notebook import in_notebook
from relaxjax.training.reports.progress import reporter_for_output

DATA = [batch(seed) for seed in range(5)]


class Shown:
    """What IPython is asked to show."""

    def __init__(self, shell: object) -> None:
        self.first: list[Any] = []
        self.pages: list[str] = []
        self.ipython = ModuleType("IPython")
        self.display = ModuleType("IPython.display")
        self.ipython.__dict__.update(get_ipython=lambda: shell, display=self.display)
        self.display.__dict__.update(display=self.show)

    def show(self, value: Any, display_id: bool) -> Any:
        assert display_id
        self.first.append(value)
        return SimpleNamespace(update=lambda new: self.pages.append(new._repr_html_()))


def run_in(monkeypatch: pytest.MonkeyPatch, shell: object) -> Shown:
    shown = Shown(shell)
    monkeypatch.setitem(sys.modules, "IPython", shown.ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown.display)
    return shown


@pytest.mark.parametrize(
    ("shell", "expected"),
    [(SimpleNamespace(kernel=object()), True), (SimpleNamespace(), False), (None, False)],
    ids=["a notebook", "IPython in a terminal", "a script that imports IPython"],
)
def test_a_notebook_is_told_by_its_kernel(
    monkeypatch: pytest.MonkeyPatch, shell: object, expected: bool
) -> None:
    run_in(monkeypatch, shell)
    assert in_notebook() == expected
    assert isinstance(reporter_for_output(), LiveCurve if expected else Lines)


def test_nothing_is_imported_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", None)
    assert not in_notebook()


def test_a_training_in_a_notebook_draws_one_curve_anew(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = run_in(monkeypatch, SimpleNamespace(kernel=object()))
    history = classifier().fit(DATA, 3, DATA)
    (curve,) = shown.first
    assert isinstance(curve, LiveCurve)
    assert len(shown.pages) == 3  # one an epoch: the steps of these are too few to read
    assert "<svg" in shown.pages[-1]
    assert str(history[-1]) in shown.pages[-1].replace("&amp;", "&")
    assert ">mean of the epoch</text>" in shown.pages[-1]
    assert ">eval_loss</text>" in shown.pages[-1]
    assert capsys.readouterr().out == ""


def test_the_loss_is_read_now_and_then_and_drawn_not_too_often() -> None:
    drawn, read = list[str](), list[int]()

    class Loss:
        def __init__(self, step: int) -> None:
            self.of_step = step

        def __float__(self) -> float:
            read.append(self.of_step)
            return 1.0 / self.of_step

    curve = LiveCurve(lambda curve: lambda: drawn.append(curve._repr_html_()))
    curve.start(1, 1, 200)
    for step in range(1, 201):
        curve.step(Loss(step))
    assert read == list(range(20, 201, 20))
    assert 1 <= len(drawn) <= 3
    curve.end(EpochReport(1, 1, 0.5, {}, 200, 1.0))
    assert drawn[-1].count("L") >= 9


def test_a_long_training_keeps_few_points() -> None:
    curve = LiveCurve(lambda curve: lambda: None)
    curve.start(1, 1, None)
    for step in range(100_000):
        curve.step(step)
    (panel,) = curve._chart().panels
    points = panel.lines["loss"]
    assert 100 < len(points) <= 401
    assert points[-1][0] > 99_000


def test_a_name_of_a_metric_is_text() -> None:
    curve = LiveCurve(lambda curve: lambda: None)
    curve.start(1, 1, None)
    curve.end(EpochReport(1, 1, 0.5, {"<b>": 1.0}, 200, 1.0))
    assert "&lt;b&gt;" in curve._repr_html_()
    assert "<b>" not in curve._repr_html_()
