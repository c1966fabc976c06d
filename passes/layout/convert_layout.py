"""Computing in other layouts than a program was written in."""

from collections.abc import Callable, Mapping, Sequence

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.layout import LayoutRule, Order, Relayout
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op
from relaxjax.ir.registry import get_op
from relaxjax.passes.base import pass_factory

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

    Before:

        @R.function
        def main(
            x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")
        ) -> R.Tensor((1, 4, 6, 6), "float32"):
            with R.dataflow():
                y = R.nn.conv2d(x, w)
                z = R.nn.relu(y)
                R.output(z)
            return z

    After `ConvertLayout({"relax.nn.conv2d": ["NHWC", "HWIO"]})`:

        @R.function
        def main(
            x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")
        ) -> R.Tensor((1, 4, 6, 6), "float32"):
            with R.dataflow():
                lv = R.permute_dims(x, axes=[0, 2, 3, 1])
                lv1 = R.permute_dims(w, axes=[2, 3, 1, 0])
                y1 = R.nn.conv2d(lv, lv1, data_layout="NHWC", kernel_layout="HWIO")
                z1 = R.nn.relu(y1)
                z = R.permute_dims(z1, axes=[0, 3, 1, 2])
                R.output(z)
            return z
    """

    def choose(call: Call) -> Relayout | None:
        table = layout_cb(call) if layout_cb is not None else desired_layouts or {}
        return chosen(call, table)

    for name in desired_layouts or ():
        _require_choice(name)
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


def _require_choice(name: str) -> None:
    rule = get_op(name).layout
    if not isinstance(rule, LayoutRule) or rule.choose is None:
        raise ValueError(f"`desired_layouts` names {name}, which has no layout to choose")
