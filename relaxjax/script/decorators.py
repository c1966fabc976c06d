"""The decorators of scripts: they read the source of what they stand above."""

import builtins
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, TypeVar, overload

from relaxjax.dpl import PatternMatchingRewriter
from relaxjax.ir.function import Function

from .errors import ScriptError
from .forms import FunctionForm, Macro, MacroForm, ModuleClass, ModuleForm
from .function import read_function
from .module import ModuleReader
from .scope import Scope
from .source import calling_frame, captured_names, class_source, function_source, in_class_body

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=ModuleClass)

_BUILTINS: Mapping[str, Any] = vars(builtins)


class FunctionDecorator(FunctionForm):
    """`@R.function`, and with options `@R.function(pure=False, private=True)`.

    pure: whether calling the function has no effect but its value.
    private: whether the function is for the other functions of its module only.
    check_well_formed: whether its rules are checked when it is read.

    A method is left as it is: its class is read as a whole, by `@I.ir_module`.
    """

    __slots__ = ()

    @overload
    def __call__(self, function: Callable[..., Any]) -> Function: ...

    @overload
    def __call__(
        self,
        function: None = None,
        *,
        pure: bool = True,
        private: bool = False,
        check_well_formed: bool = True,
    ) -> "FunctionDecorator": ...

    def __call__(
        self,
        function: Callable[..., Any] | None = None,
        *,
        pure: bool = True,
        private: bool = False,
        check_well_formed: bool = True,
    ) -> Any:
        if function is None:
            return FunctionDecorator(pure, private, check_well_formed)
        if not isinstance(function, FunctionType):
            raise TypeError(f"@R.function stands above a Python function, not above `{function!r}`")
        if in_class_body(function):
            return function
        source, node = function_source(function)
        scope = Scope(captured_names(function), _BUILTINS)
        return shortened(lambda: read_function(source, scope, True, node, self))


class ModuleDecorator(ModuleForm):
    """`@I.ir_module`, and with options `@I.ir_module(check_well_formed=False)`."""

    __slots__ = ()

    @overload
    def __call__(self, cls: M, check_well_formed: bool = True, s_tir: bool = False) -> M: ...

    @overload
    def __call__(
        self, cls: type | None = None, check_well_formed: bool = True, s_tir: bool = False
    ) -> Any: ...

    def __call__(
        self, cls: type | None = None, check_well_formed: bool = True, s_tir: bool = False
    ) -> Any:
        """Read a class as a module. `s_tir` is for TVM's other language, and changes nothing."""
        if cls is None:
            return ModuleDecorator(check_well_formed)
        if not isinstance(cls, type):
            raise TypeError(f"@I.ir_module stands above a class, not above `{cls!r}`")
        caller = calling_frame()
        source, node = class_source(cls, caller)
        methods = [value for value in vars(cls).values() if isinstance(value, FunctionType)]
        scope = Scope(captured_names(*methods), _BUILTINS)
        return shortened(lambda: ModuleReader(source, scope, True, node, self).read())


class MacroDecorator(MacroForm):
    """`@R.macro`, or `@R.macro(hygienic=False)`: its names mean what they do where it is used."""

    __slots__ = ()

    @overload
    def __call__(self, function: F) -> F: ...  # for its callers are scripts, which call it so

    @overload
    def __call__(self, function: None = None, *, hygienic: bool = True) -> "MacroDecorator": ...

    def __call__(self, function: Callable[..., Any] | None = None, *, hygienic: bool = True) -> Any:
        if function is None:
            return MacroDecorator(hygienic)
        if not isinstance(function, FunctionType):
            raise TypeError(f"@R.macro stands above a Python function, not above `{function!r}`")
        source, node = function_source(function)
        return Macro(node, source, captured_names(function), self.hygienic)


def rewriter(cls: type) -> PatternMatchingRewriter:
    """`@R.rewriter` above a class of two functions of the same parameters.

    What `pattern` computes is replaced by what `replacement` does, in each function or module that
    the rewriter is called with.
    """
    if not isinstance(cls, type):
        raise TypeError(f"@R.rewriter stands above a class, not above `{cls!r}`")
    read: Any = ModuleDecorator()(cls)
    return PatternMatchingRewriter.from_module(read)


def shortened(read: Callable[[], T]) -> T:
    """What `read` gives. Its errors name the place in the script: how it was read is left out."""
    try:
        return read()
    except ScriptError as error:
        raise error.with_traceback(None) from error.__cause__
