"""The `L` of a script: one operator for each primitive of JAX."""

from typing import Any as _Any

import relaxjax.ops as _ops  # noqa: F401  # enters the operators into the table

from .namespace import Operators as _Operators

_OPERATORS = _Operators("lax", "L")


def __getattr__(name: str) -> _Any:
    return _OPERATORS.member(name)
