"""What is found out of a program once, for all that ask it of the same program."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from relaxjax.ir.module import IRModule

T = TypeVar("T")

_FOUND: ContextVar[dict[Hashable, tuple[IRModule, Any]] | None] = ContextVar("found", default=None)


@contextmanager
def plans_remembered() -> Iterator[None]:
    """Within it, a module that is planned once more in the same way has the plan that it had.

    A pass and a report of it plan the same program. Outside of it plans are as short-lived as those
    who ask for them: they hold the program and all that is known of it.
    """
    token = _FOUND.set({})
    try:
        yield
    finally:
        _FOUND.reset(token)


def remembered(mod: IRModule, asked: Hashable, find: Callable[[], T]) -> T:
    """What `find` gives, or what it gave for this very module and what was asked."""
    found = _FOUND.get()
    if found is None:
        return find()
    key = id(mod), asked  # the module is kept with it: no other gets its `id`
    if key not in found:
        found[key] = mod, find()
    known: T = found[key][1]
    return known
