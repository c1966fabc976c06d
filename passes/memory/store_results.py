"""Results of an adjoint that it reads itself: stored once, for the caller and for all readers."""

from collections.abc import Iterator

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, Expr, GlobalVar, Tuple, Var
from relaxjax.ir.function import Binding
from relaxjax.ir.module import IRModule, name_of
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import known_dtype
from relaxjax.ir.types import is_float
from relaxjax.ir.uses import Uses
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes.differentiation.gradient import function_of
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.tensors import is_elementwise_of_jax

from .program.step import size_of

_SMALL = 2**12  # bytes, of which fewer are left as they are


@pass_factory(opt_level=0)
def StoreResults(mod: IRModule, func_name: str | GlobalVar) -> IRModule:
    """Store what an adjoint gives besides, and also reads, once for all: logits, as a rule.

    `func_name` is a function that Gradient has written. A result is stored in any case, but XLA's
    compiler for CPUs makes it again, elementwise, in each kernel that reads it, and keeps what it
    is made of until then. The function is to be legalised, and for other platforms it stays as it
    is.
    """
    function = function_of(mod, name_of(func_name))
    if chosen_platform() != "cpu":
        return mod
    known = Uses.of(function)
    stored = {var for var in _made(function.body.body, known) if _is_worth_it(var, known)}

    def rule(binding: Binding, builder: BlockBuilder) -> Expr | None:
        if binding.var not in stored:
            return None
        return get_op("relax.grad.once")(builder.emit(binding.value, f"{binding.var.name}_made"))

    changed = expand_bindings(function, rule) if stored else function
    return mod if changed is function else mod.with_function(name_of(func_name), changed)


def _made(result: Expr, known: Uses) -> Iterator[Var]:
    """What the parts of a result are made by, reshaped or not."""
    value = known.value(result)
    if isinstance(result, Tuple):
        for field in result.fields:
            yield from _made(field, known)
    elif isinstance(value, Tuple | Var):
        yield from _made(value, known)
    elif isinstance(value, Call) and value.op is get_op("lax.reshape"):
        yield from _made(value.args[0], known)
    elif isinstance(value, Call) and isinstance(result, Var) and is_elementwise_of_jax(value):
        yield result


def _is_worth_it(var: Var, known: Uses) -> bool:
    """Whether others read it, and what it is made of is no smaller, which they could read too."""
    value, size = known.values[var], size_of(var)
    assert isinstance(value, Call)
    if known.count(var) < 2 or size < _SMALL or not is_float(known_dtype(var) or ""):
        return False
    return sum(size_of(arg) for arg in value.args if isinstance(arg, Var)) >= size
