"""Long tests are left to the full ones where others that stay execute their lines."""

import sys

import numpy as np
from fast_part import TESTS, unknown
from long_tests import long_tests

sys.path.append(str(TESTS / "long"))

from choose_long_tests import Noted, left_out  # found by the path above


def test_each_is_one_that_there_is() -> None:
    functions = (name.partition("[")[0].partition("::") for name in long_tests())
    named = {(path, name) for path, _, name in functions}
    assert not unknown(named), "make tests/long_tests.txt anew, or take these out of it"


def a_test(name: str, seconds: float, *lines: int, may_go: bool = True) -> Noted:
    return Noted(name, seconds, np.array(lines, np.int32), may_go)


def test_what_stays_executes_each_line_twice() -> None:
    known = [
        a_test("a.py::test_rows[0]", 9, 1, 2),
        a_test("a.py::test_rows[1]", 8, 1, 2),
        a_test("b.py::test_whole", 10, 1, 2),
        a_test("b.py::test_alone", 30, 1, 3),
        a_test("c.py::test_starts_processes", 20, 1, may_go=False),
        a_test("c.py::test_short", 0.1, 1, 2, 3),
        a_test("c.py::test_shorter", 0.05, 1, 2),
    ]
    gone = ["a.py::test_rows[0]", "b.py::test_whole", "a.py::test_rows[1]"]
    assert [test.name for test in left_out(known)] == gone


def test_rows_go_before_whole_tests() -> None:
    known = [
        a_test("a.py::test_whole", 9, 1),
        a_test("b.py::test_rows[0]", 2, 1),
        a_test("b.py::test_rows[1]", 1, 1),
    ]
    assert [test.name for test in left_out(known)] == ["b.py::test_rows[0]"]
