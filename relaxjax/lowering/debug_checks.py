"""JAX's search for NaN and infinities, while a program runs operator by operator."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import jax

from relaxjax.ir.expr import Constant, Expr


def checked_if_computed(args: Iterable[Expr | None]) -> AbstractContextManager[Any]:
    """A scope for an operator of such arguments, in which one of constants alone is not searched.

    A NaN there is written and not computed, as one in the branch of `jnp.var` for no values: that
    of a function of JAX is not searched either, only its result.
    """
    config: Any = jax.config
    searches = config.jax_debug_nans or config.jax_debug_infs
    if not searches or not all(arg is None or isinstance(arg, Constant) for arg in args):
        return nullcontext()
    scope = ExitStack()
    scope.enter_context(jax.debug_nans(False))
    scope.enter_context(jax.debug_infs(False))
    return scope
