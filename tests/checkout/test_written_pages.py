"""The pages in docs/ that programs write are fresh, and those of measurements are whole."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from relaxjax.cli.passes import page as passes_page
from relaxjax.passes.infrastructure.base import FACTORIES

DOCS = Path(__file__).parents[2] / "docs"


def test_the_pages_of_operators_are_those_of_the_table(tmp_path: Path) -> None:
    """In a process of its own: other tests enter operators into the table."""
    command = [sys.executable, "-m", "relaxjax", "ops", "--markdown", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.md")}
    kept = {path.relative_to(DOCS) for path in DOCS.glob("operators*/*.md")}
    stale = [
        str(path)
        for path in sorted(written | kept)
        if path in kept - written
        or not (DOCS / path).exists()
        or (DOCS / path).read_text() != (tmp_path / path).read_text()
    ]
    assert stale == [], "run `relaxjax ops --markdown docs`, and remove pages that it did not write"


def test_the_page_of_passes_is_that_of_the_catalogue() -> None:
    """`relaxjax passes --markdown > docs/passes.md` writes it."""
    page = DOCS / "passes.md"
    factories = [FACTORIES[name] for name in sorted(FACTORIES)]
    own = [factory for factory in factories if factory.__module__.startswith("relaxjax.")]
    assert page.read_text() == passes_page(own)


# What the page of measurements must tell the gain of; ToMixedPrecision by its two dtypes.
MEASURED = """
    ConvertLayout CombineParallelConv2D CombineParallelDense CombineParallelBatchMatmul
    CombineParallelMatmul FoldScaleAxis FuseOps FastMath bfloat16 float16
"""


@pytest.mark.parametrize("name", MEASURED.split())
def test_what_passes_gain_is_measured(name: str) -> None:
    text = (DOCS / "passes_measured.md").read_text()
    assert "python benchmarks/passes.py" in text
    row = re.search(rf"^\| {name}: .*$", text, re.MULTILINE)
    assert row is not None
    ratio, quartiles = row[0].split("|")[3:5]
    low, high = map(float, quartiles.split("-"))
    assert low <= float(ratio) <= high
