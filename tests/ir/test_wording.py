"""How names, counts and sequences are written."""

import numpy as np
import pytest

from relaxjax.ir.wording import a_kind, counted, first_few, listed, quoted, tuple_text


@pytest.mark.parametrize(
    ("names", "in_a_row", "in_a_sentence"),
    [(["a"], "`a`", "`a`"), (["a", "b", "c"], "`a`, `b`, `c`", "`a`, `b` and `c`")],
)
def test_names(names: list[str], in_a_row: str, in_a_sentence: str) -> None:
    assert quoted(names) == in_a_row
    assert listed(names) == in_a_sentence


def test_no_names() -> None:
    assert quoted([]) == ""


def test_counts() -> None:
    assert [counted(n, "line") for n in (0, 1, 2)] == ["0 lines", "1 line", "2 lines"]
    assert counted(4096, "byte") == "4,096 bytes"


def test_the_first_of_many_names() -> None:
    assert first_few("abc") == "a, b, c"
    assert first_few("abcde") == "a, b, c, and 2 more"


def test_tuples_as_python_has_them() -> None:
    assert [tuple_text(items) for items in ([], ["1"], ["1", "2"])] == ["()", "(1,)", "(1, 2)"]


def test_kinds_with_their_articles() -> None:
    kinds = [a_kind(value) for value in (3, "", (), np.zeros(2), None)]
    assert kinds == ["an int", "a str", "a tuple", "an ndarray", "None"]
