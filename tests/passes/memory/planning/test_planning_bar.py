"""The bar of a search for a plan."""

import io
import sys

import pytest

from relaxjax.passes.memory.planning import planning_bar
from relaxjax.passes.memory.planning.plan import Plan


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, unseen: float) -> str:
    """What is written in a search of two plans."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(planning_bar, "_UNSEEN", unseen)
    counts = iter((3 * 2**20, 5 * 2**20))
    plan = Plan.__new__(Plan)
    with planning_bar.planning_bar(lambda _: next(counts), "main_adjoint") as figure:
        assert [figure(plan), figure(plan)] == [3 * 2**20, 5 * 2**20]
    return stream.getvalue()


def test_plans_count_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal(), 0.0)
    assert "planning the memory of main_adjoint" in text
    assert "2plan [" in text
    assert "least=3.0 MiB" in text


@pytest.mark.parametrize(("stream", "unseen"), [(io.StringIO(), 0.0), (Terminal(), 60.0)])
def test_nothing_is_shown_elsewhere_or_of_a_short_search(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, unseen: float
) -> None:
    assert shown(monkeypatch, stream, unseen).strip() == ""
