"""Making neighbouring regions for one backend one."""

from collections.abc import Mapping

from relaxjax.ir.expr import DataflowVar, Expr, Var
from relaxjax.ir.function import Binding, BindingBlock, DataflowBlock, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.uses import count_uses, values_of
from relaxjax.ir.walk import kept, map_blocks, substitute, used_vars
from relaxjax.passes.infrastructure.base import pass_factory

from .marks import BEGIN, END, mark_of, without_marks
from .regions import connected_regions


@pass_factory(opt_level=0, kind="function")
def MergeCompilerRegions(function: Function, mod: IRModule) -> Function:
    """Drop the marks between neighbouring regions for one backend, so that they become one.

    They stay apart where the whole would need itself by way of something outside of it.
    """
    merged = map_blocks(function, _merged)
    return function if merged is function else _without_idle_marks(merged)


def _merged(block: BindingBlock) -> BindingBlock:
    """A dataflow block whose values take each other without a mark inside a region."""
    if not isinstance(block, DataflowBlock):
        return block
    plain = without_marks(block)
    regions = connected_regions(plain.bindings, plain.compilers)
    region = {b.var: index for index, bindings in enumerate(regions) for b in bindings}
    values = values_of(block.bindings)
    outer = {
        mark.args[0]: var
        for var, value in reversed(values.items())
        if (mark := mark_of(value, END)) is not None
    }

    def inner(var: Var, home: int | None) -> Expr:
        """What stands behind the marks of a variable, if that is in the region `home`."""
        begin = mark_of(values.get(var, var), BEGIN)
        end = None if begin is None else mark_of(values.get(_var(begin.args[0]), begin), END)
        if end is None or home is None:
            return var
        return end.args[0] if region.get(outer[end.args[0]]) == home else var

    def changed(binding: Binding) -> Binding:
        home = region.get(outer.get(binding.var, binding.var))
        mapping = {var: inner(var, home) for var in used_vars(binding.value)}
        different = {var: value for var, value in mapping.items() if value is not var}
        return replace(binding, value=substitute(binding.value, different))

    return replace(block, bindings=kept(block.bindings, map(changed, block.bindings)))


def _var(expr: Expr) -> Var:
    assert isinstance(expr, Var)
    return expr


def _without_idle_marks(function: Function) -> Function:
    """`function` without hidden marks that nothing uses."""
    while True:
        counts = count_uses(function)
        swept = _swept(function, counts)
        if swept is function:
            return function
        function = swept


def _swept(function: Function, counts: Mapping[Var, int]) -> Function:
    def needed(binding: Binding) -> bool:
        idle = isinstance(binding.var, DataflowVar) and not counts.get(binding.var)
        return not idle or mark_of(binding.value, BEGIN, END) is None

    def on_block(block: BindingBlock) -> BindingBlock:
        return replace(block, bindings=kept(block.bindings, filter(needed, block.bindings)))

    return map_blocks(function, on_block)
