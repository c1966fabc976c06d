"""Open every page of the built site in a browser, wide and narrow: what is wrong, one line each.

The browser is Chromium as the system has it: `apt-get install chromium` on Debian.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Route, TimeoutError, sync_playwright

WIDTHS = (1280, 390)
# How far the page can be scrolled sideways; only blocks inside of it may be.
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def browser_faults(folder: Path) -> Iterator[str]:
    """A line for each fault of a page of the site in a folder."""
    with chromium() as browser:
        for path in sorted(folder.rglob("*.html")):
            for width in WIDTHS:
                yield from faults_of(browser, path, folder, width)
        yield from faults_of_search(browser, folder)


@contextmanager
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        sys.exit("there is no chromium on the PATH: apt-get install chromium")
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])


def faults_of(browser: Browser, path: Path, folder: Path, width: int) -> Iterator[str]:
    where = f"{path.relative_to(folder)} at {width} pixels"
    problems: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.on("pageerror", lambda error: problems.append(f"an error: {error}"))
    page.on("requestfailed", lambda request: problems.append(f"{request.url} is not loaded"))

    def only_files(route: Route) -> None:
        if route.request.url.startswith("file:"):
            route.continue_()
        else:
            problems.append(f"a request to the outside: {route.request.url}")
            route.abort()

    page.route("**/*", only_files)
    page.goto(path.as_uri())
    if wide := page.evaluate(TOO_WIDE):
        problems.append(f"{wide} pixels too wide")
    if path.stem != "search" and not page.locator("h1").count():
        problems.append("no heading")
    page.close()
    yield from (f"{where}: {problem}" for problem in problems)


def faults_of_search(browser: Browser, folder: Path) -> Iterator[str]:
    """What is wrong with the search, which must find a page by a word of its title."""
    page = browser.new_page()
    page.goto(f"{(folder / 'search.html').as_uri()}?q=glossary")
    try:
        page.locator("#search-results a", has_text="Glossary").first.wait_for(timeout=10_000)
    except TimeoutError:
        yield "search.html: it does not find the glossary"
    page.close()


def faults_of_switch(folder: Path, version: str) -> Iterator[str]:
    """What is wrong with a site of several versions, whose first page must offer one of them."""
    with chromium() as browser:
        page = browser.new_page()
        page.goto((folder / "index.html").as_uri())
        chosen = page.locator(".versions option:checked", has_text=version)
        try:
            chosen.wait_for(state="attached", timeout=10_000)
        except TimeoutError:
            yield f"{folder}: its first page does not offer version {version}"
