"""Operators as calls of jax.lax, explicit in the program."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relaxjax.ir.module import IRModule
from relaxjax.lowering import legalize
from relaxjax.passes.infrastructure.base import pass_factory


@pass_factory(opt_level=0)
def LegalizeOps(
    mod: IRModule,
    target: Any = None,
    customize_map: Mapping[str, Callable[..., Any]] | None = None,
    skip_ops: Sequence[str] = (),
) -> IRModule:
    """Spell `relax.*` operators out as calls of `lax.*`, by tracing what they lower to.

    A call stays as it is where its operator has effects, says how to differentiate or what to wait
    for, as `R.grad.delay` does, or where JAX needs values to trace it. Names in `customize_map` get
    the JAX function there as their lowering, those in `skip_ops` stay. What is spelt out is
    differentiated as JAX does it: it belongs after Gradient where an operator has a gradient that
    is not the one of what it computes.
    """
    return legalize(mod, target, customize_map, skip_ops)
