"""Type checkers with no settings of ours accept the code of users: the examples, and a sample."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from kept_programs import kept_folder

import relaxjax

EXAMPLES = Path(__file__).parents[2] / "examples"
SAMPLE = Path(__file__).parent / "sample.txt"
OTHERS = re.compile(r': error: Skipping analyzing "(optax|chex)".*\[import-untyped\]')
# Their classes are of libraries that need not be installed.
OF_LIBRARIES = """
[mypy-flax_digits,equinox_digits]
disallow_subclassing_any = False
disallow_untyped_decorators = False
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The files as a user has them: beside no pyproject.toml.

    What mypy found out of libraries is kept in pytest's cache for the next run.
    """
    place = tmp_path_factory.mktemp("user")
    for path in EXAMPLES.glob("*.py"):
        (place / path.name).write_text(path.read_text())
    (place / "sample.py").write_text(SAMPLE.read_text())
    wrong = SAMPLE.read_text() + '\nbuild("a text")\nModel.shwo()\n'
    (place / "wrong.py").write_text(wrong)
    known = kept_folder(request.config, "mypy") or place / ".cache"
    (place / "mypy.ini").write_text(f"[mypy]\ncache_dir = {known}\n{OF_LIBRARIES}")
    (place / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    return place


def mypy(folder: Path) -> list[str]:
    """What mypy finds; without `--strict` it finds less."""
    files = sorted(str(path.name) for path in folder.glob("*.py"))
    return errors(["mypy", "--config-file", "mypy.ini", "--strict", *files], folder)


def pyright(folder: Path) -> list[str]:
    """What basedpyright finds; in the mode `standard` it is pyright."""
    return errors(["basedpyright", "--pythonpath", sys.executable, "."], folder)


def errors(command: list[str], folder: Path) -> list[str]:
    if find_spec(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    package = str(Path(relaxjax.__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": package, "MYPYPATH": package},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    lines = [line.strip() for line in run.stdout.splitlines() if not OTHERS.search(line)]
    return [line for line in lines if re.search(r":\d+(:\d+)?( -|:) error", line)]


@pytest.mark.parametrize("check", [mypy, pyright])
def test_only_what_is_wrong_is_refused(check: Callable[[Path], list[str]], folder: Path) -> None:
    found = check(folder)
    count = len(SAMPLE.read_text().splitlines())
    assert len(found) == 2, "\n".join(found)
    assert f"wrong.py:{count + 2}:" in found[0]
    assert f"wrong.py:{count + 3}:" in found[1]


def test_the_sample_runs(folder: Path) -> None:
    result = subprocess.run(
        [sys.executable, "sample.py"], cwd=folder, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert "['main', 'double', 'shown'] ['alone']" in result.stdout


def test_no_example_silences_a_type_checker() -> None:
    for path in EXAMPLES.glob("*.py"):
        assert "type: ignore" not in path.read_text(), path
