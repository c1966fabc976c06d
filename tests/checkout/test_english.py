"""The README and the pages in docs/ are easy to read: short paragraphs, the field's own words."""

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
from page_links import FENCE, LINK

ROOT = Path(__file__).parents[2]
# Those that programs write are made of docstrings, which are read like the others.
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
LONGEST = 90  # words in a paragraph
MEDIAN = 12
NOTES = (Path(__file__).parent / "unwanted_words.txt").read_text().splitlines()
UNWANTED = dict(line.split(" = ") for line in NOTES if line and line[0] != "#")


def prose(text: str) -> str:
    """The text without programs, tables, and the targets of links."""
    text = re.sub(r"^(\||    ).*$", "", FENCE.sub("\n", text), flags=re.MULTILINE)
    return LINK.sub(r"\2", text)


def paragraphs(text: str) -> Iterator[str]:
    """Each paragraph, and each item of a list."""
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:\*|\d+\.) )", prose(text)):
        yield " ".join(part.split())


def unwanted(text: str) -> list[str]:
    """Each unwanted word of a text, and what to write instead."""
    words = re.sub(r"`[^`\n]*`", "", prose(text))
    return [
        f"{found[0]!r}: write {better}"
        for pattern, better in UNWANTED.items()
        for found in re.finditer(rf"\b{pattern}\b", " ".join(words.split()), re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paragraphs_are_short(page: Path) -> None:
    long = [part for part in paragraphs(page.read_text()) if len(part.split()) > LONGEST]
    assert [f"{len(part.split())} words: {part[:60]}" for part in long] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_unwanted_words_do_not_come_back(page: Path) -> None:
    assert unwanted(page.read_text()) == []


def test_half_of_the_paragraphs_have_few_words() -> None:
    """`pytest -rP` prints the figures."""
    lengths = {
        page.relative_to(ROOT).as_posix(): [
            len(part.split()) for part in paragraphs(page.read_text()) if part
        ]
        for page in PAGES
    }
    for name, words in lengths.items():
        print(f"{name:<36} median {median(words):4.1f}  longest {max(words):3}")
    whole = [count for words in lengths.values() for count in words]
    print(f"{'all pages':<36} median {median(whole):4.1f}  longest {max(whole):3}")
    assert median(whole) <= MEDIAN


def test_what_is_unwanted_is_found() -> None:
    text = "It goes\nby the clock. `temp` and\n```\nin the place of\n```\nWhoever."
    assert unwanted(text) == [
        "'Whoever': write who, or \"to ..., write ...\"",
        "'goes by': write depends on",
    ]


def test_a_long_paragraph_is_found() -> None:
    item = f"* {'word ' * 95}\n* {'word ' * 80}\n\n| {'cell ' * 99} |\n"
    assert [len(part.split()) for part in paragraphs(item) if part] == [96, 81]


def test_the_readme_fits_a_screen() -> None:
    assert max(map(len, (ROOT / "README.md").read_text().splitlines())) <= 100
