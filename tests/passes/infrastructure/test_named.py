"""Passes by their names: those that packages bring as entry points, and those that are broken."""

import re
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from relaxjax.cli import main
from relaxjax.passes.infrastructure import named
from relaxjax.passes.infrastructure.base import FACTORIES
from relaxjax.passes.infrastructure.named import get_pass, import_packaged
from relaxjax.passes.infrastructure.pipeline import PipelineError, parse_pipeline

PACKAGE = """
from relaxjax.passes import pass_factory

@pass_factory(opt_level=0)
def OfThePackage(mod, depth: int = 1):
    \"\"\"Do nothing at all.\"\"\"
    return mod

number = 3
"""


@pytest.fixture(autouse=True)
def _as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "package_of_passes.py").write_text(PACKAGE)
    (tmp_path / "broken_package_of_passes.py").write_text("import nothing_of_this_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = dict(FACTORIES)
    import_packaged.cache_clear()
    yield
    FACTORIES.clear()
    FACTORIES.update(before)
    import_packaged.cache_clear()
    for name in ("package_of_passes", "broken_package_of_passes"):
        sys.modules.pop(name, None)


def install(monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    """Let packages that are installed name these entry points."""
    found = [EntryPoint(name, value, named.GROUP) for name, value in points.items()]
    monkeypatch.setattr(named, "entry_points", lambda group: found if group == named.GROUP else [])


@pytest.mark.parametrize("value", ["package_of_passes", "package_of_passes:OfThePackage"])
def test_a_pass_of_a_package_is_found_by_its_name(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    with pytest.raises(KeyError, match="there is no pass `OfThePackage`"):
        get_pass("OfThePackage")
    import_packaged.cache_clear()
    install(monkeypatch, mine=value)
    (item,) = parse_pipeline("OfThePackage{depth=2}").passes
    assert repr(item) == "OfThePackage(depth=2)"
    assert get_pass("OfThePackage").opt_level == 0


def test_packages_are_imported_only_for_a_name_that_is_none_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, mine="package_of_passes")
    parse_pipeline("Normalize")
    get_pass("Normalize")
    assert "package_of_passes" not in sys.modules


def test_the_list_of_passes_has_those_of_packages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, mine="package_of_passes")
    assert main(["passes", "OfThe*"]) == 0
    assert capsys.readouterr().out == "OfThePackage  0  Do nothing at all.\n"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (
            "broken_package_of_passes",
            "cannot be imported: ModuleNotFoundError: No module named 'nothing_of_this_name'",
        ),
        ("package_of_passes:Other", "cannot be imported: AttributeError: "),
        (
            "package_of_passes:number",
            "is an int: name a module, or a pass that is declared by `pass_factory`",
        ),
    ],
)
def test_a_broken_one_is_warned_of_and_the_others_are_there(
    monkeypatch: pytest.MonkeyPatch, value: str, problem: str
) -> None:
    install(monkeypatch, broken=value, mine="package_of_passes")
    message = f"the passes `broken` are left out: `{value}` {problem}"
    with pytest.warns(UserWarning, match=re.escape(message)):
        assert get_pass("OfThePackage").name == "OfThePackage"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        with pytest.raises(PipelineError, match="there is no pass `Unknown`"):
            parse_pipeline("Unknown")


def test_the_warning_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As it is installed: entry points are read from its folder of metadata."""
    folder = tmp_path / "their_passes-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: their-passes\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[relaxjax.passes]\ntheirs = broken_package_of_passes\n"
    )
    with pytest.warns(UserWarning, match="the passes `theirs` of the package `their-passes` are"):
        import_packaged()
