"""Declaring a pass: a pure function with options becomes a factory of passes, known by its name.

@pass_factory(opt_level=1)
def Inline(mod: IRModule, depth: int = 1) -> IRModule:
    \"\"\"Replace calls of private functions by the functions' bodies.\"\"\"
    ...

Inline(depth=2)(mod)
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Generic, Literal, ParamSpec, overload

import numpy as np

from relaxjax.ir.arguments import by_name
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import enter

from .info import PassInfo
from .kinds import FunctionPass, ModulePass, Pass
from .option_types import check_option

P = ParamSpec("P")
Kind = Literal["module", "function"]

# What the pass itself receives, before the options that its user gives.
_RECEIVED: dict[Kind, int] = {"module": 1, "function": 2}


class PassFactory(Generic[P]):
    """A declared pass: called with its options, it gives a `Pass`."""

    def __init__(
        self, function: Callable[..., Any], kind: Kind, opt_level: int, required: tuple[str, ...]
    ) -> None:
        self.function = function
        self.kind = kind
        self.info = PassInfo(opt_level, function.__name__, required)
        parameters = list(inspect.signature(function).parameters.values())[_RECEIVED[kind] :]
        self.parameters = {parameter.name: parameter for parameter in parameters}
        self.__signature__ = inspect.Signature(parameters)
        self.__name__ = self.__qualname__ = function.__name__
        self.__module__ = function.__module__
        self.__doc__ = inspect.getdoc(function)

    def __call__(self, *args: P.args, **options: P.kwargs) -> Pass:
        given = self._checked(args, options)
        if self.kind == "module":
            return ModulePass(lambda mod, _: self.function(mod, **given), self.info, given)
        return FunctionPass(lambda f, mod, _: self.function(f, mod, **given), self.info, given)

    def __repr__(self) -> str:
        return f"{self.name}{self.__signature__}"

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def opt_level(self) -> int:
        return self.info.opt_level

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (self.__doc__ or "").partition("\n")[0]

    def _checked(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The options by name, in order, checked against the signature."""
        needed = [
            name
            for name, parameter in self.parameters.items()
            if parameter.default is parameter.empty
        ]
        given = by_name(self.name, list(self.parameters), args, named, needed, "option")
        options = {name: _of_python(value) for name, value in given.items()}
        for name, value in options.items():
            check_option(f"{self.name}: the option `{name}`", self.parameters[name], value)
        return {name: options[name] for name in self.parameters if name in options}


FACTORIES: dict[str, PassFactory[...]] = {}


def _of_python(value: Any) -> Any:
    """An option's value; a number of numpy, such as the sum of some sizes, as one of Python."""
    return value.item() if isinstance(value, np.generic) else value


@overload
def pass_factory(
    *, opt_level: int, kind: Literal["module"] = "module", required: tuple[str, ...] = ()
) -> Callable[[Callable[Concatenate[IRModule, P], IRModule]], PassFactory[P]]: ...
@overload
def pass_factory(
    *, opt_level: int, kind: Literal["function"], required: tuple[str, ...] = ()
) -> Callable[[Callable[Concatenate[Function, IRModule, P], Function]], PassFactory[P]]: ...
def pass_factory(
    *, opt_level: int, kind: Kind = "module", required: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], PassFactory[...]]:
    """Declare a pass under its function's name, which no other function may take.

    Args:
        opt_level: the opt level of a context from which a `Sequential` runs the pass.
        kind: "module" for a function of `(mod, **options)` that returns a module, "function" for
            one of `(function, mod, **options)` that returns the function changed.
        required: names of declared passes that a `Sequential` runs before this one.
    """

    if kind not in _RECEIVED:
        raise ValueError(f"`kind` must be one of {', '.join(_RECEIVED)}, found {kind!r}")

    def declare(function: Callable[..., Any]) -> PassFactory[...]:
        factory = PassFactory[...](function, kind, opt_level, required)
        return enter("pass", FACTORIES, factory, lambda one: one.function)

    return declare
