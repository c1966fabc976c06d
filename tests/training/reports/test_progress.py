"""What is told of a training while it runs."""

import sys
from typing import Any

import pytest
from small_models import Told, batch, classifier

from relaxjax.training import EpochReport, Lines
from relaxjax.training.reports.progress import Bars, reporter_for_output

DATA = [batch(seed) for seed in range(3)]


def test_a_report_is_one_line() -> None:
    report = EpochReport(3, 15, 0.12345, {"accuracy": 0.9718, "perplexity": 1.5}, 22, 0.1)
    assert str(report) == (
        "epoch  3/15  loss 0.1235  accuracy  97.18%  perplexity 1.5000  22 steps, 220 steps/s"
    )
    assert str(EpochReport(1, 2, 1.0, {}, 5, 5.0)) == "epoch 1/2  loss 1.0000  5 steps, 1 steps/s"


def test_the_reporter_is_told_everything() -> None:
    told = Told()
    reports = classifier().fit(DATA, 2, DATA, told)
    assert told.started == [(1, 2, 3), (2, 2, 3)]
    assert len(told.losses) == 6
    assert told.reports == reports
    assert [(r.epoch, r.epochs, r.steps) for r in reports] == [(1, 2, 3), (2, 2, 3)]
    assert all(0 <= (r.accuracy or 0) <= 1 for r in reports)


def test_the_reporter_expects_as_many_steps_as_last_time_where_nobody_knows() -> None:
    told = Told()
    classifier().fit(lambda epoch: iter(DATA), 2, reporter=told)
    assert told.started == [(1, 2, None), (2, 2, 3)]


@pytest.mark.parametrize("reporter", [3, print, Lines])
def test_a_reporter_that_is_none(reporter: Any) -> None:
    match = r"`reporter` must have the methods start, step and end, as Lines\(\) has them, but"
    with pytest.raises(TypeError, match=match):
        classifier().fit(DATA, reporter=reporter)


def test_plain_lines_where_the_output_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    reports = classifier().fit(DATA, 2)
    assert capsys.readouterr().out.splitlines() == [str(report) for report in reports]


def test_bars_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    reporter = reporter_for_output()
    assert isinstance(reporter, Bars)
    reports = classifier().fit(DATA * 10, 2, DATA, reporter=reporter)
    out, err = capsys.readouterr()
    assert str(reports[0]) in out
    assert "epoch 1/2" in err
    assert "loss=" in err
    assert f"eval_loss={reports[0].metrics['eval_loss']:.4f}" in err


def test_lines_on_a_terminal_without_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert isinstance(reporter_for_output(), Lines)
