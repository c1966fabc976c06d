"""Computing in other layouts than a program was written in."""

from collections.abc import Callable, Mapping, Sequence

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.layout import LayoutRule, Order, Relayout
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op
from relaxjax.passes.infrastructure.base import pass_factory

from .rearrange import rearranged

Layouts = Mapping[str, Sequence[str]]


@pass_factory(opt_level=0, kind="function")
def ConvertLayout(
    function: Function,
    mod: IRModule,
    desired_layouts: Layouts | None = None,
    layout_cb: Callable[[Call], Layouts] | None = None,
) -> Function:
    """Compute convolutions and the like in desired layouts, and all else in what follows from it.

    `desired_layouts` names operators, and for each the layouts of its data, of its kernel, and
    maybe of its result: {"relax.nn.conv2d": ["NHWC", "HWIO"]}; "default" is the one at hand.
    `layout_cb` gives such a table for each call, and replaces the one for all. Tensors are
    transposed where such a call is reached and where something is reached that no other layout
    suits; what lies between is computed as it comes: operators say by their layout rules how.
    """

    def choose(call: Call) -> Relayout | None:
        table = layout_cb(call) if layout_cb is not None else desired_layouts or {}
        return chosen(call, table)

    require_choices("desired_layouts", desired_layouts or {})
    return rearranged(function, choose, transposed)


def chosen(call: Call, table: Layouts) -> Relayout | None:
    """How a call is computed in the layouts that a table names for it."""
    assert isinstance(call.op, Op)
    rule, layouts = call.op.layout, table.get(call.op.name)
    if layouts is None or not isinstance(rule, LayoutRule) or rule.choose is None:
        return None
    return rule.choose(call, list(layouts))


def transposed(expr: Expr, order: Order) -> Expr:
    return get_op("relax.permute_dims")(expr, list(order))


def require_choices(option: str, table: Layouts) -> None:
    """An error where the table that an option gives names what has no layouts to choose among."""
    for name in table:
        rule = get_op(name).layout
        if not isinstance(rule, LayoutRule) or rule.choose is None:
            raise ValueError(f"`{option}` names {name}, which has no layout to choose")
