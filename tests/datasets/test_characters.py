"""Text as numbers, and its windows."""

from pathlib import Path
from typing import Any

import chex
import numpy as np
import pytest

from relaxjax.datasets import batches, text, windows


def test_the_text_that_ships_with_python() -> None:
    data = text()
    assert len(data.train) > 400_000
    assert len(data.vocabulary) == len(set(data.vocabulary)) == 96
    chex.assert_type([data.train, data.test], np.int32)
    written = data.decode(data.train)
    assert "Assignment statements\n****" in written
    np.testing.assert_array_equal(data.encode(written), data.train)


def test_a_text_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("abca ccbä\n", encoding="utf-8")
    data = text(tmp_path / "own.txt")
    assert data.vocabulary == "\n abcä"
    assert data.decode(data.train) + data.decode(data.test) == "abca ccbä\n"
    assert len(data.test) == 1


def test_a_window_is_followed_by_its_targets() -> None:
    inputs, targets = windows(np.arange(11), 3)
    np.testing.assert_array_equal(inputs, [[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    np.testing.assert_array_equal(targets, inputs + 1)
    later, _ = windows(np.arange(11), 3, start=2)
    np.testing.assert_array_equal(later, [[2, 3, 4], [5, 6, 7]])


def test_the_last_window_may_end_with_the_text() -> None:
    np.testing.assert_array_equal(windows(np.arange(7), 3)[1], [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(windows(np.arange(6), 3)[1], [[1, 2, 3]])


def test_windows_go_into_batches() -> None:
    (first,) = list(batches(*windows(np.arange(11), 3), 2, seed=0))
    chex.assert_shape(first, (2, 3))


# What is refused


def test_a_character_outside_of_the_vocabulary() -> None:
    with pytest.raises(ValueError, match="the vocabulary has no 'ß', 'ä': leave them out"):
        text().encode("Gruß, ähnlich")


def test_a_text_that_is_too_short(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("short")
    with pytest.raises(ValueError, match=r"short has 5 characters, but .* need at least 10"):
        text(tmp_path / "short")


@pytest.mark.parametrize(("length", "start"), [(10, 0), (3, 7), (3, -1)])
def test_no_window_fits(length: int, start: int) -> None:
    match = f"no window of {length} characters .* in a text of 10 from {start} on"
    with pytest.raises(ValueError, match=match):
        windows(np.arange(10), length, start)


def test_a_window_of_nothing() -> None:
    with pytest.raises(ValueError, match="at least 1 character, but `length` is 0"):
        windows(np.arange(10), 0)


@pytest.mark.parametrize("numbers", [[-1], [96], [1.5], [[1]], 3])
def test_numbers_that_are_no_text(numbers: Any) -> None:
    with pytest.raises(ValueError, match="a text is a row of integers from 0 to 95, one for each"):
        text().decode(numbers)
    assert text().decode([]) == ""


@pytest.mark.parametrize("numbers", ["abc", np.zeros((3, 4))])
def test_windows_of_what_is_no_row(numbers: Any) -> None:
    with pytest.raises(TypeError, match="windows are cut from one row of numbers, such as"):
        windows(numbers, 2)


def test_a_file_of_other_text(tmp_path: Path) -> None:
    (tmp_path / "wide.txt").write_bytes(b"\xff\xfeabc")
    with pytest.raises(ValueError, match=r"wide\.txt is not UTF-8 text: .* can't decode byte 0xff"):
        text(tmp_path / "wide.txt")
