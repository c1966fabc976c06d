"""Links in Markdown, written anew for where a page is read: on the site, or on a package index.

A page in the checkout links to its neighbours by relative paths, which lead nowhere elsewhere. So
a link there becomes an address of the repository that `project.urls.Repository` in pyproject.toml
names; while it names none, the link's text alone is left.
"""

import posixpath
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
PICTURE = re.compile(r"^<picture>.*?^</picture>\n+(?:\*[^*]+\*\n+)?", re.DOTALL | re.MULTILINE)
SOURCE = re.compile(r'(src|srcset)="([^"]+)"')
PICTURES = (".svg", ".png")
FENCE = re.compile(r"^(```|~~~).*?^\1$", re.DOTALL | re.MULTILINE)

Resolve = Callable[[str], str | None]


def repository() -> str | None:
    """The address of the project's repository; None while it has none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: str | None = project.get("urls", {}).get("Repository")
    return found and found.rstrip("/")


def absolute(target: str, folder: str, address: str | None) -> str | None:
    """A link's target as an address; None where it is a file of a repository without one.

    `folder` is that of the page, relative to the root of the checkout.
    """
    if "://" in target or target.startswith("#"):
        return target
    path = posixpath.normpath(posixpath.join(folder, target))
    return address and f"{address}/{'raw' if path.endswith(PICTURES) else 'blob'}/main/{path}"


def rewritten(text: str, resolve: Resolve) -> str:
    """The text with each link's target resolved; a link without a target is its text alone."""

    def link(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        words = LINK.sub(link, words)
        there = resolve(target)
        if there is None:
            return "" if picture else words
        return f"{picture}[{words}]({there})"

    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(link, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(link, text[end:])])


def long_description() -> str:
    """The README for a package index, which has no files beside it."""
    return readme(repository())


def readme(address: str | None) -> str:
    """The README with its links and pictures at an address; without one they are left out."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    if address is None:
        text = PICTURE.sub("", text)
    text = SOURCE.sub(lambda found: f'{found[1]}="{absolute(found[2], "", address)}"', text)
    return rewritten(text, lambda target: absolute(target, "", address))
