"""The table of operators by name: modules above fill it, and all may look."""

import difflib
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar


class Declared(Protocol):
    """What is declared by a function, and known by its name."""

    @property
    def name(self) -> str: ...


D = TypeVar("D", bound=Declared)

# The operators. `op.OPS` is this table with its type, which stands above the signs of expressions.
OPERATORS: dict[str, Any] = {}

# What a later declaration took the place of. Programs made before hold it, and run it.
REPLACED: set[Any] = set()


def named_operator(name: str) -> Any:
    """The operator called `name`; an unknown name is an error that suggests near misses."""
    if name in OPERATORS:
        return OPERATORS[name]
    raise KeyError(f"there is no operator `{name}`{did_you_mean(name, OPERATORS)}")


def enter(kind: str, table: dict[str, D], made: D, function: Callable[[D], Any]) -> D:
    """Enter what a function declares into a table, under its name.

    The same function may declare it anew, as a cell of a notebook does that is run again: then it
    takes the place of the former. A name that another function has taken is an error.
    """
    former = table.get(made.name)
    if former is not None and not _is_again(function(former), function(made)):
        raise ValueError(
            f"the {kind} `{made.name}` is declared already, by {_described(function(former))}: "
            f"give another name to {_described(function(made))}"
        )
    if former is not None:
        REPLACED.add(former)
    table[made.name] = made
    return made


def _is_again(former: Any, function: Any) -> bool:
    """Whether a function is a later form of another.

    In a notebook any function may be, for its name may change, too. In this package none is: many
    operators of a family are declared by one function, each once.
    """
    (module, *name), now = _home(former), list(_home(function))
    is_own = module.partition(".")[0] == __name__.partition(".")[0]
    return not is_own and ([module, *name] == now or module == now[0] == "__main__")


def _home(function: Any) -> tuple[str, str]:
    return getattr(function, "__module__", ""), getattr(function, "__qualname__", repr(function))


def _described(function: Any) -> str:
    module, name = _home(function)
    code = getattr(inspect.unwrap(function), "__code__", None)
    line = "" if code is None else f" at {code.co_filename}:{code.co_firstlineno}"
    return f"`{name}` of `{module}`{line}"


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """`; did you mean ...?` for the names that look like `name`, empty where none does.

    A `prefix` is shown before each, and is no part of what they look like.
    """
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return (
        f"; did you mean {' or '.join(f'`{prefix}{match}`' for match in close)}?" if close else ""
    )
