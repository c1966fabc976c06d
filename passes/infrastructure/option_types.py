"""Whether the value of an option is of the type that its pass declares."""

import inspect
import types
import typing
from collections.abc import Sequence
from typing import Any


def check_option(subject: str, parameter: inspect.Parameter, value: Any) -> None:
    """Raise an error where a value can be none of the types in the annotation of its parameter.

    Classes, unions and sequences are checked; what a protocol or another container asks for, the
    pass itself knows best.
    """
    if value is not parameter.default and not _fits(value, parameter.annotation):
        raise TypeError(
            f"{subject} must be {_said(parameter.annotation)}, "
            f"but {value!r} of type {type(value).__name__} was given"
        )


def _fits(value: Any, annotation: Any) -> bool:
    if annotation is None or annotation is types.NoneType:
        return value is None
    if _is_union(annotation):
        return any(_fits(value, part) for part in typing.get_args(annotation))
    origin = typing.get_origin(annotation)
    if origin is Sequence:  # a string has letters, which are not what is meant
        (item,) = typing.get_args(annotation)
        return isinstance(value, list | tuple) and all(_fits(part, item) for part in value)
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
    if typing.get_origin(annotation) is Sequence:
        return f"a list of {_said(typing.get_args(annotation)[0])}"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
