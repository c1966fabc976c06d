"""The page: one file of the document, and of the scripts and styles that lie in `front`."""

import json
import zlib
from base64 import b64encode
from html import escape
from pathlib import Path

from .document import Document

_FRONT = Path(__file__).parent / "front"

# In the order in which they stand in the page: each uses only what stands before it.
SCRIPTS = (
    "program.js",
    "elements.js",
    "rows.js",
    "selection.js",
    "listing.js",
    "columns.js",
    "travel.js",
    "memory.js",
    "cost.js",
    "graph.js",
    "numbers.js",
    "devices.js",
    "main.js",
)
STYLES = ("theme.css", "layout.css", "views.css")


def page(document: Document) -> str:
    """The page of a document. What the document says is data there, and never part of the page."""
    script = "\n".join(_read(name) for name in SCRIPTS)
    parts = {
        "title": escape(document.title),
        "style": "".join(_read(name) for name in STYLES),
        "script": f'(() => {{\n"use strict";\n{script}}})();\n',
        "document": packed(document),
    }
    text = _read("page.html")
    # In one pass: what is put in may itself look like a name.
    pieces = text.split("{{")
    filled = (piece.partition("}}") for piece in pieces[1:])
    return pieces[0] + "".join(parts[name] + rest for name, _, rest in filled)


def packed(document: Document) -> str:
    """The document in letters and digits: programs repeat themselves, and take a tenth so.

    Whatever a program is called, nothing of it can be read as a part of the page.
    """
    text = json.dumps(document.to_json(), separators=(",", ":"), ensure_ascii=False)
    return b64encode(zlib.compress(text.encode(errors="replace"), 9)).decode()


def _read(name: str) -> str:
    return (_FRONT / name).read_text(encoding="utf-8")
