"""The list of long tables names tests that there are, and rows are left out of these alone."""

from pathlib import Path

import pytest
from fast_part import TESTS, unknown
from long_tables import chosen, listing, one_in

TABLE = """
import pytest

@pytest.mark.parametrize("row", range(40))
def test_rows(row):
    pass

@pytest.mark.parametrize("row", range(40))
def test_other_rows(row):
    pass
"""


def test_each_table_is_one_that_there_is() -> None:
    assert not unknown(one_in()), "make tests/long_tables.txt anew, or take these out of it"


def test_the_list_has_tables_whose_rows_take_long_together(tmp_path: Path) -> None:
    path = tmp_path / "durations.xml"
    rows = [
        ("test_a", 100, 1.0),
        ("test_b", 3, 0.3),
        ("test_c", 2, 50.0),
        ("test_d", 1000, 0.00001),
    ]
    cases = [
        f'<testcase classname="tests.ops.test_x" name="{name}[{row}]" time="{time}"/>'
        for name, count, time in rows
        for row in range(count)
    ]
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    assert listing(path).splitlines() == ["ops/test_x.py test_a 14", "ops/test_x.py test_b 3"]


def test_one_of_each_few_neighbours_is_tried_and_no_column_of_them() -> None:
    rows = [f"{operator}-{dtype}" for operator in range(100) for dtype in "abcd"]
    found = list(chosen(rows, 4))
    assert [row.partition("-")[0] for row in found] == [f"{operator}" for operator in range(100)]
    assert {row.partition("-")[2] for row in found} == set("abcd")
    assert list(chosen(rows[:1], 9)) == rows[:1]
    assert list(chosen(rows, 4)) == found


@pytest.mark.parametrize(
    ("options", "tried"),
    [
        ([], 45),
        (["."], 45),
        (["-m", "not as_users"], 45),
        (["test_table.py"], 80),
        (["test_table.py::test_rows"], 40),
        (["-k", "rows"], 80),
        (["-m", "not fast"], 80),
    ],
    ids=["all", "folder", "mark", "file", "name", "words", "fast"],
)
def test_rows_are_left_out_unless_they_are_asked_for(
    options: list[str], tried: int, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("RELAXJAX_ROWS", "RELAXJAX_FULL"):
        monkeypatch.delenv(variable, raising=False)
    pytester.makepyfile(test_table=TABLE)
    pytester.makeconftest(
        f"""
        import sys
        sys.path.insert(0, {str(TESTS)!r})
        import fast_part, long_tables
        from pathlib import Path

        fast_part.TESTS = Path(__file__).parent
        long_tables.one_in = lambda: {{("test_table.py", "test_rows"): 9}}

        def pytest_collection_modifyitems(config, items):
            long_tables.leave_rows_out(config, items)
        """
    )
    pytester.makeini("[pytest]\nmarkers =\n fast: of the fast part\n as_users: compiled so")
    result = pytester.runpytest_subprocess("-q", "-p", "no:xdist", *options)
    result.assert_outcomes(passed=tried, deselected=80 - tried if tried == 45 else 0)
