"""Layout rules of operators that take the layout of their tensors as letters in an attribute.

They compute in any order of axes: the letters move with the axes.
"""

from collections.abc import Sequence
from typing import Any

from relaxjax.ir.expr import Call
from relaxjax.ir.layout import LayoutRule, Order, Orders, Relayout, Sensitivity, known
from relaxjax.ir.op import Op

from .declare import OpError
from .rearranging import remade


def letters_in(layout: str, order: Order | None) -> str:
    """The letters of a tensor's axes when they stand in `order`."""
    return layout if order is None else "".join(layout[axis] for axis in order)


def order_of(layout: str, wanted: str) -> Order | None:
    """The order that brings a tensor from one layout into another."""
    return known([layout.index(letter) for letter in wanted])


def _tensor_order(orders: Orders) -> Order | None:
    return orders if isinstance(orders, tuple) else None


def wished(call: Call, layout: str, wish: str) -> str:
    """A layout that a user wishes for; "default" is the one at hand."""
    assert isinstance(call.op, Op)
    if wish == "default":
        return layout
    if sorted(wish) != sorted(layout):
        raise OpError(
            f'{call.op.name} can be laid out with the letters of "{layout}", each once, '
            f'but "{wish}" is wished for'
        )
    return wish


def lettered(*only: str, data: int = 0, like_result: int | None = None) -> LayoutRule:
    """The rule of an operator with one layout, and maybe another one for its result.

    `only` are the layouts that it knows, where it does not know all. `data` is the place of the
    tensor, `like_result` that of one in the layout of the result: the adjoint of it, for a result
    that is like the data.
    """

    def in_letters(call: Call, letters: str) -> Relayout | None:
        if only and letters not in only:
            return None
        order = order_of(call.attrs["layout"], letters)
        changes, result = {"layout": letters}, order
        if "out_layout" in call.attrs:
            changes["out_layout"] = letters
            result = order_of(call.attrs["out_layout"], letters)
        args: list[Orders] = [None] * len(call.args)
        args[data] = order
        if like_result is not None:
            args[like_result], result = result, order
        return Relayout(tuple(args), result, lambda new: remade(call, new, changes))

    def follow(call: Call, orders: Sequence[Orders]) -> Relayout | None:
        layout = call.attrs["layout"]
        order = _tensor_order(orders[data])
        if order is None and like_result is not None:
            layout = call.attrs.get("out_layout", layout)
            order = _tensor_order(orders[like_result])
        return None if order is None else in_letters(call, letters_in(layout, order))

    def choose(call: Call, layouts: Sequence[str]) -> Relayout | None:
        require_layouts(call, layouts, 1)
        return in_letters(call, wished(call, call.attrs["layout"], layouts[0]))

    produce = None if like_result is not None else _with_result_in
    return LayoutRule(Sensitivity.HEAVY, follow, produce, choose)


def _with_result_in(call: Call, order: Order) -> Relayout | None:
    """The result in an order: where its layout is an attribute of its own, nothing else changes."""
    out = call.attrs.get("out_layout")
    if out is None:
        return None
    changes = {"out_layout": letters_in(out, order)}
    return Relayout((None,) * len(call.args), order, lambda new: remade(call, new, changes))


def require_layouts(call: Call, layouts: Sequence[str], *counts: int) -> None:
    """Another number of layouts than an operator has is an error."""
    assert isinstance(call.op, Op)
    if len(layouts) not in counts:
        listed = " or ".join(map(str, counts))
        raise OpError(
            f"{call.op.name} takes {listed} layouts, of its data first, found {list(layouts)}"
        )


def _convolution_in(call: Call, data: str, kernel: str, out: str) -> Relayout:
    attrs = call.attrs
    changes = {"data_layout": data, "kernel_layout": kernel, "out_layout": out}
    return Relayout(
        (order_of(attrs["data_layout"], data), order_of(attrs["kernel_layout"], kernel)),
        order_of(attrs["out_layout"], out),
        lambda new: remade(call, new, changes),
    )


def _is_kernel_adjoint(layout: str) -> bool:
    """Whether channels take the place of the batch, as where a convolution is a kernel's adjoint.

    Such a one is computed from tensors in whatever layout they are, and its result is a kernel.
    """
    return layout.index("C") < layout.index("N")


def _convolution_follow(call: Call, orders: Sequence[Orders]) -> Relayout | None:
    data, kernel = map(_tensor_order, orders)
    if data is None and kernel is None:
        return None
    source, out = call.attrs["data_layout"], call.attrs["out_layout"]
    letters = letters_in(source, data)
    same = out if _is_kernel_adjoint(source) or data is None else letters
    return _convolution_in(call, letters, letters_in(call.attrs["kernel_layout"], kernel), same)


def _convolution_choose(call: Call, layouts: Sequence[str]) -> Relayout | None:
    require_layouts(call, layouts, 2, 3)
    attrs: Any = call.attrs
    if _is_kernel_adjoint(attrs["data_layout"]):
        return None
    data = wished(call, attrs["data_layout"], layouts[0])
    kernel = wished(call, attrs["kernel_layout"], layouts[1])
    out = wished(call, attrs["out_layout"], layouts[2]) if len(layouts) > 2 else data
    return _convolution_in(call, data, kernel, out)


def convolution_layout(data: str, kernel: str) -> LayoutRule:
    """The rule of a convolution that is fastest in these layouts."""
    return LayoutRule(
        Sensitivity.HEAVY,
        _convolution_follow,
        _with_result_in,
        _convolution_choose,
        preferred=(data, kernel),
    )
