"""A share of a table is the same each time, is never empty, and is all of it where all is asked."""

import full
import pytest
from full import how_many, share

ROWS = [f"row {number}" for number in range(300)]


def test_a_share_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full, "FULL", False)
    few = share(ROWS, one_in=3)
    assert few == share(ROWS, one_in=3) != share(ROWS, one_in=3, of="another table")
    assert 60 < len(few) < 140
    assert few == sorted(few, key=ROWS.index)
    assert share(["the only one"], one_in=1000) == ["the only one"]
    monkeypatch.setattr(full, "FULL", True)
    assert share(ROWS, one_in=3) == ROWS


def test_how_many_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELAXJAX_PROGRAMS", raising=False)
    for is_full, wanted in ((False, 15), (True, 750)):
        monkeypatch.setattr(full, "FULL", is_full)
        assert how_many(15) == wanted
        assert how_many(2, 750) == (750 if is_full else 2)
    monkeypatch.setenv("RELAXJAX_PROGRAMS", "7")
    assert how_many(15) == how_many(2, 750) == 7
