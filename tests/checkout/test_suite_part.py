"""What is left to the full tests is left out of the suite, unless somebody asks for it."""

import pytest
from fast_part import TESTS

TABLE = """
import pytest

@pytest.mark.parametrize("row", range(40))
def test_rows(row):
    pass

@pytest.mark.parametrize("row", range(40))
def test_other_rows(row):
    pass
"""


@pytest.mark.parametrize(
    ("options", "variable", "tried"),
    [
        ([], "", 44),
        (["."], "", 44),
        (["-m", "not as_users"], "", 44),
        (["test_table.py"], "", 80),
        (["test_table.py::test_rows"], "", 40),
        (["-k", "rows"], "", 80),
        (["-m", "not fast"], "", 44),
        ([], "RELAXJAX_ROWS", 80),
        ([], "RELAXJAX_FULL", 80),
    ],
    ids=["all", "folder", "mark", "file", "name", "words", "fast", "rows", "full"],
)
def test_it_is_left_out_unless_it_is_asked_for(
    options: list[str],
    variable: str,
    tried: int,
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("RELAXJAX_ROWS", "RELAXJAX_FULL"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "all")
    pytester.makepyfile(test_table=TABLE)
    pytester.makeconftest(f"""
        import sys
        sys.path.insert(0, {str(TESTS)!r})
        import fast_part, long_tables, long_tests
        from pathlib import Path
        from suite_part import leave_out

        fast_part.TESTS = long_tests.TESTS = Path(__file__).parent
        long_tables.one_in = lambda: {{("test_table.py", "test_rows"): 9}}
        long_tests.long_tests = lambda: {{"test_table.py::test_other_rows[3]"}}

        def pytest_collection_modifyitems(config, items):
            leave_out(config, items)
        """)
    pytester.makeini("[pytest]\nmarkers =\n fast: of the fast part\n as_users: compiled so")
    result = pytester.runpytest_subprocess("-q", "-p", "no:xdist", *options)
    result.assert_outcomes(passed=tried, deselected=80 - tried if tried == 44 else 0)
