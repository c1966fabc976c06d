"""Take the pictures of the explorer that the README and the page on it show, in Chromium.

    python docs/site/explorer_picture.py

It needs playwright, and the Chromium of the system: `apt-get install chromium`. The program is that
of examples/explore_attention.py.
"""

import runpy
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs" / "figures"
# Each view with what is chosen in it.
VIEWS = {
    "program": "view=program&stage=12&line=0:24",
    "memory": "view=memory",
    "numbers": "view=numbers&row=lv94",
}
SCHEMES = ("light", "dark")
SIZE = {"width": 1200, "height": 620}


def pictures(page: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("chromium-browser"),
            args=["--no-sandbox"],
        )
        for scheme in SCHEMES:
            for view, chosen in VIEWS.items():
                shown = browser.new_page(viewport=SIZE, color_scheme=scheme)
                shown.goto(f"{page.as_uri()}#{chosen}")
                shown.locator(".view").wait_for()
                shown.screenshot(path=FIGURES / f"explorer_{view}_{scheme}.png")
                shown.close()
        browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        found = runpy.run_path(str(ROOT / "examples" / "explore_attention.py"))["explored"](
            numbers=True
        )
        found.save(path)
        pictures(path)
