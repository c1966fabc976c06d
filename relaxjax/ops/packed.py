"""Python functions that a program calls by name: `R.call_packed`, `R.call_pure_packed`."""

from collections.abc import Callable
from typing import Any, TypeVar

from relaxjax.ir.registry import did_you_mean

F = TypeVar("F", bound=Callable[..., Any])

PACKED: dict[str, Callable[..., Any]] = {}
TRACEABLE: set[str] = set()


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


def packed_function(name: str) -> Callable[..., Any]:
    """The function registered under a name."""
    if name not in PACKED:
        raise KeyError(
            f"no packed function `{name}` is registered{did_you_mean(name, list(PACKED))}; "
            f'register one by @register_packed("{name}")'
        )
    return PACKED[name]
