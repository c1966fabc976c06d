"""Build the documentation site: `python3 dev.py docs` runs this, and takes the same options.

The pages are those of docs/, the README of the examples with the examples themselves, and an API
reference that is written out of the docstrings. Sphinx makes them into build/docs/html, where
a warning is an error; then every link, anchor and picture of the result is followed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import html_check
import page_links
import public_names
from site_versions import add_version

import relaxjax

ROOT = page_links.ROOT
DOCS = ROOT / "docs"
OUT = ROOT / "build" / "docs"
SECTION = re.compile(r"^## (.+)\n((?:(?!^## ).*\n?)*)", re.MULTILINE)
WRITTEN = {
    "Reference": ["api", "examples", "versions"]
}  # pages that are made here, by section of the index


def main() -> int:
    parser = argparse.ArgumentParser(prog="dev.py docs", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help="default: build/docs")
    parser.add_argument("--browser", action="store_true", help="open each page in Chromium, too")
    parser.add_argument("--site", type=Path, help="add this version to those in a folder")
    options = parser.parse_args()
    out: Path = options.out.absolute()
    write_pages(out / "pages")
    html = out / "html"
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--nitpicky"]
    command += ["--quiet", "--fresh-env", "--jobs", "auto", "-c", str(ROOT / "docs" / "site")]
    if options.site:
        command += ["-A", "in_site=1", "-D", "html_js_files=versions.js"]
    jupyter = str(out / "jupyter")  # what the notebooks' kernels write, else in the home
    places = {"IPYTHONDIR": jupyter, "JUPYTER_RUNTIME_DIR": jupyter}
    env = {"JAX_PLATFORMS": "cpu", **places, **os.environ}
    status = subprocess.run([*command, out / "pages", html], check=False, env=env).returncode
    if status:
        return status
    if options.site:
        add_version(options.site.absolute(), relaxjax.__version__, html)
    faults = html_check.faults(html)
    if options.browser:
        import browser_check  # it needs a package that is for this alone

        # In a site of several versions a page reads their list, which lies above it.
        folder = options.site.absolute() / relaxjax.__version__ if options.site else html
        faults += browser_check.browser_faults(folder)
        if options.site:
            faults += browser_check.faults_of_switch(folder.parent, relaxjax.__version__)
    if faults:
        print(*faults, sep="\n", file=sys.stderr)
        return 1
    print(f"open {(options.site or html) / 'index.html'}")
    return 0


def write_pages(folder: Path) -> None:
    """Write what Sphinx reads into a folder, and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    for path, text in all_pages():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for picture in (*DOCS.rglob("*.svg"), *DOCS.rglob("*.png")):
        copy = folder / picture.relative_to(DOCS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, copy)


def all_pages() -> Iterator[tuple[str, str]]:
    """Every page of the site: its path and its text."""
    for page in sorted(DOCS.rglob("*.md")):
        path = page.relative_to(DOCS).as_posix()
        text = page.read_text(encoding="utf-8")
        text = for_site(text, page)
        if path == "index.md":
            text = with_contents(text)
        if path == "operators.md":
            text += contents("operators/*")
        if path == "passes.md":  # it is made of docstrings
            text = public_names.as_markdown(text)
        yield path, text
    yield "examples.md", examples()
    yield "versions.md", versions()
    yield from public_names.pages()


def for_site(text: str, page: Path) -> str:
    """The text of a page whose links lead within the site, or to the repository."""
    address = page_links.repository()
    folder = page.parent.relative_to(ROOT).as_posix()

    def resolve(target: str) -> str | None:
        path = (page.parent / target.partition("#")[0]).resolve()
        if "://" in target or target.startswith("#") or (DOCS in path.parents and path.exists()):
            return target
        if path.is_relative_to(ROOT / "examples"):
            to_root = os.path.relpath(DOCS, page.parent)
            anchor = "" if path.suffix == ".md" else f"#{path.stem}"
            return f"{to_root}/examples.md{anchor}"
        return page_links.absolute(target, folder, address)

    return page_links.rewritten(page_links.PICTURE.sub(in_both_themes, text), resolve)


def in_both_themes(picture: re.Match[str]) -> str:
    """A <picture> as the theme of the site has it, whose reader switches between light and dark."""
    (dark,) = re.findall(r'srcset="([^"]+)"', picture[0])
    (light,) = re.findall(r'src="([^"]+)"', picture[0])
    (words,) = re.findall(r'alt="([^"]+)"', picture[0])
    return "".join(
        f"```{{image}} {path}\n:alt: {words}\n:class: only-{theme}\n```\n\n"
        for path, theme in ((light, "light"), (dark, "dark"))
    )


def examples() -> str:
    """The README of the examples, and each of them."""
    folder = ROOT / "examples"
    address = page_links.repository()

    def resolve(target: str) -> str | None:
        path = folder / target
        own = path.parent == folder and path.suffix == ".py"
        return f"#{path.stem}" if own else page_links.absolute(target, "examples", address)

    sources = [
        f"## {path.stem}\n\n```python\n{path.read_text(encoding='utf-8')}```\n"
        for path in sorted(folder.glob("*.py"))
    ]
    readme = page_links.rewritten((folder / "README.md").read_text(encoding="utf-8"), resolve)
    return "\n".join([readme, *sources])


def versions() -> str:
    """Which version the site is for, how to get that of another, and what changed."""
    address = page_links.repository()

    def resolve(target: str) -> str | None:
        page = target.removeprefix("docs/")
        return page if page != target else page_links.absolute(target, ".", address)

    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("\n## ")[2]
    return (
        f"# Versions\n\nThese pages are for relaxjax {relaxjax.__version__}; `relaxjax --version` "
        "prints yours. `python3 dev.py docs --site FOLDER` in a checkout of each version puts its "
        "pages into one folder, where the sidebar switches between them. "
        "[Compatibility](compatibility.md) says what a new version keeps.\n\n"
        f"## {page_links.rewritten(changes, resolve)}"
    )


def with_contents(index: str) -> str:
    """The index with the tables of contents that Sphinx reads: a part for each of its sections."""
    parts = [index]
    for title, body in SECTION.findall(index):
        listed = re.findall(r"^\* .*?\]\(([\w/]+)\.md\)", body, re.MULTILINE)
        parts.append(contents(*WRITTEN.get(title, []), *listed, caption=title))
    return "".join(parts)


def contents(*pages: str, caption: str = "") -> str:
    """A hidden table of contents, which puts pages into the sidebar."""
    options = [":hidden:", ":glob:", *([f":caption: {caption}"] if caption else [])]
    return "\n" + "\n".join(["```{toctree}", *options, "", *pages, "```", ""])


if __name__ == "__main__":
    sys.exit(main())
