"""Programs whose loss computes in 64 bits where JAX, around it, does not."""

import functools
from collections.abc import Callable
from typing import Any

import jax

from relaxjax.ir.module import IRModule
from relaxjax.lowering.traits import needs_x64
from relaxjax.ops.lax import x64_enabled

Run = Callable[..., Any]


def in_own_dtypes(run: Run, mod: IRModule, name: str) -> Run:
    """A function of a module with the dtypes that its loss was traced with.

    A scope of `jax.enable_x64` inside of the loss has ended when its program runs.
    """
    if x64_enabled() or not needs_x64(mod, name):
        return run

    @functools.wraps(run)
    def wide(*args: Any) -> Any:
        with jax.enable_x64(True):
            return run(*args)

    return wide
