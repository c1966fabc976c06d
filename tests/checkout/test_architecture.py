"""The architecture: where files lie, how large they are, and what they may import.

Import-linter holds the layers; this file holds what it cannot see.
"""

import ast
import os
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOP_LEVEL = ("losses", "optim", "passes")
MOST_LINES = 450
MOST_LINES_OF_A_FUNCTION = 50


def source_files() -> list[Path]:
    folders = ("relaxjax", *TOP_LEVEL)
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    # Python 3.13 follows links here, older ones do not: each file counts once.
    own = [path for path in found if path.resolve() == path]
    return sorted([*own, ROOT / "dev.py"])


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def imports(path: Path) -> tuple[str, ...]:
    """The modules that a file names in absolute imports, function-level imports included."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def test_the_sources_are_found() -> None:
    """Every test here would pass on an empty list."""
    names = {shown(path) for path in source_files()}
    assert {"dev.py", "relaxjax/ir/node.py", "passes/__init__.py"} <= names
    assert not {name for name in names if name.startswith("relaxjax/passes")}


def test_pyproject_lists_every_package() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT) for path in source_files()} - {Path()}
    packages = {".".join(path.parts) for path in folders}
    packages = {
        f"relaxjax.{name}" if name.split(".")[0] in TOP_LEVEL else name for name in packages
    }
    assert sorted(setuptools["packages"]) == sorted(packages)
    assert setuptools["package-dir"] == {f"relaxjax.{package}": package for package in TOP_LEVEL}


def test_every_package_has_an_init_file() -> None:
    folders = {path.parent for path in source_files()} - {ROOT}
    assert not [shown(folder) for folder in folders if not (folder / "__init__.py").exists()]


@pytest.mark.skipif((ROOT / "PKG-INFO").exists(), reason="a source distribution has no links")
@pytest.mark.parametrize("package", TOP_LEVEL)
def test_links_to_the_top_level_are_relative(package: str) -> None:
    assert os.readlink(ROOT / "relaxjax" / package) == f"../{package}"
    assert (ROOT / package).is_dir()
    assert not (ROOT / package).is_symlink()


def test_no_file_holds_two_things() -> None:
    sizes = {shown(path): len(path.read_text().splitlines()) for path in source_files()}
    assert not {name: lines for name, lines in sizes.items() if lines > MOST_LINES}


def test_no_function_holds_two_things() -> None:
    lengths = {
        f"{shown(path)}:{node.lineno} {node.name}": lines_of_code(node)
        for path in source_files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    too_long = {name: n for name, n in lengths.items() if n > MOST_LINES_OF_A_FUNCTION}
    assert not too_long


def lines_of_code(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How long a function is without its docstring: examples may take their space."""
    documented = ast.get_docstring(function) is not None
    return node_lines(function) - (node_lines(function.body[0]) if documented else 0)


def node_lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_names_say_what_a_file_holds() -> None:
    vague = {"common", "helper", "helpers", "misc", "util", "utils"}
    own = [path for path in source_files() if "tvm" not in path.parts]  # there the names are TVM's
    assert not [shown(path) for path in own if vague & set(path.with_suffix("").parts)]


def test_top_level_packages_are_imported_by_their_full_name() -> None:
    """`import losses` works by accident in a checkout, and takes a user's own module elsewhere.

    Elsewhere ruff refuses it. In these packages it would take relative imports for such.
    """
    python = [path for package in TOP_LEVEL for path in (ROOT / package).rglob("*.py")]
    bare = {shown(path): {name.split(".")[0] for name in imports(path)} for path in python}
    assert not {
        name: found & set(TOP_LEVEL) for name, found in bare.items() if found & set(TOP_LEVEL)
    }


def test_benchmarks_import_nothing_from_the_tests() -> None:
    tests = {path.stem for path in (ROOT / "tests").rglob("*.py")}
    benchmarks = (ROOT / "benchmarks").rglob("*.py")
    assert not {shown(path): found for path in benchmarks if (found := tests & set(imports(path)))}


def test_top_level_packages_import_none_of_one_another() -> None:
    for package in TOP_LEVEL:
        others = tuple(f"relaxjax.{other}" for other in TOP_LEVEL if other != package)
        files = (ROOT / package).rglob("*.py")
        assert not {shown(p): name for p in files for name in imports(p) if name.startswith(others)}


def test_only_the_top_layer_imports_the_public_api() -> None:
    """The public API imports everything, so whoever below imports it closes a circle."""
    inside = [p for p in source_files() if p.is_relative_to(ROOT / "relaxjax") or p.parent != ROOT]
    below = [p for p in inside if "cli" not in p.parts and p.name != "__main__.py"]
    assert not [shown(path) for path in below if "relaxjax" in imports(path)]


def test_names_of_test_files_are_unique() -> None:
    """Tests are no packages, so a type checker knows a test file by its bare name alone."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("*.py"))
    assert not {name: count for name, count in names.items() if count > 1}


def test_the_source_distribution_holds_what_it_is_tested_with() -> None:
    """Else it holds some files of tests, and nothing that they need."""
    lines = [line.split() for line in (ROOT / "MANIFEST.in").read_text().splitlines()]
    grafted = {words[1] for words in lines if words[0] == "graft"}
    found = {path.name for path in ROOT.iterdir() if path.is_dir()}
    folders = {".ci", ".github", "benchmarks", "docs", "examples", "programs", "tests"}
    assert grafted == folders <= found
    included = {name for words in lines if words[0] == "include" for name in words[1:]}
    assert included == {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md", "dev.py"}
