"""Script text shows itself: plain, in colour, and as HTML, with and without pygments."""

import sys

import pytest

from relaxjax.ir.highlight import ScriptText, painted

TEXT = ScriptText('\nx = R.const("<a>")  # 层')


@pytest.fixture
def no_pygments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygments.formatters", None)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output claims to be a terminal."""
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)


def test_it_is_an_ordinary_string() -> None:
    assert isinstance(TEXT, str)
    assert TEXT.strip() == 'x = R.const("<a>")  # 层'


def test_output_that_is_no_terminal_gets_the_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    TEXT.show()
    assert capsys.readouterr().out == f"{TEXT}\n"


def test_a_terminal_gets_colours(capsys: pytest.CaptureFixture[str], terminal: None) -> None:
    pytest.importorskip("pygments")
    TEXT.show()
    shown = capsys.readouterr().out
    assert "\x1b[" in shown
    assert "const" in shown


@pytest.mark.parametrize(("value", "plain"), [("1", True), ("", False)])
def test_a_terminal_without_colours(
    capsys: pytest.CaptureFixture[str],
    terminal: None,
    monkeypatch: pytest.MonkeyPatch,
    value: str,
    plain: bool,
) -> None:
    """As https://no-color.org has it, for every program."""
    pytest.importorskip("pygments")
    monkeypatch.setenv("NO_COLOR", value)
    TEXT.show()
    assert ("\x1b[" not in capsys.readouterr().out) == plain


@pytest.mark.parametrize(("unwanted", "coloured"), [("", True), ("1", False)])
def test_colours_are_asked_for_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    unwanted: str,
    coloured: bool,
) -> None:
    pytest.importorskip("pygments")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", unwanted)
    TEXT.show()
    assert ("\x1b[" in capsys.readouterr().out) == coloured
    assert painted("x", "bold") == ("\x1b[1mx\x1b[0m" if coloured else "x")


def test_a_terminal_gets_the_plain_text_without_pygments(
    capsys: pytest.CaptureFixture[str], terminal: None, no_pygments: None
) -> None:
    TEXT.show()
    assert capsys.readouterr().out == f"{TEXT}\n"


@pytest.mark.parametrize("style", ["light", "dark", "solarized-dark"])
def test_a_style_chooses_the_colours(style: str) -> None:
    pytest.importorskip("pygments")
    coloured = TEXT.ansi(style)
    assert coloured is not None
    assert "\x1b[38;5;" in coloured
    assert coloured != TEXT.ansi("ansi")


def test_a_wrong_style_is_an_error() -> None:
    pytest.importorskip("pygments")
    with pytest.raises(ValueError, match=r'no style `shiny`: write "ansi", "light", .* monokai'):
        TEXT.ansi("shiny")


def test_html_carries_its_own_style() -> None:
    pytest.importorskip("pygments")
    html = TEXT.html()
    assert 'style="' in html
    assert "class=" not in html.replace('class="highlight"', "")
    assert "&lt;a&gt;" in html
    assert TEXT._repr_html_() == html


def test_html_without_pygments_is_escaped(no_pygments: None) -> None:
    assert TEXT.html() == "<pre>\nx = R.const(&quot;&lt;a&gt;&quot;)  # 层</pre>"
