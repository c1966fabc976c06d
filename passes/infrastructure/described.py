"""What an object is made of, as values whose `repr` tells them, for what is kept on disk.

Functions are told by where they are written and by what they hold, if they are of optax: an
optimizer of it is a few of its functions, which hold numbers. Nothing is said of the user's own
functions, since their code may change without a sign.
"""

import os
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from sys import modules
from types import FunctionType
from typing import Any

import jax
import numpy as np

from .kept_files import code

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_OWN = "relaxjax.optim."
_TRUSTED = "optax"


class IndescribableError(Exception):
    """There is something whose parts are not known here."""


def description(value: Any) -> Any:
    """All that a value is made of; an `IndescribableError` where that is not known."""
    try:
        return _described(value)
    except RecursionError:  # a function that holds itself
        raise IndescribableError(type(value).__qualname__) from None


def _described(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind in _PARTS:
        return (kind.__name__, *map(_described, _PARTS[kind](value)))
    if kind is FunctionType:
        return _of_function(value)
    if isinstance(value, np.generic):
        return str(value.dtype), value.tobytes()
    if isinstance(value, np.dtype):
        return "dtype", str(value)
    if isinstance(value, tuple) and _is_trusted(kind):  # a GradientTransformation
        return (kind.__qualname__, *map(_described, value))
    if kind.__module__.startswith(_OWN):
        return kind.__qualname__, _described(vars(value))
    raise IndescribableError(kind.__qualname__)


def _of_function(function: FunctionType) -> Any:
    """A function by its place in a file, its defaults, and what it holds of what is around it."""
    body = function.__code__  # a wrapper may bear the name of what it wraps, but has its own code
    if not body.co_filename.startswith(_folder()):
        raise IndescribableError(function.__qualname__)
    try:
        held = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # what it holds is not made yet
        raise IndescribableError(function.__qualname__) from None
    parts = (*held, function.__defaults__, function.__kwdefaults__)
    return (code(_TRUSTED), body.co_qualname, body.co_firstlineno, *map(_described, parts))


def _of_tree(tree: Any) -> Any:
    """The nodes of a pytree without its leaves."""
    kind, data = tree.node_data() or (object, None)
    return (kind.__module__, kind.__qualname__, data, *tree.children())


_PARTS: dict[type, Callable[[Any], Any]] = {
    tuple: lambda value: value,
    list: lambda value: value,
    dict: lambda value: value.items(),
    partial: lambda value: (value.func, value.args, value.keywords),
    jax.tree_util.PyTreeDef: _of_tree,
}


def _is_trusted(kind: type) -> bool:
    """Whether a class is the one that optax has by that name."""
    is_named = kind.__module__.split(".")[0] == _TRUSTED
    return is_named and getattr(modules[kind.__module__], kind.__qualname__, None) is kind


@cache
def _folder() -> str:
    spec = find_spec(_TRUSTED)
    assert spec is not None  # it is among what this package needs
    assert spec.origin is not None
    return str(Path(spec.origin).parent) + os.sep
