"""One operator's lowering as a JAX program: traced once for each set of attributes and types."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import jax

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import arguments
from relaxjax.ir.types import Type
from relaxjax.ops.lax import JaxSymbols, matmul_precision
from relaxjax.ops.lax.tracing import NotTraceableError, Template, arranged, trace_lowering
from relaxjax.ops.nn.accelerated_attention import gpu_here

Lowering: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Traced:
    """A lowering as a program of the tensors among a call's arguments."""

    program: Any
    tensors: Sequence[Expr]
    symbols: JaxSymbols
    platforms: Collection[str]  # that it goes by


def trace_call(call: Call, lower: Lowering, platform: str) -> Traced | None:
    """The lowering of a call as a program; None where JAX needs more than its types to trace it.

    Where the lowering differs by platform, it is that of `platform`.
    """
    args, _ = arguments(call)
    try:
        template, tensors = arranged(args)
        types = tuple(tensor.ty for tensor in tensors)
        program, symbols, platforms = _traced(
            lower, template, types, call.attrs, call.ty, platform, matmul_precision(), gpu_here()
        )
    except NotTraceableError:
        return None
    return Traced(program, tensors, symbols, platforms)


@lru_cache(maxsize=2048)
def _traced(
    lower: Lowering,
    template: tuple[Template, ...],
    types: tuple[Type | None, ...],
    attrs: Attrs,
    result: Type | None,
    platform: str,
    precision: Any,
    _gpu: Any,  # by which attention chooses its form: a trace is kept for each
) -> tuple[Any, JaxSymbols, Collection[str]]:
    with jax.default_matmul_precision(precision):
        return trace_lowering(lower, template, types, attrs, result, platform)
