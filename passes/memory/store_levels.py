"""The levels of a tree, such as those of an associative scan, stored once for the next ones."""

from collections.abc import Iterator

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op, operator_name
from relaxjax.ir.tensor_types import known_dtype
from relaxjax.ir.types import is_float
from relaxjax.ir.uses import Uses
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.tensors import is_elementwise_of_jax

from .program.step import size_of

_SMALL = 2**12  # bytes, of which fewer are left as they are


@pass_factory(opt_level=0, kind="function")
def StoreLevels(function: Function, mod: IRModule) -> Function:
    """Store what is computed from every other element of a tensor, and read so in turn.

    `jax.lax.associative_scan` combines neighbours, then neighbours of the results, and so on, and
    its gradient reads each of these levels again. XLA's compiler for CPUs computes a level inside
    of the kernels that read it, from the first one: an element of the fifth from 32 elements, each
    time. All levels that are stored take as many bytes as the first. What is read in part alone is
    left. The function is to be legalised, and for other platforms it stays as it is.
    """
    if chosen_platform() != "cpu":
        return function
    levels = set(_levels(function))

    def rule(binding: Binding, builder: BlockBuilder) -> Expr | None:
        if binding.var not in levels:
            return None
        return get_op("relax.grad.once")(builder.emit(binding.value, f"{binding.var.name}_level"))

    return expand_bindings(function, rule) if levels else function


def _levels(function: Function) -> Iterator[Var]:
    known = Uses.of(function)
    thinned = set[Expr]()  # what is computed from every other element
    for binding in function.body.bindings():
        var, value = binding.var, binding.value
        if _takes_every_other(value):
            thinned.add(var)
        elif isinstance(value, Call) and is_elementwise_of_jax(value):
            if thinned.isdisjoint(value.args):
                continue
            if _is_worth_it(var, known):
                yield var
            else:
                thinned.add(var)


def _is_worth_it(var: Var, known: Uses) -> bool:
    """Whether every other element is read, and no fewer in all than there are.

    Where a few are read, such as those of every other row and column, no others are computed.
    """
    size = size_of(var)
    if size < _SMALL or not is_float(known_dtype(var) or ""):
        return False
    readers = list(known.users_of(var))
    thin = {user for user in readers if _takes_every_other(known.values[user])}
    return bool(thin) and sum(size_of(user) if user in thin else size for user in readers) >= size


def _takes_every_other(value: Expr) -> bool:
    """Whether it is of the elements at equal steps, along some axis."""
    if not isinstance(value, Call) or operator_name(value) != "lax.slice":
        return False
    return max(value.attrs.get("strides") or (), default=1) > 1
