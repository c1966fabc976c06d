"""The site: every public name is in its reference, every page in its contents, every link leads."""

import ast
import importlib
import json
import re
from pathlib import Path
from types import ModuleType

import build_site
import demo_picture
import html_check
import page_links
import public_names
import pytest
from site_versions import add_version

import relaxjax
from relaxjax.passes.infrastructure.base import FACTORIES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DIRECTIVE = re.compile(r"^:::+\{py:\w+\} (relaxjax[\w.]*)", re.MULTILINE)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return dict(build_site.all_pages())


def offered(package: str) -> set[str]:
    """What a package's `__init__` imports under its own name, `x as x`, modules left out."""
    module = importlib.import_module(package)
    tree = ast.parse(Path(str(module.__file__)).read_text())
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    return {name for name in names if not isinstance(getattr(module, name), ModuleType)}


def test_every_public_name_is_in_the_reference(pages: dict[str, str]) -> None:
    packages = [package for package in public_names.PACKAGES if package != "relaxjax.script.ir"]
    assert {"relaxjax.losses", "relaxjax.training", "relaxjax.dpl"} <= set(packages)
    for package in packages:
        page = pages[f"api/{package}.md"]
        told = {path.rpartition(".")[2] for path in DIRECTIVE.findall(page)}
        told |= set(re.findall(r"^\| \[`(\w+)`\]", page, re.MULTILINE))
        assert offered(package) - told == set(), package


def test_the_names_of_relaxjax_itself_are_in_the_reference(pages: dict[str, str]) -> None:
    page = pages["api/relaxjax.md"]
    for name in relaxjax.__all__:
        if not isinstance(getattr(relaxjax, name), ModuleType):
            assert f"`{name}`" in page or f"relaxjax.{name}" in page


def test_a_name_is_told_of_once(pages: dict[str, str]) -> None:
    paths = [path for page in pages.values() for path in DIRECTIVE.findall(page)]
    assert len(paths) == len(set(paths)) > 300


def test_every_pass_of_the_catalogue_is_in_the_reference(pages: dict[str, str]) -> None:
    told = set(DIRECTIVE.findall(pages["api/relaxjax.passes.md"]))
    own = [name for name, one in FACTORIES.items() if one.__module__.startswith("relaxjax.")]
    assert {f"relaxjax.passes.{name}" for name in own} <= told


def test_every_package_that_users_import_has_a_page() -> None:
    """Else a new one would be forgotten.

    `tvm` has the names of TVM, `cli` is no library, and `trainable` holds what two packages share.
    """
    folders = {path.parent.name for path in (ROOT / "relaxjax").glob("*/__init__.py")}
    named = {package.partition(".")[2].partition(".")[0] for package in public_names.PACKAGES}
    assert folders - named == {"tvm", "cli", "trainable"}


def test_every_page_is_in_the_contents() -> None:
    listed = set(re.findall(r"^\* .*?\]\(([\w/]+\.md)\)", (DOCS / "index.md").read_text(), re.M))
    files = [page for folder in ("", "notebooks", "zh") for page in (DOCS / folder).glob("*.md")]
    pages = {page.relative_to(DOCS).as_posix() for page in files}
    assert pages - listed == {"index.md"}


def test_the_contents_have_all_kinds_of_pages(pages: dict[str, str]) -> None:
    captions = re.findall(r":caption: (.+)", pages["index.md"])
    assert captions == ["Start here", "Notebooks", "How to", "Reference", "Explanation", "中文"]
    assert "\napi\n" in pages["index.md"]


def test_the_site_says_which_version_it_is_for(pages: dict[str, str]) -> None:
    page = pages["versions.md"]
    assert f"These pages are for relaxjax {relaxjax.__version__};" in page
    assert f"\n## {relaxjax.__version__}" in page
    assert "\nversions\n" in pages["index.md"]


def test_versions_lie_beside_each_other_the_newest_first(tmp_path: Path) -> None:
    site, html = tmp_path / "site", tmp_path / "html"
    html.mkdir()
    (html / "index.html").write_text("the first")
    for version in ("0.9.0", "0.10.0"):
        add_version(site, version, html)
        (html / "new.html").write_text("a page")
    (html / "index.html").write_text("the first, mended")
    add_version(site, "0.9.0", html)
    listed = (site / "versions.js").read_text().removeprefix("const versions = ")
    assert list(json.loads(listed.rstrip(";\n")).items()) == [
        ("0.10.0", ["index.html", "new.html"]),
        ("0.9.0", ["index.html", "new.html"]),
    ]
    assert "url=0.10.0/index.html" in (site / "index.html").read_text()
    assert (site / "0.9.0" / "index.html").read_text() == "the first, mended"


