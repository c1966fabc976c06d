"""The drawings in docs/architecture.md are those of the layers, and of what files import."""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
TOP_LEVEL = ("losses", "optim", "passes")


def layers_of(container: str) -> list[list[str]]:
    """The packages of each layer, the topmost first, as import-linter enforces them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (
        contract["layers"]
        for contract in contracts["contracts"]
        if contract.get("containers") == [container]
    )
    return [[name.strip() for name in layer.split("|")] for layer in layers]


def folder_of(package: str) -> Path:
    """Where a package lies, or a file of that name."""
    name = package.removeprefix("relaxjax.").replace(".", "/")
    folder = ROOT / name if name.split("/")[0] in TOP_LEVEL else ROOT / "relaxjax" / name
    return folder if folder.is_dir() else folder.with_suffix(".py")


def imported(package: str) -> Iterator[str]:
    """The modules that the files of a package import, by their full names."""
    home = folder_of(package)
    for path in home.rglob("*.py") if home.is_dir() else [home]:
        inside = [*path.relative_to(home).parent.parts] if home.is_dir() else []
        own = ".".join([package, *inside] if home.is_dir() else package.split(".")[:-1])
        for level, name in named(path):
            yield name if level == 0 else f"{own}.{name}"


@cache
def named(path: Path) -> tuple[tuple[int, str], ...]:
    """What a file imports, each with its level; many packages are drawn twice."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = (alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names)
    others = (node for node in nodes if isinstance(node, ast.ImportFrom))
    return (*((0, name) for name in plain), *((node.level, node.module or "") for node in others))


def drawing(container: str) -> str:
    """A line for each package: what of its container it imports, from the top down."""
    layers = layers_of(container)
    order = [name for layer in layers for name in layer]
    width = max(map(len, order))
    lines = []
    for layer in layers:
        for name in layer:
            modules = list(imported(f"{container}.{name}"))
            below = [
                other
                for other in order
                if other != name
                and any(f"{one}.".startswith(f"{container}.{other}.") for one in modules)
            ]
            lines.append(f"{name:{width}}  {' '.join(below)}".rstrip())
        lines.append("-" * 80)
    return "\n".join(lines[:-1])


def test_the_drawing_of_layers_is_fresh() -> None:
    text = PAGE.read_text()
    for container in ("relaxjax", "relaxjax.passes"):
        wanted = f"```text\n{drawing(container)}\n```"
        assert wanted in text, f"put this into {PAGE.name}:\n{wanted}"


def test_imports_are_found() -> None:
    """Else the drawing would be empty, and as fresh as ever."""
    assert "relaxjax.ir.module" in set(imported("relaxjax.passes.memory"))
    assert "relaxjax.passes.infrastructure.sequential" in set(imported("relaxjax.passes.standard"))
    assert "relaxjax.ops.nn.windows" in set(imported("relaxjax.ops"))
