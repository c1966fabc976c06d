"""Decorators that make passes of users' own functions and classes, as TVM has them."""

import inspect
from collections.abc import Sequence
from typing import Any

from .info import PassInfo, pass_names
from .kinds import DataflowBlockPass, FunctionPass, ModulePass, Pass


def module_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of a function `(mod, ctx) -> mod`, or of a class with `transform_module`.

        @module_pass(opt_level=1)
        def Rename(mod, ctx):
            return mod.without_functions("old").with_function("new", mod["old"])

    A decorated function is a pass; calling a decorated class with its arguments gives one.
    """
    return _decorated(ModulePass, pass_func, opt_level, name, required, traceable)


def function_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of `(func, mod, ctx) -> func`, or of a class with `transform_function`."""
    return _decorated(FunctionPass, pass_func, opt_level, name, required, traceable)


def dataflowblock_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of `(block, mod, ctx) -> block`, or of a class with `transform_dataflowblock`."""
    return _decorated(DataflowBlockPass, pass_func, opt_level, name, required, traceable)


def _decorated(
    kind: Any,
    given: Any,
    opt_level: int | None,
    name: str | None,
    required: object,
    traceable: bool,
) -> Any:
    if opt_level is None:
        raise ValueError(f"`{_DECORATORS[kind]}` needs an `opt_level`")

    def decorate(given: Any) -> Any:
        if not callable(given):
            raise TypeError(f"`{_DECORATORS[kind]}` takes a function or a class, found {given!r}")
        info = PassInfo(
            opt_level, name or given.__name__, pass_names("required", required), traceable
        )
        if inspect.isclass(given):
            return _pass_class(kind, given, info)
        made = kind(given, info)
        _document(made, given)
        return made

    return decorate if given is None else decorate(given)


def _pass_class(kind: Any, cls: type, info: PassInfo) -> type[Pass]:
    """A class of passes, each of which holds an object of the user's class."""
    if not hasattr(cls, kind.hook):
        raise TypeError(
            f"the class `{cls.__name__}` needs a method `{kind.hook}` "
            f"to be decorated with `{_DECORATORS[kind]}`"
        )

    class UserPass(kind):  # type: ignore[misc]  # the base is one of the three kinds of pass
        def __init__(self, *args: Any, **named: Any) -> None:
            self.instance = cls(*args, **named)
            super().__init__(getattr(self.instance, kind.hook), info)

        def __getattr__(self, attribute: str) -> Any:
            if attribute == "instance":
                raise AttributeError(attribute)
            return getattr(self.instance, attribute)

    UserPass.__name__ = UserPass.__qualname__ = cls.__name__
    UserPass.__signature__ = inspect.signature(cls)
    _document(UserPass, cls)
    return UserPass


def _document(made: Any, source: Any) -> None:
    made.__doc__, made.__module__ = source.__doc__, source.__module__


_DECORATORS: dict[Any, str] = {
    ModulePass: "module_pass",
    FunctionPass: "function_pass",
    DataflowBlockPass: "dataflowblock_pass",
}
