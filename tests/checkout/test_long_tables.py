"""The list of long tables names tests that there are, and one row in a few is tried."""

from pathlib import Path

from fast_part import unknown
from long_tables import chosen, listing, one_in


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
