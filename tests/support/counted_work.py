"""How much a call does, counted rather than timed: so that a test of growth repeats itself.

Counted is each line of relaxjax that is executed, again for each round of a loop or comprehension,
and the length of what relaxjax hands to those functions of Python that go over it. What other
packages do is not.
"""

import builtins
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

_FUNCTIONS = ("all", "any", "max", "min", "sorted", "sum")
_TYPES = ("dict", "frozenset", "list", "set", "tuple")
_SIZED = (dict, frozenset, list, set, tuple)


@dataclass
class Work:
    """What was done, and how many calls of relaxjax stood one in another at most."""

    lines: int = 0
    depth: int = 0


def counted(function: Callable[[], Any]) -> Work:
    """What a call does."""
    work, before = Work(), sys.gettrace()
    with _counting_builtins(work):
        sys.settrace(_following(work))
        try:
            function()
        finally:
            sys.settrace(before)
    return work


def _following(work: Work) -> Any:
    """What follows the frames of relaxjax, and no others. It runs at each line, so it is short."""
    opened = 0

    def call(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal opened
        if not frame.f_globals.get("__name__", "").startswith("relaxjax."):
            return None
        opened += 1
        if opened > work.depth:
            work.depth = opened
        return line

    def line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal opened
        if event == "line":
            work.lines += 1
        elif event == "return":
            opened -= 1
        return line

    return call


@contextmanager
def _counting_builtins(work: Work) -> Iterator[None]:
    """Inside, the modules of relaxjax see built-ins that add the lengths of what they get."""
    own = {name: _counting(work, getattr(builtins, name)) for name in _FUNCTIONS}
    own |= {name: _counting_type(work, getattr(builtins, name)) for name in _TYPES}
    # A module that gives operators by their names would give `R.sum` as it is here.
    loaded = [mod for name, mod in sys.modules.items() if name.startswith("relaxjax.")]
    modules = [vars(mod) for mod in loaded if "__getattr__" not in vars(mod)]
    changed = [(names, key) for names in modules for key in own if key not in names]
    for names, key in changed:
        names[key] = own[key]
    try:
        yield
    finally:
        for names, key in changed:
            del names[key]


def _counting(work: Work, function: Callable[..., Any]) -> Callable[..., Any]:
    def counting(*args: Any, **named: Any) -> Any:
        work.lines += sum(len(arg) for arg in args if isinstance(arg, _SIZED))
        return function(*args, **named)

    return counting


def _counting_type(work: Work, kind: Any) -> Any:
    """A stand-in for a type: its instances are those of the type itself."""

    class Kind(type):
        def __call__(cls, *args: Any, **named: Any) -> Any:
            work.lines += sum(len(arg) for arg in args if isinstance(arg, _SIZED))
            return kind(*args, **named)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, kind)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, kind)

    return Kind(kind.__name__, (kind,), {})
