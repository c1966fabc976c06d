"""The examples run as they stand, on small settings."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.skipif(
    not EXAMPLES.is_dir(), reason="there is no checkout around these tests"
)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_learns(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, path, "--epochs", "2"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    accuracy = done.stdout.strip().splitlines()[-1].split()[-1]
    assert float(accuracy.rstrip("%")) > 60, done.stdout


def test_every_example_is_short() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert lengths
    assert max(lengths.values()) < 100, lengths
