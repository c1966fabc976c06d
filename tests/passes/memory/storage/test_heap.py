"""Blocks of memory for values that live for a while."""

import pytest

from relaxjax.passes.memory.storage.heap import heap_size


@pytest.mark.parametrize(
    ("lives", "size"),
    [
        ([], 0),
        ([(0, 1, 4), (1, 2, 4)], 8),
        ([(0, 1, 4), (2, 3, 4)], 4),
        # 6 and 3 are never there with each other, so 2 lies where there is no place of 3 left.
        ([(0, 3, 6), (3, 5, 2), (4, 6, 3)], 8),
        # By size, 5 lies beside 6 and 4 beside 5, though 6 is gone: by length, 4 comes first.
        ([(0, 1, 6), (1, 2, 5), (2, 9, 4)], 11),
    ],
    ids=["nothing", "together", "in turn", "in a gap", "over what is gone"],
)
def test_values_lie_in_the_gaps_between_others(
    lives: list[tuple[int, int, int]], size: int
) -> None:
    assert heap_size(lives) == size


def test_there_may_be_no_room_for_what_is_live() -> None:
    """10 of 12 bytes are free when 3 and 3 are there, but no 10 of them side by side."""
    lives = [(0, 1, 8), (1, 2, 3), (2, 3, 8), (0, 0, 3), (3, 4, 6)]
    most = max(sum(size for start, end, size in lives if start <= t <= end) for t in range(5))
    assert most <= heap_size(lives)
