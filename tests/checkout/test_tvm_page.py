"""The page for who comes from TVM tells which of its names are here."""

from pathlib import Path

from tvm_coverage import table

PAGE = Path(__file__).parents[2] / "docs" / "coming_from_tvm.md"


def test_the_page_has_the_table_of_names() -> None:
    assert table() in PAGE.read_text(), (
        f"{PAGE.name} must hold what `python tests/support/tvm_coverage.py` prints:\n{table()}"
    )
