"""A function of a module as an ordinary JAX function."""

from collections.abc import Callable
from typing import Any

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule, check_module
from relaxjax.ops.platform import PLATFORM, lowering_for

from .arguments import admit, as_jax
from .interpreter import Interpreter, LoweringError
from .varying import vary_over, varying_axes
from .when_lowered import only_for


def to_jax(mod: IRModule, name: str) -> Callable[..., Any]:
    """The function `name` of a module as a JAX function, for `jax.jit`, `jax.grad` and `jax.vmap`.

    It takes arrays, tuples of arrays for tuples, tuples of integers for shapes and Python functions
    for functions, and checks them against the types of its parameters. It follows JAX's own setting
    of 64-bit dtypes: where they are switched off, 64-bit integers are 32 bits wide, and float64 is
    an error. Of a module that is made for one platform, it runs on that alone.
    """
    check_module(mod, "`to_jax`")
    return _named(only_for(mod.attrs.get(PLATFORM), to_jax_for(None, mod, name)), mod, name)


def to_jax_for(platform: str | None, mod: IRModule, name: str) -> Callable[..., Any]:
    """As `to_jax` for a platform, which the caller sees to: JAX is not asked where it runs."""
    function = runnable(mod, name)

    def run(*args: Any) -> Any:
        values = list(map(as_jax, admit(function.params, args, f"`{name}`")))
        try:
            axes = varying_axes(values)
            with lowering_for(platform):
                return Interpreter(mod, axes).run(function, vary_over(axes, values), name)
        except RecursionError as error:
            raise RecursionError(
                f"`{name}` calls itself more often than Python's stack has room for: "
                "write the loop as R.while_loop or R.scan"
            ) from error

    return _named(run, mod, name)


def runnable(mod: IRModule, name: str) -> Function:
    """A function of a module that has a body; raise where it comes from outside."""
    function = mod[name]
    if not isinstance(function, Function):
        raise LoweringError(f"`{name}` is a function from outside: it has no body to run")
    return function


def _named(run: Callable[..., Any], mod: IRModule, name: str) -> Callable[..., Any]:
    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"The Relax function `{name}`: {mod[name].ty}."
    return run
