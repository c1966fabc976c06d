"""What names stand for in scopes within scopes."""

from collections import ChainMap
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Scoped(ChainMap[K, V]):
    """A `ChainMap` that is asked for each variable of a program: it looks once in each scope."""

    def find(self, key: K) -> V | None:
        """What a key stands for; None where it stands for nothing."""
        for scope in self.maps:
            found = scope.get(key)
            if found is not None:
                return found
        return None

    def __contains__(self, key: object) -> bool:
        for scope in self.maps:  # noqa: SIM110  # a generator here takes several times as long
            if key in scope:
                return True
        return False
