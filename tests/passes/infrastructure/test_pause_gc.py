"""The collector of garbage rests, and does not make up for it afterwards."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from relaxjax.passes.infrastructure.pause_gc import collector_paused


class Node:
    """Something that the collector knows."""

    def __init__(self) -> None:
        self.other: Node | None = None


@pytest.fixture(autouse=True)
def collector_as_users_have_it() -> Iterator[None]:
    """It runs, and nothing is frozen, as much is among tests."""
    was_enabled, was_frozen = gc.isenabled(), gc.get_freeze_count() > 0
    gc.unfreeze()
    gc.enable()
    yield
    if was_frozen:
        gc.freeze()
    if not was_enabled:
        gc.disable()


def _is_young(node: object) -> bool:
    return any(one is node for one in (*gc.get_objects(0), *gc.get_objects(1)))


def test_it_rests_only_within() -> None:
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_rests_no_longer_after_an_error() -> None:
    with pytest.raises(KeyError), collector_paused():
        raise KeyError
    assert gc.isenabled()


def test_what_was_made_meanwhile_is_old_so_that_no_small_collection_walks_it() -> None:
    with collector_paused():
        node = Node()
        assert _is_young(node)
    assert not _is_young(node)
    assert gc.get_freeze_count() == 0


def test_garbage_made_meanwhile_goes_with_a_full_collection() -> None:
    with collector_paused():
        one, other = Node(), Node()
        one.other, other.other = other, one
        known = weakref.ref(one)
        del one, other
    gc.collect()
    assert known() is None


def test_what_is_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with collector_paused():
            pass
        assert gc.get_freeze_count() == frozen > 0
    finally:
        gc.unfreeze()


def test_a_collector_that_somebody_stopped_is_left_alone() -> None:
    gc.disable()
    with collector_paused():
        node = Node()
    assert not gc.isenabled()
    assert _is_young(node)
