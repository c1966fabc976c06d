"""What is wrong with a built site: links that lead nowhere, and requests to the outside."""

import re
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# The attributes by which a browser fetches something of itself, by the tags that have them.
FETCHED = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "srcset",
    "video": "src",
}
STYLE_REQUEST = re.compile(r"""(?:@import\s+|url\(\s*)["']?((?:https?:)?//[^"')\s]+)""")


class Page(HTMLParser):
    """A page of the site: its anchors, where it links to, and what a browser fetches for it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        named_only = tag == "link" and given.get("rel") == "canonical"
        if FETCHED.get(tag) in given and not named_only:
            self.fetched.append(given[FETCHED[tag]])


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    @cached_property
    def pages(self) -> dict[Path, Page]:
        return {path: Page(path) for path in sorted(self.folder.rglob("*.html"))}

    def broken(self, page: Page, target: str) -> str | None:
        """What is wrong with a link to the site itself; None where it leads somewhere."""
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            return None
        path = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
        if not path.exists():
            return f"there is no {target}"
        anchor = unquote(parts.fragment)
        if anchor and path in self.pages and anchor not in self.pages[path].anchors:
            return f"there is no anchor {target}"
        return None


def faults(folder: Path) -> list[str]:
    """A line for each fault of the site in a folder."""
    site = Site(folder)
    found = [] if site.pages else [f"{folder}: there is no page"]
    for path, page in site.pages.items():
        where = path.relative_to(site.folder)
        for target in dict.fromkeys(page.links + page.fetched):
            if problem := site.broken(page, target):
                found.append(f"{where}: {problem}")
        found += [
            f"{where}: a request to the outside: {target}"
            for target in page.fetched
            if urlsplit(target).netloc
        ]
    for sheet in [*site.folder.rglob("*.css"), *site.pages]:
        requests = STYLE_REQUEST.findall(sheet.read_text(encoding="utf-8"))
        found += [
            f"{sheet.relative_to(site.folder)}: a request to the outside: {target}"
            for target in requests
        ]
    return found
