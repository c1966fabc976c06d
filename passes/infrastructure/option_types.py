"""Whether the value of an option is of the type that its pass declares."""

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.module import IRModule


def check_option(subject: str, parameter: inspect.Parameter, value: Any) -> None:
    """Raise an error where a value can be none of the types in the annotation of its parameter.

    Classes, unions, sequences, mappings and functions are checked; what a protocol or another
    container asks for, the pass itself knows best.
    """
    if value is not parameter.default and not _fits(value, parameter.annotation):
        raise TypeError(f"{subject} must be {_said(parameter.annotation)}, but {_found(value)}")


def _found(value: Any) -> str:
    """What was given; a program by its class alone, because its text fills the screen."""
    name = type(value).__name__
    is_program = isinstance(value, IRModule | Expr) and not isinstance(value, Var)
    return f"{name} was given" if is_program else f"{value!r} of type {name} was given"


def _fits(value: Any, annotation: Any) -> bool:
    if annotation is None or annotation is types.NoneType:
        return value is None
    if _is_union(annotation):
        return any(_fits(value, part) for part in typing.get_args(annotation))
    origin = typing.get_origin(annotation)
    if origin is Sequence:  # a string has letters, which are not what is meant
        (item,) = typing.get_args(annotation)
        return isinstance(value, list | tuple) and all(_fits(part, item) for part in value)
    if origin is Mapping:
        key, item = typing.get_args(annotation)
        return isinstance(value, Mapping) and all(
            _fits(name, key) and _fits(part, item) for name, part in value.items()
        )
    if origin is Callable:
        return callable(value)
    if origin is tuple:
        return isinstance(value, tuple)
    if origin is not None or not _is_plain(annotation):
        return True
    if isinstance(value, bool):
        return annotation in (bool, object)
    return isinstance(value, (float, int) if annotation is float else annotation)


def _is_union(annotation: Any) -> bool:
    return isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union


def _is_plain(annotation: Any) -> bool:
    if not isinstance(annotation, type) or annotation in (Any, inspect.Parameter.empty):
        return False
    return not getattr(annotation, "_is_protocol", False)


def _said(annotation: Any) -> str:
    if annotation is None or annotation is types.NoneType:
        return "None"
    if _is_union(annotation):
        return " or ".join(map(_said, typing.get_args(annotation)))
    origin = typing.get_origin(annotation)
    if origin is Sequence:
        return f"a list of {_said(typing.get_args(annotation)[0])}"
    if origin is Mapping:
        key, item = map(_said, typing.get_args(annotation))
        return f"a dict from {key} to {item}"
    if origin is Callable:
        return "a function"
    if origin is tuple:
        return "a tuple"
    if annotation is Any:
        return "anything"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
