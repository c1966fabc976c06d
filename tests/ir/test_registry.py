"""What is declared under a name, and what may take its place."""

from dataclasses import dataclass
from typing import Any

import pytest

from relaxjax.ir.registry import REPLACED, enter


@dataclass(frozen=True, eq=False)
class Made:
    """Something that a function declares."""

    function: Any
    name: str = "mine"


def made(module: str, name: str) -> Made:
    def function() -> None:
        pass

    function.__module__, function.__qualname__ = module, name
    return Made(function)


@pytest.mark.parametrize(
    ("former", "again"),
    [
        (("__main__", "a"), ("__main__", "a")),
        (("__main__", "a"), ("__main__", "b")),  # renamed in the notebook, with the cell run again
        (("mine.ops", "a"), ("mine.ops", "a")),  # of a module that was reloaded
    ],
)
def test_what_is_declared_again(former: tuple[str, str], again: tuple[str, str]) -> None:
    table: dict[str, Made] = {}
    first = enter("thing", table, made(*former), lambda one: one.function)
    second = enter("thing", table, made(*again), lambda one: one.function)
    assert table == {"mine": second}
    assert first in REPLACED
    assert second not in REPLACED


@pytest.mark.parametrize(
    ("former", "other"),
    [
        (("mine.ops", "a"), ("__main__", "a")),
        (("mine.ops", "a"), ("mine.ops", "b")),
        (("relaxjax.ops.unary", "family.<locals>.f"), ("relaxjax.ops.unary", "family.<locals>.f")),
    ],
)
def test_a_name_that_is_taken(former: tuple[str, str], other: tuple[str, str]) -> None:
    table: dict[str, Made] = {}
    first = enter("thing", table, made(*former), lambda one: one.function)
    message = (
        f"the thing `mine` is declared already, by `{former[1]}` of `{former[0]}` at .*: "
        f"give another name to `{other[1]}` of `{other[0]}` at "
    )
    with pytest.raises(ValueError, match=message):
        enter("thing", table, made(*other), lambda one: one.function)
    assert table == {"mine": first}
