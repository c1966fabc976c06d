"""How batches become calls of the device."""

from typing import Any

import numpy as np
import pytest

from relaxjax.training.feeding import ahead, calls


def batches(*sizes: int) -> list[Any]:
    return [(np.full((size, 2), i), np.full(size, i)) for i, size in enumerate(sizes)]


def shape(call: Any) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    steps, (inputs, targets) = call
    return steps, inputs.shape, targets.shape


def test_the_first_batch_may_say_how_many_steps_a_call_makes() -> None:
    asked = []

    def size(batch: Any) -> int:
        asked.append(batch)
        return 2

    given = batches(4, 4, 4)
    assert [steps for steps, _ in calls(given, size)] == [2, 1]
    assert asked == [given[0]]


def test_single_steps_are_the_batches_themselves() -> None:
    given = batches(4, 4)
    found = list(calls(given, 1))
    assert [steps for steps, _ in found] == [1, 1]
    assert all(batch is mine for (_, batch), mine in zip(found, given, strict=True))


def test_a_call_of_several_steps_stacks_them_and_the_rest_go_singly() -> None:
    found = list(calls(batches(4, 4, 4, 4, 4), 2))
    assert list(map(shape, found)) == [
        (2, (2, 4, 2), (2, 4)),
        (2, (2, 4, 2), (2, 4)),
        (1, (4, 2), (4,)),
    ]
    np.testing.assert_array_equal(found[1][1][1], [[2] * 4, [3] * 4])


def test_a_batch_of_another_shape_is_not_stacked() -> None:
    found = list(calls(batches(4, 3, 3, 4), 2))
    assert [shape(call)[:2] for call in found] == [(1, (4, 2)), (2, (2, 3, 2)), (1, (4, 2))]


def test_several_inputs_are_stacked_each() -> None:
    several = [([x, y], [y]) for x, y in batches(4, 4)]
    ((steps, (inputs, targets)),) = calls(several, 2)
    assert steps == 2
    assert [x.shape for x in inputs] == [(2, 4, 2), (2, 4)]
    assert [y.shape for y in targets] == [(2, 4)]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_skipping_at_the_end_of_a_call_leaves_the_other_calls_as_they_are(size: int) -> None:
    """So a resumed training makes the very calls that an uninterrupted one makes."""
    given = batches(4, 4, 4, 3, 3, 4, 4)
    whole = list(calls(given, size))
    done = 0
    for index, (steps, _) in enumerate(whole):
        done += steps
        rest = list(calls(given, size, skip=done))
        assert list(map(shape, rest)) == list(map(shape, whole[index + 1 :]))


@pytest.mark.parametrize("depth", [0, 1, 2, 9])
def test_calls_are_placed_ahead_in_their_order(depth: int) -> None:
    events: list[str] = []

    def place(batch: Any) -> Any:
        events.append(f"place {batch}")
        return batch

    for _, batch in ahead([(1, name) for name in "abc"], depth, place):  # type: ignore[misc]  # letters stand in for batches
        events.append(f"use {batch}")
    uses = [event for event in events if event.startswith("use")]
    assert uses == ["use a", "use b", "use c"]
    before_first = events[: events.index("use a")]
    assert len(before_first) == min(3, depth + 1 if depth else 0)
