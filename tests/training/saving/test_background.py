"""Work beside the training: one piece at a time, and no error of it is lost."""

from threading import Event

import pytest

from relaxjax.training.saving.background import Background


class BrokenError(Exception):
    """What the work raises."""


def broken() -> None:
    raise BrokenError


def test_one_piece_waits_for_that_before_it() -> None:
    background, may_end, done = Background(), Event(), list[str]()

    def first() -> None:
        assert may_end.wait(60)
        done.append("first")

    background.start(first)
    background.check()
    background.settle(0.01)
    assert not done
    may_end.set()
    background.start(lambda: done.append("second"))
    background.wait()
    assert done == ["first", "second"]


@pytest.mark.parametrize("asks", ["start", "check", "wait"])
def test_an_error_is_raised_once_to_whoever_asks_next(asks: str) -> None:
    background = Background()
    background.start(broken)
    background.settle()
    arguments = [broken] if asks == "start" else []
    with pytest.raises(BrokenError):
        getattr(background, asks)(*arguments)
    background.wait()
