"""Mini-batches."""

from typing import Any

import numpy as np
import pytest

from relaxjax.datasets import batches

IMAGES = np.arange(20, dtype=np.float32).reshape(10, 2)
LABELS = np.arange(10, dtype=np.int32)


def order(size: int = 5, *, seed: int | None = None, epoch: int = 0) -> list[int]:
    epoch_batches = batches(IMAGES, LABELS, size, seed=seed, epoch=epoch)
    return [int(label) for _, labels in epoch_batches for label in labels]


def test_without_a_seed_the_order_stays() -> None:
    assert order() == list(range(10))


def test_seed_and_epoch_alone_decide_the_order() -> None:
    assert order(seed=3) == order(seed=3) != order()
    assert order(seed=3, epoch=1) == order(seed=3, epoch=1) != order(seed=3)
    assert order(seed=4) != order(seed=3)
    assert order(size=2, seed=3) == order(size=5, seed=3)


def test_an_epoch_sees_every_example_once() -> None:
    assert sorted(order(seed=0)) == list(range(10))


def test_labels_stay_with_their_images() -> None:
    for images, labels in batches(IMAGES, LABELS, 3, seed=7, drop_last=False):
        np.testing.assert_array_equal(images[:, 0], labels.astype(np.float32) * 2)


def test_a_smaller_last_batch_is_dropped_unless_asked_for() -> None:
    assert [len(labels) for _, labels in batches(IMAGES, LABELS, 4)] == [4, 4]
    kept = batches(IMAGES, LABELS, 4, drop_last=False)
    assert [len(labels) for _, labels in kept] == [4, 4, 2]


def test_faults_are_told_at_the_call_not_at_the_first_batch() -> None:
    with pytest.raises(ValueError, match="there are 10 images, but 9 labels"):
        batches(IMAGES, LABELS[:9], 2)
    with pytest.raises(ValueError, match="at least 1 example, but `size` is 0"):
        batches(IMAGES, LABELS, 0)
    half: Any = 2.5
    with pytest.raises(TypeError, match=r"`size` must be a number of examples, but it is 2\.5"):
        batches(IMAGES, LABELS, half)
    with pytest.raises(ValueError, match="10 examples do not fill a single batch of 11"):
        batches(IMAGES, LABELS, 11)


@pytest.mark.parametrize("name", ["images", "labels"])
def test_lists_are_no_arrays(name: str) -> None:
    """They cannot be taken from in an order."""
    given: Any = {"images": np.arange(3), "labels": np.arange(3)} | {name: [1, 2, 3]}
    with pytest.raises(TypeError, match=f"`{name}` must be an array, but it is a list: make one"):
        batches(**given, size=2)


def test_one_smaller_batch_is_given_where_the_last_is_kept() -> None:
    assert [len(labels) for _, labels in batches(IMAGES, LABELS, 11, drop_last=False)] == [10]


def test_a_process_takes_its_rows_of_each_batch() -> None:
    x, y = np.arange(22), np.arange(22) * 2
    whole = list(batches(x, y, 4, seed=3, epoch=1))
    parts = [list(batches(x, y, 4, seed=3, epoch=1, rows=slice(i, i + 2))) for i in (0, 2)]
    assert len(whole) == len(parts[0]) == len(parts[1]) == 5
    for (images, labels), *halves in zip(whole, *parts, strict=True):
        np.testing.assert_array_equal(images, np.concatenate([half[0] for half in halves]))
        np.testing.assert_array_equal(labels, np.concatenate([half[1] for half in halves]))


@pytest.mark.parametrize("rows", [slice(2, 2), slice(2, 6), slice(0, 4, 2)])
def test_rows_that_a_batch_has_not(rows: slice) -> None:
    with pytest.raises(ValueError, match="`rows` must be a part of each batch of 4, such as"):
        batches(np.arange(8), np.arange(8), 4, rows=rows)


def test_a_smaller_batch_has_no_such_rows() -> None:
    with pytest.raises(ValueError, match="a smaller last batch has no such part: drop_last=True"):
        batches(np.arange(9), np.arange(9), 4, rows=slice(0, 2), drop_last=False)


@pytest.mark.parametrize("given", [-1, 1.5, "a"])
@pytest.mark.parametrize("name", ["seed", "epoch"])
def test_an_order_that_no_number_decides(name: str, given: Any) -> None:
    x: Any = np.arange(4)
    with pytest.raises(ValueError, match=f"`{name}` must be an integer of at least 0, but it is "):
        batches(x, x, 2, **{name: given})
