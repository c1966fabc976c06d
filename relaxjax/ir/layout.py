"""What an operator says of layouts: how a call computes on tensors whose axes are rearranged.

An order is what permute_dims takes: axis i of the rearranged tensor is axis `order[i]` of the
tensor. None stands for axes that are where the program put them, and for whatever has no axes; a
list holds the orders of a tuple's fields.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from .expr import Call, Expr

Order: TypeAlias = tuple[int, ...]
Orders: TypeAlias = "Order | list[Orders] | None"


class Sensitivity(Enum):
    """How much the layout of its tensors means to an operator."""

    AGNOSTIC = "agnostic"  # neither what it computes nor how fast depends on the layout
    LIGHT = "light"  # attributes name axes, and are as good with other numbers
    HEAVY = "heavy"  # the layout is an attribute, and how fast it runs depends on it
    OPAQUE = "opaque"  # takes its tensors as the program has them


@dataclass(frozen=True)
class Relayout:
    """One way to compute a call on rearranged arguments.

    `rebuild` makes the call from the arguments, each in its order of `args`; its result is in the
    order `result`.
    """

    args: tuple[Orders, ...]
    result: Orders
    rebuild: Callable[[Sequence[Expr]], Expr]


@dataclass(frozen=True)
class LayoutRule:
    """An operator's rules for layouts; each gives None for a call that it cannot rearrange.

    `follow` takes the orders in which the arguments are at hand; `produce` the order in which the
    result is wanted; `choose` the layouts that a user wishes for, by their names. `preferred` are
    the layouts in which the operator is fastest.
    """

    sensitivity: Sensitivity
    follow: Callable[[Call, Sequence[Orders]], Relayout | None]
    produce: Callable[[Call, Order], Relayout | None] | None = None
    choose: Callable[[Call, Sequence[str]], Relayout | None] | None = None
    preferred: tuple[str, ...] = ()


OPAQUE = LayoutRule(Sensitivity.OPAQUE, lambda call, orders: None)


def known(order: Sequence[int]) -> Order | None:
    """An order as it is written: None where it moves nothing."""
    return None if tuple(order) == tuple(range(len(order))) else tuple(order)


def inverse(order: Sequence[int]) -> Order:
    """The order that undoes another: where each axis has gone."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def between(source: Order | None, target: Order | None, ndim: int) -> Order | None:
    """How to rearrange a tensor that is in one order so that it is in another."""
    places = inverse(source or range(ndim))
    return known([places[axis] for axis in target or range(ndim)])


def without(order: Sequence[int], gone: Sequence[int]) -> Order | None:
    """The order that is left when the axes `gone` of the tensor are removed."""
    left = sorted(set(range(len(order))) - set(gone))
    return known([left.index(axis) for axis in order if axis not in gone])


def first_order(orders: Sequence[Orders]) -> Order | None:
    """The first order that moves anything, of tensors and of those in tuples."""
    for item in orders:
        found = first_order(item) if isinstance(item, list) else item
        if found is not None:
            return found
    return None
