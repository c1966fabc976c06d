"""Methods that are declared in one place and written in another."""

import inspect

from relaxjax.ir.written_above import body_of, written_above


class Counter:
    """Something that is asked for a number."""

    @written_above
    def plus(self, number: int, times: int = 1) -> int:
        """The number, so many times more than one."""
        raise NotImplementedError


def test_a_method_does_what_is_written_above_it() -> None:
    @body_of(Counter.plus)
    def plus(counter: Counter, number: int, times: int = 1) -> int:
        return 1 + number * times

    assert Counter().plus(3) == plus(Counter(), 3) == 4
    assert Counter().plus(number=3, times=2) == 7


def test_it_shows_as_it_is_declared() -> None:
    assert Counter.plus.__doc__ == "The number, so many times more than one."
    assert list(inspect.signature(Counter.plus).parameters) == ["self", "number", "times"]
