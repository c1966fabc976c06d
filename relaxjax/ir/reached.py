"""What some items lead to, step by step, such as functions to those that they call."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def reached(start: Iterable[T], following: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """The items to start with, and all that they lead to, each once."""
    waiting = list(dict.fromkeys(start))
    seen = set(waiting)
    while waiting:
        item = waiting.pop()
        yield item
        new = [other for other in dict.fromkeys(following(item)) if other not in seen]
        seen.update(new)
        waiting += new
