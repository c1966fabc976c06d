"""Methods that a class declares, and that a module above it writes.

A node prints itself, and a function binds its parameters, but what does so has to know all kinds of
nodes and stands above them.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def written_above(declared: F) -> F:
    """Declare a method: its signature, and what it does in words; `body_of` enters what does it."""

    @wraps(declared)
    def method(*args: Any, **options: Any) -> Any:
        return vars(method)["body"](*args, **options)

    return method  # type: ignore[return-value]  # it takes and gives what is declared


def body_of(method: Callable[..., Any]) -> Callable[[F], F]:
    """Let a method that is declared below be a function, which takes the object first."""

    def enter(function: F) -> F:
        vars(method)["body"] = function
        return function

    return enter
