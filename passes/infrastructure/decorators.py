"""Decorators that make passes of users' own functions and classes, as TVM has them."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, overload

from relaxjax.ir.function import BindingBlock, DataflowBlock, Function
from relaxjax.ir.module import IRModule

from .context import PassContext
from .info import PassInfo, pass_names
from .kinds import DataflowBlockPass, FunctionPass, ModulePass, Pass

F_contra = TypeVar("F_contra", contravariant=True)
P_co = TypeVar("P_co", covariant=True)
C = TypeVar("C", bound=type)

OnModule = Callable[[IRModule, PassContext], IRModule]
OnFunction = Callable[[Function, IRModule, PassContext], Function]
OnBlock = Callable[[DataflowBlock, IRModule, PassContext], BindingBlock]


class PassDecorator(Protocol[F_contra, P_co]):
    """Turns a function into a pass, and a class into a class of passes."""

    @overload
    def __call__(self, given: C, /) -> C: ...
    @overload
    def __call__(self, given: F_contra, /) -> P_co: ...


def module_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> PassDecorator[OnModule, ModulePass]:
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
) -> PassDecorator[OnFunction, FunctionPass]:
    """Make a pass of `(func, mod, ctx) -> func`, or of a class with `transform_function`."""
    return _decorated(FunctionPass, pass_func, opt_level, name, required, traceable)


def dataflowblock_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> PassDecorator[OnBlock, DataflowBlockPass]:
    """Make a pass of `(block, mod, ctx) -> block`, or of a class with `transform_dataflowblock`."""
    return _decorated(DataflowBlockPass, pass_func, opt_level, name, required, traceable)


def _decorated(
    kind: Any,
    given: Any,
    opt_level: int | None,
    name: str | None,
    required: object,
    traceable: bool,
) -> PassDecorator[Any, Any]:
    if opt_level is None:
        raise ValueError(f"`{_DECORATORS[kind]}` needs an `opt_level`")

    def decorate(given: Any) -> Any:
        if not callable(given):
            raise TypeError(f"`{_DECORATORS[kind]}` takes a function or a class, found {given!r}")
        title = name or getattr(given, "__name__", None)
        if title is None:
            raise TypeError(f"`{_DECORATORS[kind]}` needs a `name` for {given!r}, which has none")
        info = PassInfo(opt_level, title, pass_names("required", required), traceable)
        made = _pass_class(kind, given, info) if inspect.isclass(given) else kind(given, info)
        made.__doc__, made.__module__ = given.__doc__, given.__module__
        return made

    if given is None:
        return decorate
    return decorate(given)  # type: ignore[no-any-return]  # the pass itself, given its function


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
    return UserPass


_DECORATORS: dict[Any, str] = {
    ModulePass: "module_pass",
    FunctionPass: "function_pass",
    DataflowBlockPass: "dataflowblock_pass",
}
