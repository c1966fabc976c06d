"""Choosing for each operator the layout that it runs best in."""

from collections.abc import Callable, Mapping, Sequence

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.index_map import index_axes, index_map_over
from relaxjax.ir.layout import LayoutRule, Order, Relayout
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op
from relaxjax.passes.infrastructure.base import pass_factory

from .convert_layout import Layouts, chosen, require_choices
from .rearrange import rearranged

Alter = Layouts | Callable[[Call], Sequence[str] | None]


@pass_factory(opt_level=3, kind="function")
def AlterOpLayout(function: Function, mod: IRModule, alter: Alter | None = None) -> Function:
    """Compute each operator in the layout that it prefers, or that `alter` chooses for it.

    `alter` is a table as ConvertLayout takes it, or a function from a call to the layouts of its
    data, its kernel, and maybe its result; None leaves the call alone. Without it, convolutions
    take the layouts that they declare to prefer, with the channels innermost. The operators between
    follow, and layout_transform stands only where the program goes in and out of a layout.
    """

    def choose(call: Call) -> Relayout | None:
        layouts = _wish(call, alter)
        assert isinstance(call.op, Op)
        return chosen(call, {call.op.name: layouts}) if layouts else None

    if isinstance(alter, Mapping):
        require_choices("alter", alter)
    return rearranged(function, choose, _transformed)


def _wish(call: Call, alter: Alter | None) -> Sequence[str] | None:
    assert isinstance(call.op, Op)
    if callable(alter):
        return alter(call)
    if alter is not None:
        return alter.get(call.op.name)
    rule = call.op.layout
    return rule.preferred if isinstance(rule, LayoutRule) else None


def _transformed(expr: Expr, order: Order) -> Expr:
    axes = index_axes(len(order))
    names = [f"i{axis}" for axis in range(len(order))]
    layout = index_map_over(names, axes, [axes[axis] for axis in order])
    return get_op("relax.layout_transform")(expr, layout)
