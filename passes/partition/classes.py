"""Things that belong together, two of which are joined at a time."""

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Classes(Generic[T]):
    """Things in classes, each class known by its leader; one that nothing joined is alone."""

    def __init__(self) -> None:
        self._leaders: dict[T, T] = {}

    def leader(self, item: T) -> T:
        while (leader := self._leaders.get(item, item)) != item:
            # The way is short the next time.
            self._leaders[item] = self._leaders.get(leader, leader)
            item = leader
        return item

    def join(self, leading: T, other: T) -> None:
        """Make one class of those of two things, led by the leader of the first."""
        self._leaders[self.leader(other)] = self.leader(leading)
