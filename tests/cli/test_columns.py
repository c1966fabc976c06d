"""Two scripts beside each other."""

import pytest

from relaxjax.cli.columns import LEAST_WIDTH, NARROWEST, side_by_side

WIDE = 2 * NARROWEST + 3


def test_two_columns() -> None:
    lines = side_by_side("a\n  b", "one\ntwo\nthree", WIDE).splitlines()
    assert [[part.rstrip() for part in line.split(" | ")] for line in lines] == [
        ["a", "one"],
        ["  b", "two"],
        ["", "three"],
    ]
    assert {line.index("|") for line in lines} == {NARROWEST + 1}


def test_marked_lines_stand_beside_each_other() -> None:
    lines = side_by_side("a\nMARK\nb", "1\n2\n3\nMARK\n4", WIDE, align="MARK").splitlines()
    assert [line.split() for line in lines] == [
        ["a", "|", "1"],
        ["|", "2"],
        ["|", "3"],
        ["MARK", "|", "MARK"],
        ["b", "|", "4"],
    ]


def test_one_after_the_other_where_it_is_too_narrow() -> None:
    assert LEAST_WIDTH == WIDE
    assert side_by_side("a", "b", WIDE - 1) == "a\n\nb"


def test_a_long_line_goes_on_below_indented_deeper() -> None:
    words = "    call(" + ", ".join(f"argument{i}" for i in range(12)) + ")"
    first, second, *_ = side_by_side(words, "", WIDE).splitlines()
    assert first.startswith("    call(argument0,")
    assert second.startswith(" " * 12 + "argument")


@pytest.mark.parametrize("text", ["", "\n\n", "word" * 100])
def test_no_line_is_wider_than_the_terminal(text: str) -> None:
    assert all(len(line) <= WIDE for line in side_by_side(text, text, WIDE).splitlines())
