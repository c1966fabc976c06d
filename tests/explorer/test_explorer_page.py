"""The page of the explorer as text: one file, in which a program is data. No browser is needed."""

import json
import re
import zlib
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
from hostile_program import HOSTILE, hostile_document

import relaxjax.explorer.page
from relaxjax import explore
from relaxjax.explorer import Explorer
from relaxjax.explorer.page import SCRIPTS, STYLES, page

FRONT = Path(relaxjax.explorer.page.__file__).parent / "front"
MOST_LINES = 400


class Elements(HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag == "script"
        if self._inside:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1] += data


def loss(w: Any, x: Any) -> Any:
    return jnp.sum(jnp.tanh(x @ w) ** 2)


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    return explore(loss, jnp.ones((4, 4)), jnp.ones((8, 4)), title="a loss")


def test_the_page_holds_the_document(explorer: Explorer) -> None:
    packed, _ = Elements(explorer.html()).scripts
    assert json.loads(zlib.decompress(b64decode(packed))) == explorer.to_json()


def test_the_page_asks_for_nothing(explorer: Explorer) -> None:
    text = explorer.html()
    for tag, attributes in Elements(text).tags:
        assert tag not in ("link", "iframe", "img", "object")
        assert not {"src", "href"} & set(attributes)
    addresses = set(re.findall(r"https?://[^\s\"']+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, which nobody asks for
    assert "default-src 'none'" in text
    assert "innerHTML" not in text


def test_a_hostile_program_is_data() -> None:
    text = page(hostile_document())
    found = Elements(text)
    assert len(found.scripts) == 2
    assert "img" not in dict(found.tags)
    assert HOSTILE not in text
    data = json.loads(zlib.decompress(b64decode(found.scripts[0])))
    assert data["title"] == HOSTILE
    assert data["lines"][2][1] == "😀_adjoint"


def test_a_page_is_saved_and_shown_in_a_notebook(explorer: Explorer, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    explorer.save(path)
    assert path.read_text() == explorer.html()
    ((tag, attributes),) = Elements(explorer._repr_html_()).tags
    assert tag == "iframe"
    assert attributes["srcdoc"] == explorer.html()
    assert repr(explorer).startswith("<Explorer of loss_adjoint: ")


def test_the_page_of_a_small_program_is_small(explorer: Explorer) -> None:
    assert len(explorer.html()) < 120_000


def test_every_part_of_the_page_is_in_it_and_short() -> None:
    parts = {path.name: path.read_text() for path in FRONT.iterdir()}
    assert set(parts) == {*SCRIPTS, *STYLES, "page.html"}
    assert not {name for name, text in parts.items() if len(text.splitlines()) > MOST_LINES}
