"""Printed names are Python identifiers, each given once."""

import pytest

from relaxjax.ir.identifiers import Identifiers, identifier


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        ("x", "x"),
        ("größe", "größe"),
        ("a.b-c", "a_b_c"),
        ("1st", "v1st"),
        ("2²", "v22"),
        ("", "v"),
        ("²", "v2"),
        ("€", "_"),
        ("ℌ", "H"),
    ],
)
def test_a_hint_is_cleaned(hint: str, name: str) -> None:
    assert identifier(hint) == name
    assert name.isidentifier()


def test_a_taken_name_gets_the_next_number() -> None:
    names = Identifiers(["taken"])
    given = [names.unique(hint) for hint in ("x", "x", "x_1", "x", "taken")]
    assert given == ["x", "x_1", "x_1_1", "x_2", "taken_1"]


@pytest.mark.parametrize(
    "word", ["lambda", "None", "R", "I", "T", "L", "metadata", "tvm", "float", "complex"]
)
def test_words_with_a_meaning_are_never_given(word: str) -> None:
    assert Identifiers().unique(word) == f"{word}_1"
