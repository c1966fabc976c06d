"""What names stand for in scopes within scopes."""

from collections import ChainMap
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Scoped(ChainMap[K, V]):
    """A `ChainMap` that is asked for each variable of a program: it looks once in each scope."""

    def get(self, key: Any, default: Any = None) -> Any:
        for scope in self.maps:
            if key in scope:
                return scope[key]  # type: ignore[index]  # what is there is a key
        return default

    def __contains__(self, key: object) -> bool:
        for scope in self.maps:  # noqa: SIM110  # a generator here takes several times as long
            if key in scope:
                return True
        return False
