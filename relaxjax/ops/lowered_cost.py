"""The cost of an operator that is many steps: what the primitives of its lowering cost together."""

from functools import lru_cache

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.expr import Call, Tuple, Var
from relaxjax.ir.op import Op, arguments
from relaxjax.ir.types import Type

from .cost import function_cost
from .cost_rules import Cost, FunctionCost, UnknownCostError, touched
from .lax import UnsupportedPrimitiveError, read_jaxpr, x64_for
from .lax.tracing import NotTraceableError, Template, arranged, trace_lowering
from .platform import chosen_platform


def LOWERED(call: Call, function_cost: FunctionCost) -> Cost:
    """The flops of all primitives of the lowering; arguments and results read and written once."""
    assert isinstance(call.op, Op)
    try:
        template, tensors = arranged(arguments(call)[0])
        types = tuple(tensor.ty for tensor in tensors)
        flops = _flops(call.op, template, types, call.attrs, call.ty, chosen_platform())
    except NotTraceableError:
        raise UnknownCostError from None
    if flops is None:
        raise UnknownCostError
    return Cost(flops.flops, touched(call))


@lru_cache(maxsize=2048)
def _flops(
    op: Op,
    template: tuple[Template, ...],
    types: tuple[Type | None, ...],
    attrs: Attrs,
    result: Type | None,
    platform: str,
) -> Cost | None:
    """The cost of the lowering as a program, None where JAX needs more than types to trace it."""
    assert op.lower is not None
    params = [Var(f"x{number}", ty) for number, ty in enumerate(types)]
    builder = BlockBuilder()
    try:
        program, symbols, _ = trace_lowering(op.lower, template, types, attrs, result, platform)
        with x64_for(result, attrs, *types), builder.scope(taken=[param.name for param in params]):
            results = read_jaxpr(program, params, builder, symbols=symbols, spans=False)
            body = builder.sequence(Tuple(tuple(results)))
    except (NotTraceableError, UnsupportedPrimitiveError):
        return None
    return function_cost(make_function(params, body))
