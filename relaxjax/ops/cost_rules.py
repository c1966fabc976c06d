"""What an operator costs to run, as its declaration says: the vocabulary of `cost=`.

A rule takes a call, and what tells the cost of a function among its arguments. It counts

* flops: operations on numbers, an addition or a comparison one, a multiplication with addition two,
  a function such as exp or tanh `TRANSCENDENTAL_FLOPS`, which is about what a processor spends;
* bytes: what is read and written if nothing is fused, each argument and each result once.

Counts are dimensions, so they may be symbolic. What has no known size has no known cost.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from relaxjax.ir.dims import Dim, dim_max, dim_sum
from relaxjax.ir.expr import Call, Expr, np_dtype
from relaxjax.ir.tuples import tensors_in
from relaxjax.ir.types import TensorType, Type

from .shapes import element_count

TRANSCENDENTAL_FLOPS = 8
# Comparisons that a sort makes of each element where the length is known only at the call.
_UNKNOWN_LOGARITHM = 20
_KEY_BYTES = {"key<fry>": 8, "key<rbg>": 16, "key<urbg>": 16}


class UnknownCostError(Exception):
    """A size that the cost depends on is not known."""


@dataclass(frozen=True, slots=True)
class Cost:
    """How many operations on numbers, and how many bytes read and written."""

    flops: Dim = 0
    bytes: Dim = 0

    @classmethod
    def sum_of(cls, costs: Sequence["Cost"]) -> "Cost":
        """That of all together: sums of many sizes are put in order once."""
        return cls(dim_sum(cost.flops for cost in costs), dim_sum(cost.bytes for cost in costs))

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.flops + other.flops, self.bytes + other.bytes)

    def times(self, count: Dim) -> "Cost":
        """The cost of doing it `count` times."""
        return Cost(self.flops * count, self.bytes * count)

    def or_else(self, other: "Cost") -> "Cost":
        """The cost of the dearer one of two."""
        return Cost(dim_max(self.flops, other.flops), dim_max(self.bytes, other.bytes))


FunctionCost: TypeAlias = Callable[[Expr], Cost]
CostRule: TypeAlias = Callable[[Call, FunctionCost], Cost]


def elements(ty: Type | None) -> Dim:
    """How many elements a tensor has, or the tensors of a tuple together."""
    if isinstance(ty, TensorType):  # as nearly all are
        return element_count(_dims(ty))
    return sum((element_count(_dims(leaf)) for _, leaf in tensors_in(ty)), start=0)


def byte_count(ty: Type | None) -> Dim:
    """How many bytes a tensor takes, or the tensors of a tuple together."""
    if isinstance(ty, TensorType):
        return element_count(_dims(ty)) * _width(ty)
    return sum((element_count(_dims(leaf)) * _width(leaf) for _, leaf in tensors_in(ty)), start=0)


def dims_of(expr: Expr) -> tuple[Dim, ...]:
    """The dimensions of a tensor."""
    if not isinstance(expr.ty, TensorType):
        raise UnknownCostError
    return _dims(expr.ty)


def dims_at(call: Call, index: int) -> tuple[Dim, ...]:
    """The dimensions of an argument."""
    return dims_of(call.args[index])


def touched(call: Call) -> Dim:
    """The bytes of all arguments and results."""
    return sum((byte_count(arg.ty) for arg in call.args), start=byte_count(call.ty))


def logarithm(length: Dim) -> int:
    """How often a length can be halved."""
    if not isinstance(length, int):
        return _UNKNOWN_LOGARITHM
    return max(1, math.ceil(math.log2(length))) if length > 1 else 1


def counting(flops: Callable[[Call], Dim]) -> CostRule:
    """So many flops, and all arguments and results read and written."""

    def rule(call: Call, function_cost: FunctionCost) -> Cost:
        return Cost(flops(call), touched(call))

    rule.__doc__ = flops.__doc__
    return rule


def per_element(flops: int) -> CostRule:
    """So many flops for each element of the result."""

    def count(call: Call) -> Dim:
        return elements(call.ty) * flops

    count.__doc__ = f"{_flops_text(flops)} for each element of the result."
    return counting(count)


def per_input(flops: int) -> CostRule:
    """So many flops for each element of the first argument."""

    def count(call: Call) -> Dim:
        return elements(call.args[0].ty) * flops

    count.__doc__ = f"{_flops_text(flops)} for each element of the first argument."
    return counting(count)


def _flops_text(flops: int) -> str:
    return "One flop" if flops == 1 else f"{flops} flops"


def _views(call: Call, function_cost: FunctionCost) -> Cost:
    """Nothing: the same bytes are seen in another way."""
    return Cost()


def _moves(call: Call) -> Dim:
    """No flops; everything is read and written."""
    return 0


def _fills(call: Call, function_cost: FunctionCost) -> Cost:
    """No flops; only the result is written."""
    return Cost(0, byte_count(call.ty))


def _picks(call: Call, function_cost: FunctionCost) -> Cost:
    """No flops; as much of the first argument is read as the result has."""
    places = sum((byte_count(arg.ty) for arg in call.args[1:]), start=0)
    return Cost(0, byte_count(call.ty) * 2 + places)


def _unknown(call: Call, function_cost: FunctionCost) -> Cost:
    """Not known: what is called is a value."""
    raise UnknownCostError


def _sorts(call: Call) -> Dim:
    """A comparison and a move for each halving of the longest axis, whichever is sorted."""
    dims = dims_at(call, 0)
    known = [dim for dim in dims if isinstance(dim, int)]
    longest = max(known, default=1) if len(known) == len(dims) else _symbolic(dims)
    return elements(call.args[0].ty) * 2 * logarithm(longest)


def _symbolic(dims: Sequence[Dim]) -> Dim:
    return next(dim for dim in dims if not isinstance(dim, int))


VIEWS: CostRule = _views
MOVES: CostRule = counting(_moves)
FILLS: CostRule = _fills
PICKS: CostRule = _picks
ELEMENTWISE: CostRule = per_element(1)
TRANSCENDENTAL: CostRule = per_element(TRANSCENDENTAL_FLOPS)
REDUCES: CostRule = per_input(1)
SORTS: CostRule = counting(_sorts)
UNKNOWN: CostRule = _unknown


def _dims(ty: TensorType) -> tuple[Dim, ...]:
    if ty.dims is None:
        raise UnknownCostError
    return ty.dims


def _width(ty: TensorType) -> int:
    if ty.dtype is None:
        raise UnknownCostError
    known = _KEY_BYTES.get(ty.dtype)
    return np_dtype(ty.dtype).itemsize if known is None else known
