"""What the primitives of JAX say of layouts: axes have numbers, which are as good as others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from relaxjax.ir.expr import Call
from relaxjax.ir.layout import LayoutRule, Order, Orders, Relayout, known, without
from relaxjax.ir.types import TensorType
from relaxjax.ops.rearranging import AGNOSTIC, LIKE_DATA, agnostic, carrying, moved_axes, remade
from relaxjax.ops.shape_layouts import RESHAPED, renamed

from .costs import ELEMENTWISE_NAMES

Changed = tuple[Mapping[str, Any], Orders]


def _by_axis(*names: str) -> Callable[[Call, Order], Changed]:
    """Attributes that hold one value an axis; None stands for the same value for all."""

    def change(call: Call, order: Order) -> Changed:
        given = {name: call.attrs[name] for name in names if call.attrs.get(name) is not None}
        return {name: [each[axis] for axis in order] for name, each in given.items()}, order

    return change


def _joined(call: Call, order: Order) -> Changed:
    return {"dimension": moved_axes([call.attrs["dimension"]], order)[0]}, order


def _turned_round(call: Call, order: Order) -> Changed:
    return {"dimensions": moved_axes(call.attrs["dimensions"], order)}, order


def _reduced(call: Call, order: Order) -> Changed:
    axes = call.attrs["axes"]
    return {"axes": sorted(moved_axes(axes, order))}, without(order, axes)


def _spread_in(call: Call, order: Order) -> Relayout | None:
    """Axes are added wherever the order has them; those that are there must stay in their order."""
    if len(call.args) != 1:
        return None
    places = moved_axes(call.attrs["broadcast_dimensions"], order)
    given = known(sorted(range(len(places)), key=places.__getitem__))
    changes = {
        "shape": [call.attrs["shape"][axis] for axis in order],
        "broadcast_dimensions": sorted(places),
    }
    return Relayout((given,), order, lambda new: remade(call, new, changes))


def _spread(call: Call, orders: Sequence[Orders]) -> Relayout | None:
    """A tensor that is repeated along axes which it has."""
    (order, *_), ty = orders, call.args[0].ty
    is_full = isinstance(ty, TensorType) and ty.ndim == len(call.attrs["shape"])
    return _spread_in(call, order) if isinstance(order, tuple) and is_full else None


def _permutation(call: Call, ndim: int) -> Sequence[int]:
    axes: Sequence[int] = call.attrs["permutation"]
    return axes


def _reshaped(call: Call, orders: Sequence[Orders]) -> Relayout | None:
    return RESHAPED.follow(call, orders) if call.attrs.get("dimensions") is None else None


_REDUCED = carrying(_reduced)
_RULES: dict[str, LayoutRule] = {
    **dict.fromkeys(ELEMENTWISE_NAMES, AGNOSTIC),
    **dict.fromkeys(["copy", "name", "stop_gradient"], LIKE_DATA),
    **{f"reduce_{name}": _REDUCED for name in ("and", "max", "min", "or", "prod", "sum", "xor")},
    "broadcast_in_dim": replace(AGNOSTIC, follow=_spread, produce=_spread_in),
    "concatenate": agnostic(_joined),
    "pad": agnostic(_by_axis("padding_config")),
    "reshape": replace(RESHAPED, follow=_reshaped),
    "rev": agnostic(_turned_round),
    "slice": agnostic(_by_axis("start_indices", "limit_indices", "strides")),
    "transpose": renamed(_permutation),
}


def layout_of_primitive(name: str) -> LayoutRule | None:
    """The rule of the operator `lax.<name>`, None for one that takes axes as they are."""
    return _RULES.get(name)
