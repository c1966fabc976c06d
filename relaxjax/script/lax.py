"""The `L` of a script: one operator for each primitive of JAX."""

from typing import Any as _Any

from .namespace import Operators as _Operators

_OPERATORS = _Operators("lax", "L")


def __getattr__(name: str) -> _Any:
    return _OPERATORS.member(name)


def __dir__() -> list[str]:
    return _OPERATORS.__dir__()
