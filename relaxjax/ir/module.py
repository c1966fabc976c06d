"""The module: functions by name, attributes, and global infos."""

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from .attrs import Attrs, as_attrs
from .explorable import Explorable
from .expr import ExternFunc, GlobalVar
from .function import Function
from .identifiers import check_function_name
from .node import Node, check_part, replace
from .registry import did_you_mean
from .span import Span
from .wording import counted

BaseFunc: TypeAlias = Function | ExternFunc


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IRModule(Explorable, Node):
    """An immutable set of functions. Passes make new modules out of it.

    `mod["f"] = function` exists for scripts written against TVM; it is the one way to change
    a module in place, and no pass uses it.
    """

    functions: Mapping[GlobalVar, BaseFunc]
    attrs: Attrs
    global_infos: Mapping[str, tuple[Any, ...]]

    def __init__(
        self,
        functions: Mapping[Any, BaseFunc] | None = None,
        attrs: Mapping[str, Any] | None = None,
        global_infos: Mapping[str, Any] | None = None,
        span: Span | None = None,
    ) -> None:
        if functions is not None:
            check_part("what a module is made of", functions, Mapping, "functions by their names")
        named = {name_of(key): function for key, function in (functions or {}).items()}
        infos = {key: tuple(value) for key, value in (global_infos or {}).items()}
        by_var = {_var(name, function): function for name, function in named.items()}
        object.__setattr__(self, "functions", MappingProxyType(by_var))
        object.__setattr__(self, "attrs", as_attrs(attrs))
        object.__setattr__(self, "global_infos", MappingProxyType(infos))
        object.__setattr__(self, "span", span)

    def _repr_html_(self) -> str:
        """The functions for a notebook, each folded where there are several."""
        if len(self) < 2:
            return Node._repr_html_(self)
        parts = (
            f"<details><summary><code>{html.escape(_signature(var.name, function))}</code>"
            f"</summary>{IRModule({var: function})._repr_html_()}</details>"
            for var, function in self.functions.items()
        )
        return f"<div><div>IRModule of {len(self)} functions</div>{''.join(parts)}</div>"

    def __copy__(self) -> "IRModule":
        return self.clone()

    def __deepcopy__(self, memo: Any) -> "IRModule":
        return self.clone()

    def __reduce__(self) -> Any:
        return IRModule, (dict(self.functions), self.attrs, dict(self.global_infos), self.span)

    @staticmethod
    def from_expr(function: Function, name: str = "main") -> "IRModule":
        """A module of one function: under its own global symbol, a private one under `name`."""
        check_part("what a module is made of", function, Function, "a function")
        return IRModule({function.global_symbol or name: function})

    def __getitem__(self, name: str | GlobalVar) -> Any:
        function = self.functions.get(GlobalVar(name_of(name)))
        return self.functions[self.get_global_var(name_of(name))] if function is None else function

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str | GlobalVar) and GlobalVar(name_of(name)) in self.functions

    def __iter__(self) -> Iterator[str]:
        return (var.name for var in self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def __setitem__(self, name: str | GlobalVar, function: BaseFunc) -> None:
        changed = self.with_function(name_of(name), function)
        object.__setattr__(self, "functions", changed.functions)

    def update_func(self, var: GlobalVar, function: BaseFunc) -> None:
        """`mod[var] = function`, under its name in TVM."""
        self[var] = function

    def get_global_var(self, name: str) -> GlobalVar:
        """The global variable of the function called `name`, with the function's type."""
        for var in self.functions:
            if var.name == name:
                return var
        known = [var.name for var in self.functions]
        there = f"; it has {', '.join(f'`{n}`' for n in known)}" if known else ""
        hint = did_you_mean(name, known)
        raise ValueError(f"the module has no function `{name}`{there}{hint}")

    def get_global_vars(self) -> tuple[GlobalVar, ...]:
        return tuple(self.functions)

    def functions_items(self) -> tuple[tuple[GlobalVar, BaseFunc], ...]:
        return tuple(self.functions.items())

    def relax_functions(self) -> dict[str, Function]:
        """The Relax functions by name: what passes over functions walk through."""
        return {var.name: f for var, f in self.functions.items() if isinstance(f, Function)}

    def with_function(self, name: str, function: BaseFunc) -> "IRModule":
        """The module with one function added or changed; itself where it is there already."""
        return self.with_functions({name: function})

    def with_functions(self, changes: Mapping[str, BaseFunc]) -> "IRModule":
        """The module with functions added or changed; itself where all are there already."""
        old = {var.name: function for var, function in self.functions.items()}
        if all(old.get(name) is function for name, function in changes.items()):
            return self
        return replace(self, functions={**old, **changes})

    def without_functions(self, *names: str) -> "IRModule":
        """The module without the named functions."""
        for name in names:
            self.get_global_var(name)
        kept = {var: f for var, f in self.functions.items() if var.name not in names}
        return replace(self, functions=kept) if names else self

    def get_attr(self, name: str) -> Any:
        """One of the module's attributes; None where it has none of that name."""
        return self.attrs.get(name)

    def with_attr(self, name: str, value: Any) -> "IRModule":
        return self.with_attrs({name: value})

    def with_attrs(self, attrs: Mapping[str, Any]) -> "IRModule":
        return replace(self, attrs=self.attrs.updated(**attrs))

    def without_attr(self, name: str) -> "IRModule":
        return replace(self, attrs=self.attrs.without(name)) if name in self.attrs else self

    def update_global_info(self, name: str, infos: Sequence[Any]) -> None:
        """Put other records under a name of this very module, as TVM does it."""
        changed = replace(self, global_infos={**self.global_infos, name: tuple(infos)})
        object.__setattr__(self, "global_infos", changed.global_infos)

    def clone(self) -> "IRModule":
        """A module of its own, for callers who go on to assign into it."""
        return IRModule(self.functions, self.attrs, self.global_infos, span=self.span)


def _signature(name: str, function: BaseFunc) -> str:
    """A line on a function: what it takes and gives, and how long it is."""
    if isinstance(function, ExternFunc):
        return f"{name}, from outside"
    count = len(list(function.body.bindings()))
    params = ", ".join(param.name for param in function.params)
    return f"{name}({params}) -> {function.ret_ty}, {counted(count, 'binding')}"


def check_module(given: object, taker: str, mend: str = "") -> IRModule:
    """The module that something takes; raise where it was given something else, with the mend."""
    if isinstance(given, IRModule):
        return given
    found = type(given).__name__
    if isinstance(given, Function):
        mend = mend or "write `IRModule.from_expr(function)`"
    if isinstance(given, type):
        mend, found = mend or "decorate it by @I.ir_module", f"the class `{given.__name__}`"
    raise TypeError(f"{taker} takes an IRModule, found {found}{mend and f': {mend}'}")


def check_function(given: object, taker: str, for_modules: str = "") -> None:
    """Raise where something that takes a function was given something else, and say the mend."""
    if isinstance(given, Function):
        return
    mend = ""
    if isinstance(given, IRModule):
        name = next(iter(given.relax_functions()), "main")
        mend = f': give one of its functions, such as mod["{name}"]{for_modules}'
    raise TypeError(f"{taker} takes a Relax function, found {type(given).__name__}{mend}")


def name_of(key: str | GlobalVar) -> str:
    """The name of a function that is given by its name or by its variable."""
    return key.name if isinstance(key, GlobalVar) else key


def _var(name: Any, function: object) -> GlobalVar:
    if not isinstance(name, str):
        raise TypeError(f"a function is entered by a name or a GlobalVar, found `{name!r}`")
    check_function_name(name)
    if not isinstance(function, Function | ExternFunc):
        raise TypeError(
            f"`{name}` must be a Function or an ExternFunc, found {type(function).__name__}"
        )
    return GlobalVar(name, ty=function.ty, span=function.span)
