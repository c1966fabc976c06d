"""What other systems and users have: no links, odd paths, no home to write into, other encodings.

The package lies here as an installer leaves it: folders by the list in pyproject.toml, no links.
"""

import ast
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
@R.function
def main(größe: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
    with R.dataflow():
        s = R.sum(R.multiply(größe, größe))
        R.output(s)
    return s
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages, in a path with blanks and umlauts."""
    folder = tmp_path_factory.mktemp("Größe und Maß")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    setup = project["tool"]["setuptools"]
    for package in setup["packages"]:
        home, _, rest = package.partition(".")
        top = ".".join([home, *rest.split(".")[:1]])
        place = setup["package-dir"].get(top)
        parts = package.split(".")
        source = ROOT.joinpath(*parts) if place is None else ROOT.joinpath(place, *parts[2:])
        target = folder.joinpath(*parts)
        target.mkdir(parents=True, exist_ok=True)
        for path in source.iterdir():
            if path.suffix in (".py", ".typed", ".md"):
                shutil.copy(path, target)
        for data in ("data", "examples"):
            if (source / data).is_dir():
                shutil.copytree(source / data, target / data, dirs_exist_ok=True)
    assert not [path for path in folder.rglob("*") if path.is_symlink()]
    return folder


def run(installed: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return run_python(installed, "-m", "relaxjax", *arguments, **environment)


def run_python(
    installed: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "PYTHONPATH": str(installed), "JAX_PLATFORMS": "cpu", **environment}
    return subprocess.run(
        [sys.executable, *arguments], cwd=installed, env=env, capture_output=True, check=False
    )


def test_no_link_is_needed_and_no_plain_path(installed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "Übung 1"
    folder.mkdir()
    (folder / "mein Modell.py").write_text(SCRIPT, encoding="utf-8")
    pipeline = "Gradient{func_name=main}"
    result = run(
        installed, "opt", str(folder / "mein Modell.py"), "-p", pipeline,
        "-o", str(folder / "geändert.py"),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "größe" in (folder / "geändert.py").read_text(encoding="utf-8")
    where = run(installed, "doctor").stdout.decode()
    assert str(installed) in where


@pytest.mark.parametrize(
    "home", [pytest.param("a file", id="read-only"), pytest.param("nowhere", id="missing")]
)
def test_no_home_is_needed(home: str, installed: Path, tmp_path: Path) -> None:
    """Nothing can be made in a file, not even by root."""
    (tmp_path / "a file").touch()
    away = str(tmp_path / home / "deeper")
    environment = {
        "HOME": away, "USERPROFILE": away, "XDG_CACHE_HOME": "", "RELAXJAX_COMPILATION_CACHE": "",
    }  # fmt: skip
    if home == "nowhere":
        (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    out = str(tmp_path / "model.safetensors")
    # To import JAX and the package takes as long as what they do here: one process does both.
    both = "sys.exit(main(sys.argv[1:]) or main(['doctor']))"
    code = f"import sys; from relaxjax.cli import main; {both}"
    result = run_python(installed, "-c", code, "demo", "--epochs", "1", "--out", out, **environment)
    assert result.returncode == 0, result.stderr
    assert Path(out).is_file()
    assert b"jaxlib" in result.stdout


@pytest.mark.parametrize("command", [["memory", "model.py"], ["ops"], ["passes", "--markdown"]])
def test_a_console_may_know_few_letters(
    command: list[str], installed: Path, tmp_path: Path
) -> None:
    (installed / "model.py").write_text(SCRIPT, encoding="utf-8")
    result = run(installed, *command, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert result.returncode == 0, result.stderr
    assert result.stdout.decode("ascii")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root may change")
def test_another_user_than_root_may_run_it(installed: Path) -> None:
    """One without a name and a home, as in a container, who may write nowhere."""
    code = "from relaxjax import value_and_grad; print(*value_and_grad(lambda x: x * x)(3.0))"
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        place = shutil.copytree(installed, Path(folder) / "packages")
        env = {**os.environ, "PYTHONPATH": f"{place}", "HOME": "/nowhere", "USER": ""}
        try:
            result = subprocess.run(
                [sys.executable, "-c", code], cwd="/", env=env, capture_output=True, check=False,
                user=54321, group=54321, extra_groups=[],
            )  # fmt: skip
        except PermissionError:
            pytest.skip("the Python of these tests is for root alone")
    assert result.stdout.split() == [b"9.0", b"6.0"], result.stderr


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    from relaxjax.lowering import cache_folder

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setattr(Path, "home", nowhere)
    assert cache_folder._default_folder() is None


TEXT = {"read_text", "write_text"}


def text_files_of_unsaid_encoding(path: Path) -> Iterator[str]:
    """The calls that open text in the encoding of the system, which on Windows is not UTF-8."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or any(k.arg == "encoding" for k in node.keywords):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        modes = [a.value for a in node.args if isinstance(a, ast.Constant)]
        is_text = name == "open" and not any("b" in str(mode) for mode in modes)
        if (name in TEXT and len(node.args) < 2) or (is_text and _is_of_a_file(node)):
            yield f"{path.name}:{node.lineno}"


def _is_of_a_file(node: ast.Call) -> bool:
    """Whether it is not `os.open`, which gives no text."""
    assert isinstance(node.func, ast.Attribute)
    owner = node.func.value
    return not (isinstance(owner, ast.Name) and owner.id == "os")


def test_text_is_read_and_written_as_utf_8() -> None:
    """What builds the package, too: the README is read for it, and has letters beyond ASCII."""
    folders = ("relaxjax", "passes", "losses", "optim", "docs/site")
    files = [path for name in folders for path in (ROOT / name).rglob("*.py")]
    files += [ROOT / "dev.py", ROOT / "setup.py"]
    assert not [where for path in files for where in text_files_of_unsaid_encoding(path)]
