"""What a release is made of agrees with itself: versions, extras, groups, names of files."""

import re
import tomllib
from pathlib import Path
from typing import Any

from relaxjax.cli.doctor import EXTRAS

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PROJECT["project"]["version"]


def text(name: str) -> str:
    return (ROOT / name).read_text()


def test_the_version_stands_in_the_list_of_changes_and_in_the_citation() -> None:
    (newest, *_) = re.findall(r"^## (\S+), ", text("CHANGELOG.md"), re.MULTILINE)
    assert newest == VERSION
    assert f"\nversion: {VERSION}\n" in text("CITATION.cff")


def test_the_files_of_the_version_are_kept() -> None:
    """So that the next one is tried on them."""
    assert (ROOT / "tests" / "kept" / VERSION / "archive.safetensors").exists()


def test_the_versions_of_other_packages_are_those_of_the_page() -> None:
    bounds = dict(re.findall(r"(\w+)>=([\d.]+)", " ".join(PROJECT["project"]["dependencies"])))
    page = text("docs/compatibility.md")
    for package in ("jax", "numpy", "optax"):
        row = rf"\| {package}(, \w+)? \| {re.escape(bounds[package])} \|"
        assert re.search(row, page), package
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert f"| Python | {oldest} |" in page


def test_the_formats_of_files_are_those_of_the_page() -> None:
    from relaxjax.script.archive import _ARCHIVE
    from relaxjax.training.saving.checkpoint import FORMAT

    page = text("docs/compatibility.md")
    assert f"`{_ARCHIVE.mark}`" in page
    assert f"`{FORMAT}`" in page


def test_doctor_tells_what_each_extra_is_for() -> None:
    assert set(EXTRAS) == set(PROJECT["project"]["optional-dependencies"])


def test_the_ci_runs_what_a_person_runs() -> None:
    assert "- run: .ci/run\n" in text(".github/workflows/ci.yml")


def test_what_the_ci_does_not_compile_as_for_users_has_no_test_that_asks_for_it() -> None:
    plain = re.findall(r'-m "not as_users".* tests/(.*)', text(".ci/run"))
    folders = [name for names in plain for name in names.strip("{}").split(",")]
    assert folders == ["checkout", "type_checkers", "explorer"]
    files = [path for name in folders for path in (ROOT / "tests" / name).rglob("test_*.py")]
    marked = re.compile(r"^\s*(@|pytestmark = )pytest\.mark\.as_users", re.MULTILINE)
    assert not [path.name for path in files if marked.search(path.read_text())]


def test_no_file_names_an_address_of_a_project_or_a_registry() -> None:
    """Nobody knows yet where the project will be."""
    names = ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "pyproject.toml"]
    assert not re.findall(r"https?://\S+", "".join(map(text, names)))
