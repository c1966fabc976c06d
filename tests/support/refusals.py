"""Calls of operators that are refused: what they are written with, and rows of a table of them."""

from collections.abc import Callable
from typing import Any

import pytest

from relaxjax import TensorType, Var


def t(*shape: Any, dtype: str | None = "float32") -> Var:
    """A tensor variable."""
    return Var("x", TensorType(shape, dtype))


def i(*shape: Any, dtype: str = "int64") -> Var:
    """A variable of integers."""
    return t(*shape, dtype=dtype)


def cases(refusals: dict[str, list[tuple[Callable[[], Any], str]]]) -> list[Any]:
    """A row for each call of each family, and what the error says."""
    return [
        pytest.param(build, message, id=f"{family}-{index}")
        for family, rows in refusals.items()
        for index, (build, message) in enumerate(rows)
    ]
