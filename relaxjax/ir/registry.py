"""The tables of operators and of methods by name: modules above fill them, and all may look."""

import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .op import Op

F = TypeVar("F", bound=Callable[..., Any])

OPS: "dict[str, Op]" = {}

# What a function can do beyond telling its parts, by the names of the methods.
FUNCTION_METHODS: dict[str, Callable[..., Any]] = {}


def get_op(name: str) -> "Op":
    """The operator called `name`; an unknown name is an error that suggests near misses."""
    if name in OPS:
        return OPS[name]
    raise KeyError(f"there is no operator `{name}`{did_you_mean(name, OPS)}")


def function_method(name: str) -> Callable[[F], F]:
    """Let a method of functions do what is written in a module above theirs."""

    def enter(method: F) -> F:
        FUNCTION_METHODS[name] = method
        return method

    return enter


def did_you_mean(name: str, known: "dict[str, Op] | list[str]") -> str:
    """`; did you mean ...?` for the names that look like `name`, empty where none does."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(f'`{match}`' for match in close)}?" if close else ""
