"""The README and the pages in docs/ are true: their Python runs and prints what stands below it.

The `python` blocks of a page, or the cells of a notebook, are one program, and a `text` block
behind one of them, before the next, is what that block prints.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from forked_programs import run_program
from page_links import FENCE

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("README.md"), *ROOT.glob("docs/**/*.md")])
PROGRAM = re.compile(
    r"^```(?:python|\{code-cell\} ipython3)\n(.*?)^```$(?:(?:(?!^```).)*^```text\n(.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
BETWEEN = "--- the next block ---"


def printed(blocks: Sequence[str], folder: Path) -> list[str]:
    """What each block prints when all run as one program."""
    program = folder / "page.py"
    program.write_text(f"\nprint({BETWEEN!r}, flush=True)\n".join(blocks))
    result = run_program(program, folder=folder)
    assert result.returncode == 0, result.stderr
    return result.stdout.split(f"{BETWEEN}\n")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if PROGRAM.search(page.read_text())], ids=lambda page: page.name
)
def test_the_python_on_a_page_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    blocks, said = zip(*PROGRAM.findall(page.read_text()), strict=True)
    for output, expected in zip(printed(blocks, tmp_path), said, strict=True):
        if expected:
            assert output.rstrip() == expected.rstrip()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_on_a_page_lead_to_files(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    targets = re.findall(r"\]\(([^)#\s]+)", text) + re.findall(r'src(?:set)?="([^"]+)"', text)
    local = [target for target in targets if "://" not in target]
    assert not [target for target in local if not (page.parent / target).exists()]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub and the site give to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_of_links_are_headings(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", FENCE.sub("", page.read_text()))
    missing = [
        f"{target}#{anchor}"
        for target, anchor in links
        if anchor not in anchors((page.parent / target) if target else page)
    ]
    assert missing == []
