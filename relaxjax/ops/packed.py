"""Python functions that a program calls by name: `R.call_packed`, `R.call_pure_packed`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from relaxjax.ir.builder import Names
from relaxjax.ir.expr import Expr, ExternFunc
from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.walk import rewrite

F = TypeVar("F", bound=Callable[..., Any])

PACKED: dict[str, Callable[..., Any]] = {}
TRACEABLE: set[str] = set()
_OWN = "__relaxjax_own__"


class HeldName(str):
    """The name of a traceable function, which is known for as long as the name is in use.

    `hint` is what the name was made of.
    """

    hint: str
    function: Callable[..., Any]


_HELD: WeakValueDictionary[str, HeldName] = WeakValueDictionary()


def register_packed(name: str, override: bool = False, traceable: bool = False) -> Callable[[F], F]:
    """Register a function of arrays under a name, as `tvm.register_global_func` does.

    A `traceable` one is a JAX function, which compiles into the programs that call it.
    """

    def register(function: F) -> F:
        if name in PACKED and not override:
            raise ValueError(
                f"a packed function `{name}` is registered already: "
                "pass override=True to replace it"
            )
        PACKED[name] = function
        (TRACEABLE.add if traceable else TRACEABLE.discard)(name)
        return function

    return register


def own(function: F) -> F:
    """`function`, marked as one of a program: it is run as the program is, traced by JAX too."""
    setattr(function, _OWN, True)
    return function


def is_own(function: Callable[..., Any]) -> bool:
    """Whether a function is one of a program, and none that a user wrote in Python."""
    return hasattr(function, _OWN)


def held_name(hint: str, function: Callable[..., Any]) -> HeldName:
    """A new name for a JAX function that programs call, which nobody registered."""
    name = HeldName(Names([*PACKED, *_HELD]).unique(hint))
    name.hint, name.function = hint, function
    _HELD[str(name)] = name
    return name


def as_held(name: str) -> str:
    """A name as others have it that are in use for a function that nobody registered."""
    return _HELD.get(name, name)


def with_told_names(mod: IRModule) -> IRModule:
    """The module with other names for functions that nobody registered, as a file has them.

    These are the same for each process that makes the program, and no function is found by them:
    another process may have another function of the name that this one gave.
    """
    told: dict[str, str] = {}

    def renamed(expr: Expr) -> Expr:
        if not isinstance(expr, ExternFunc) or not isinstance(expr.symbol, HeldName):
            return expr
        new = told.setdefault(expr.symbol, f"<{expr.symbol.hint} {len(told) + 1}>")
        return replace(expr, symbol=new)

    functions = mod.relax_functions().items()
    return mod.with_functions({name: rewrite(function, renamed) for name, function in functions})


def is_traceable(name: str) -> bool:
    """Whether the function of a name compiles into the programs that call it."""
    return name in TRACEABLE or isinstance(name, HeldName)


def packed_function(name: str) -> Callable[..., Any]:
    """The function of a name that holds it, or registered under a name."""
    if isinstance(name, HeldName):
        return name.function
    if name.startswith("<"):
        raise KeyError(
            f"`{name}` is a function of the process that wrote the program, such as one that a "
            "loss calls by jax.pure_callback, and no file holds it: make the program anew of the "
            "loss, and its trainer by Trainer.from_jax, whose `load` takes the values of the file"
        )
    if name not in PACKED:
        raise KeyError(
            f'no packed function `{name}` is registered: register one by @register_packed("{name}")'
            f"{did_you_mean(name, list(PACKED))}"
        )
    return PACKED[name]