def test_a_picture_follows_the_theme_of_the_site(pages: dict[str, str]) -> None:
    assert "figures/explorer_program_dark.png" in pages["explorer.md"]
    assert "figures/demo_light.svg\n:alt: A model" in pages["index.md"]
    assert ":class: only-dark" in pages["index.md"]
    assert "<picture" not in "".join(pages.values())


def test_an_example_of_a_docstring_is_fenced() -> None:
    text = public_names.as_markdown(
        "Say it.\n\n>>> 1 + 1\n2\n\nArgs:\n    x: a number\n        of two."
    )
    assert "```pycon\n>>> 1 + 1\n2\n```" in text
    assert "**Arguments**\n\n* `x`: a number\n  of two." in text


def test_the_fields_of_a_docstring_are_a_list() -> None:
    text = public_names.as_markdown("Options.\n\nname: the name\n    of it.\nwidth: a number.")
    assert text == "Options.\n\n* `name`: the name\n  of it.\n* `width`: a number."


def test_links_leave_the_checkout_only_where_there_is_an_address() -> None:
    text = "![a](x.svg) [b `c`](tests/t.py) [d](https://e.org/f) [g](#h)\n```\n[k](l)\n```\n"
    away = page_links.rewritten(text, lambda t: page_links.absolute(t, "docs", None))
    assert away == " b `c` [d](https://e.org/f) [g](#h)\n```\n[k](l)\n```\n"
    there = page_links.rewritten(text, lambda t: page_links.absolute(t, "docs", "https://r.org/p"))
    assert "[b `c`](https://r.org/p/blob/main/docs/tests/t.py)" in there


def test_the_readme_of_a_package_index_has_no_relative_link() -> None:
    text = page_links.FENCE.sub("", page_links.long_description())
    targets = [found[3] for found in page_links.LINK.finditer(text)]
    assert targets
    assert [target for target in targets if "://" not in target and target[0] != "#"] == []
    assert "<picture" not in text
    assert "*Left" not in text


def test_the_readme_s_pictures_are_at_the_address_where_there_is_one() -> None:
    text = page_links.readme("https://r.org/p")
    assert 'srcset="https://r.org/p/raw/main/docs/figures/demo_dark.svg"' in text
    assert "](https://r.org/p/raw/main/docs/suite.svg)" in text
    assert "(https://r.org/p/blob/main/docs/tutorial.md)" in text


@pytest.mark.parametrize("name", demo_picture.PICTURES)
def test_the_picture_shows_what_the_demo_prints(name: str) -> None:
    """Else: python docs/site/demo_picture.py."""
    drawn = demo_picture.picture(demo_picture.PICTURES[name])
    assert (DOCS / "figures" / name).read_text() == drawn
    assert "gv_adjoint" in drawn


OUTSIDE = "a request to the outside:"
PAGE = '<html><body><h1 id="top">x</h1>{}</body></html>'


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="other.html">x</a>', "there is no other.html"),
        ('<a href="#nowhere">x</a>', "there is no anchor #nowhere"),
        ('<img src="picture.svg">', "there is no picture.svg"),
        ('<script src="https://e.org/x.js"></script>', f"{OUTSIDE} https://e.org/x.js"),
        ("<style>@import url('//e.org/f.css')</style>", f"{OUTSIDE} //e.org/f.css"),
    ],
)
def test_a_fault_of_a_built_page_is_found(tmp_path: Path, body: str, fault: str) -> None:
    (tmp_path / "index.html").write_text(PAGE.format(body))
    assert html_check.faults(tmp_path) == [f"index.html: {fault}"]


def test_a_built_page_without_faults_has_none(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        PAGE.format(
            '<a href="#top">x</a><a href="https://e.org">y</a><a href="sub/b.html#top">z</a>'
        )
    )
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.html").write_text(PAGE.format(""))
    assert html_check.faults(tmp_path) == []


def test_a_site_without_pages_is_a_fault(tmp_path: Path) -> None:
    assert html_check.faults(tmp_path) == [f"{tmp_path}: there is no page"]
