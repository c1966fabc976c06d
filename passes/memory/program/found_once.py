"""Properties that are found when they are first asked for, and are then plain attributes."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class found_once(Generic[T]):  # noqa: N801  # it reads as a word above a property
    """As `functools.cached_property`, which up to Python 3.11 takes a lock for each value.

    A planner asks for tens of thousands, and no two threads for those of one step.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "found_once[T]": ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: object, owner: type | None = None) -> "found_once[T] | T":
        if instance is None:
            return self
        value = self.function(instance)
        instance.__dict__[self.name] = value
        return value
