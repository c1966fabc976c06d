"""The explorer's page for people who do not see it, or not well: axe finds nothing to mend."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from full import FULL


@pytest.fixture(scope="module")
def axe_script() -> str:
    base = pytest.importorskip("axe_playwright_python.base", reason="axe is not installed")
    return str(base.AXE_SCRIPT)


def violations(page: Any, axe_script: str) -> Iterator[str]:
    """What axe finds in the view that is shown: each rule, and the first place that breaks it."""
    page.evaluate(axe_script)
    for rule in page.evaluate("axe.run()")["violations"]:
        yield f"{rule['id']}: {rule['nodes'][0]['html']}: {rule['nodes'][0]['failureSummary']}"


SHOWN = [("light", 1280), ("dark", 390), ("dark", 1280), ("light", 390)]


@pytest.mark.parametrize(("scheme", "width"), SHOWN if FULL else SHOWN[:2])
def test_axe_finds_no_violation(
    opened: Callable[..., Any], ran: Path, axe_script: str, scheme: str, width: int
) -> None:
    page = opened("line=0:11", path=ran, width=width, color_scheme=scheme)
    for tab in page.get_by_role("tab").all():
        tab.click()
        assert not list(violations(page, axe_script)), tab.inner_text()


def test_axe_would_find_one(opened: Callable[..., Any], axe_script: str) -> None:
    page = opened()
    page.evaluate("document.querySelector('.tabs button').style.color = '#ccc'")
    page.evaluate("document.documentElement.removeAttribute('lang')")
    found = [one.split(":")[0] for one in violations(page, axe_script)]
    assert found == ["color-contrast", "html-has-lang"]
