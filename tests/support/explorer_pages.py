"""A browser for the explorer's page, where playwright is installed and Chromium is.

`apt-get install chromium`; tests that ask for it are skipped elsewhere.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
from explored_loss import loss

from relaxjax import explore, value_and_grad
from relaxjax.explorer import Explorer
from relaxjax.explorer.document import Communication, Exchange

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explorer") / "report.html"
    step = value_and_grad(loss, memory_policy="balanced")
    explore(step, jnp.ones((16, 16)), jnp.ones((512, 16))).save(path)
    return path


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a loss that was run, with values that are infinite, as if on two devices."""
    path = tmp_path_factory.mktemp("explorer") / "ran.html"
    w = 0.3 * jnp.eye(16)
    found = explore(loss, w, jnp.full((512, 16), jnp.inf), profile=True, numbers=True)
    one = Exchange("all-reduce", 1024, 1, ("data",), "backward", "w_adjoint", 0, False)
    Explorer(replace(found.document, communication=Communication({"data": 2}, (one,)))).save(path)
    return path


@pytest.fixture
def opened(browser: Any, report: Path) -> Iterator[Callable[..., Any]]:
    """Open a page; whatever it does wrong is found at the end."""
    wrong: list[str] = []
    pages = []

    def open_page(
        fragment: str = "", path: Path = report, width: int = 1280, **options: Any
    ) -> Any:
        page = browser.new_page(viewport={"width": width, "height": 800}, **options)
        page.on("pageerror", lambda error: wrong.append(f"an error: {error}"))
        page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
        page.on("request", lambda asked: wrong.append(asked.url) if not is_own(asked.url) else None)
        page.goto(f"{path.as_uri()}#{fragment}")
        page.set_default_timeout(5000)
        page.locator(".view").wait_for()
        pages.append(page)
        return page

    def is_own(url: str) -> bool:
        return url.split("#")[0] == report.as_uri() or url.startswith(("file:///", "about:"))

    yield open_page
    for page in pages:
        page.close()
    assert not wrong
