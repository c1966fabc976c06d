"""Places in the user's text, and how errors show them."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from relaxjax.ir.span import Span, located


@pytest.fixture
def source(tmp_path: Path) -> str:
    file = tmp_path / "model.py"
    file.write_text("first = 1\n    lv = R.add(x, y)  # here\n\n")
    return str(file)


def test_a_span_reads_as_file_line_and_column_counted_from_one() -> None:
    assert str(Span("model.py", 12, 4)) == "model.py:12:5"


def test_a_cell_of_a_notebook_is_named_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = {"/tmp/ipykernel_7/123.py": ("Cell", "In[3]")}
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=cells.get))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert str(Span("/tmp/ipykernel_7/123.py", 12, 4)) == "In[3]:12:5"
    assert str(Span("model.py", 12, 4)) == "model.py:12:5"
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert Span("model.py", 12).shown_file == "model.py"


def test_carets_stand_under_the_stretch(source: str) -> None:
    excerpt = Span(source, 2, 9, 2, 20).excerpt()
    assert excerpt == f"  at {source}:2:10\n    lv = R.add(x, y)  # here\n         ^^^^^^^^^^^"


def test_carets_reach_to_the_end_of_the_line_where_the_stretch_goes_on(source: str) -> None:
    assert Span(source, 1, 6, 2, 3).excerpt().endswith("first = 1\n          ^^^")


def test_an_excerpt_without_source_is_the_place_alone(source: str) -> None:
    assert Span("nowhere.py", 3).excerpt() == "  at nowhere.py:3:1"
    assert Span(source, 3).excerpt() == f"  at {source}:3:1"
    assert Span(source, 99).source_line() == ""


def test_an_error_bears_the_innermost_place_and_only_that(source: str) -> None:
    inner, outer = Span(source, 2, 4, 2, 6), Span(source, 1)
    with pytest.raises(ValueError, match="wrong") as caught, located(outer), located(inner):
        raise ValueError("wrong")
    assert caught.value.__notes__ == [inner.excerpt()]


def test_an_error_without_a_place_stays_as_it_is() -> None:
    with pytest.raises(ValueError, match="wrong") as caught, located(None):
        raise ValueError("wrong")
    assert not hasattr(caught.value, "__notes__")
