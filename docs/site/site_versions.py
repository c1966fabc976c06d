"""The sites of several versions beside each other in a folder, with a switch between them."""

import json
import shutil
from pathlib import Path

from packaging.version import Version

FIRST = """<!doctype html>
<meta charset="utf-8">
<title>relaxjax</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<a href="{newest}/index.html">relaxjax {newest}</a>
"""


def add_version(site: Path, version: str, html: Path) -> None:
    """Put the pages of a version into a site, in the place of older ones of the same version.

    `versions.js` lists what there is, the newest version first, and its pages: the pages of every
    version read it. The site's own index leads to the newest.
    """
    folder = site / version
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(html, folder, ignore=shutil.ignore_patterns(".*"))
    known = sorted((Version(page.parent.name) for page in site.glob("*/index.html")), reverse=True)
    pages = {str(version): pages_of(site / str(version)) for version in known}
    listed = f"const versions = {json.dumps(pages, indent=1)};\n"
    (site / "versions.js").write_text(listed, encoding="utf-8")
    (site / "index.html").write_text(FIRST.format(newest=known[0]), encoding="utf-8")


def pages_of(folder: Path) -> list[str]:
    return sorted(page.relative_to(folder).as_posix() for page in folder.rglob("*.html"))
