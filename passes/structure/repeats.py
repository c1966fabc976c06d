"""Finding segments of equal structure that follow one another in a block, each fed by the last."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any, TypeAlias

import numpy as np

from relaxjax.ir.expr import (
    Call,
    Constant,
    DataTypeImm,
    Expr,
    GlobalVar,
    PrimExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from relaxjax.ir.function import Binding, VarBinding
from relaxjax.ir.infer import is_pure_call
from relaxjax.ir.op import Op
from relaxjax.ir.tensor_types import static_dims
from relaxjax.ir.tuples import leaf_types, tensors_in
from relaxjax.ir.types import TensorType, Type
from relaxjax.ir.walk import post_order

# How many runs are looked at, those that save most first, how many of them that cover the very same
# bindings, and how long their segments may be.
_RUNS_TRIED = 100
_PERIODS_TRIED = 4
_LONGEST_PERIOD = 4096
# How many places to cut a run are tried, those with the least to carry first.
_CUTS_TRIED = 8

Numbers: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Slot:
    """What a use of a variable in a segment stands for, the same in every segment.

    It is the local of that number of the same segment, or of the segment before, or one variable
    from outside for each of the segments.
    """

    local: int | None = None
    is_carried: bool = False
    outer: tuple[Var, ...] = ()


@dataclass(frozen=True)
class Repeats:
    """Segments of `period` bindings each, from `start` on.

    `slots` are what the uses of variables in a segment are, in order. The carry is the locals
    `carried`, which begin as `init`; of the locals `outputs`, every segment's value is used later.
    """

    start: int
    period: int
    count: int
    slots: tuple[Slot, ...]
    carried: tuple[int, ...]
    init: tuple[Var, ...]
    outputs: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.start + self.period * self.count


def find_repeats(
    bindings: Sequence[Binding], used_after: set[Var], min_repeats: int
) -> Iterator[Repeats]:
    """What repeats at least so often, what saves the most bindings first."""
    labels = _labels(bindings)
    order = _Order.of(bindings, used_after)
    covered = Counter[tuple[int, int]]()
    runs = sorted(_runs(labels, min_repeats), key=_saved_bindings, reverse=True)
    for run in runs[:_RUNS_TRIED]:
        covered[run.start, run.length] += 1
        if covered[run.start, run.length] > _PERIODS_TRIED:
            continue
        if not any(isinstance(b.value, Call) for b in bindings[run.start : run.start + run.period]):
            continue  # the parts of tuples are at hand
        for start, count in order.cuts(run, min_repeats):
            found = order.repeats(start, run.period, count)
            if found is not None:
                yield found
                break


@dataclass(frozen=True)
class _Run:
    """Bindings of which each looks like the one `period` places before it."""

    start: int
    length: int
    period: int


def _saved_bindings(run: _Run) -> tuple[int, int]:
    return (run.length // run.period - 1) * run.period, -run.period


def _runs(labels: Numbers, min_repeats: int) -> Iterator[_Run]:
    """The longest runs of every period."""
    for period in range(1, min(len(labels) // min_repeats, _LONGEST_PERIOD) + 1):
        same = np.concatenate(([False], labels[period:] == labels[:-period], [False]))
        edges = np.flatnonzero(same[1:] != same[:-1])
        starts, lengths = edges[::2], edges[1::2] - edges[::2] + period
        long = lengths >= min_repeats * period
        for start, length in zip(starts[long].tolist(), lengths[long].tolist(), strict=True):
            yield _Run(start, length, period)


def _labels(bindings: Sequence[Binding]) -> Numbers:
    """A number a binding, the same for those that may be the same place of two segments."""
    known: dict[Any, int] = {}
    labels = []
    for index, binding in enumerate(bindings):
        look = _look(binding.value) if isinstance(binding, VarBinding) else None
        labels.append(-1 - index if look is None else known.setdefault(look, len(known)))
    return np.array(labels)


def _look(expr: Expr) -> Any:
    """What an expression is but for the variables it uses; None for what may not be repeated."""
    match expr:
        case Var():
            return ("var", expr.ty) if _is_static(expr.ty) else None
        case Constant():
            return ("constant", expr.dtype, expr.data.shape, expr.data.tobytes())
        case ShapeExpr():
            return ("shape", expr.values)
        case PrimExpr() | StringImm() | DataTypeImm():
            return ("immediate", type(expr), expr.value, expr.ty)
        case TupleGetItem():
            return _nested("item", expr.index, (expr.tuple_value,))
        case Tuple():
            return _nested("tuple", None, expr.fields)
        case Call() if isinstance(expr.op, Op | GlobalVar) and _is_plain(expr):
            return _nested("call", (expr.op.name, expr.attrs, expr.ty_args, expr.ty), expr.args)
        case _:
            return None


def _nested(kind: str, what: Any, inside: Sequence[Expr]) -> Any:
    looks = tuple(map(_look, inside))
    return None if None in looks else (kind, what, looks)


def _is_plain(call: Call) -> bool:
    return is_pure_call(call) and _is_static(call.ty)


def _is_static(ty: Type | None) -> bool:
    """Whether a type holds tensors only, of shapes that are numbers."""
    leaves = (leaf for _, leaf in leaf_types(ty))
    return all(isinstance(leaf, TensorType) and _bytes(leaf) is not None for leaf in leaves)


def _bytes(ty: TensorType) -> int | None:
    """The elements of a tensor, which stand for its bytes."""
    sizes = static_dims(ty) if isinstance(ty.shape, tuple) else None
    return None if sizes is None or ty.dtype is None else prod(sizes)


@dataclass(frozen=True)
class _Order:
    """Which binding defines a variable, and the variables that each of them uses, in order."""

    vars: list[Var]
    used: list[list[Var]]
    places: dict[Var, int]
    used_after: set[Var]
    last_use: dict[Var, int]

    @staticmethod
    def of(bindings: Sequence[Binding], used_after: set[Var]) -> "_Order":
        variables = [binding.var for binding in bindings]
        used = [[e for e in post_order(b.value) if isinstance(e, Var)] for b in bindings]
        last = {var: index for index, inside in enumerate(used) for var in inside}
        last |= dict.fromkeys(used_after, len(bindings))
        places = {var: index for index, var in enumerate(variables)}
        return _Order(variables, used, places, used_after, last)

    def cuts(self, run: _Run, min_repeats: int) -> list[tuple[int, int]]:
        """Where the first segment may start, and how many there are then: the best first."""
        crossing = self._crossing(run)
        found = []
        for start in range(run.start, run.start + run.period):
            count = (run.start + run.length - start) // run.period
            if count >= min_repeats:
                found.append((-count, crossing[start - run.start], start))
        return [(start, -negative) for negative, _, start in sorted(found)[:_CUTS_TRIED]]

    def _crossing(self, run: _Run) -> list[int]:
        """How many elements the first segment hands over its end, for each place to start it."""
        first = run.start + run.period  # where the segment that starts first ends
        change = [0] * (2 * run.period + 1)
        for place, var in enumerate(self.vars[run.start : first + run.period], run.start):
            # It is handed over at the ends behind it, up to its last use and of its own segment.
            begin = max(place + 1, first)
            end = min(self.last_use.get(var, -1), place + run.period, first + run.period - 1)
            if begin <= end:
                change[begin - first] += _size(var.ty)
                change[end + 1 - first] -= _size(var.ty)
        return list(accumulate(change))[: run.period]

    def repeats(self, start: int, period: int, count: int) -> Repeats | None:
        """The segments from `start` on, if they are connected in the same way."""
        columns = [self._uses(start + k * period, start, period) for k in range(count)]
        if None in columns:
            return None
        slots = [_slot(column) for column in zip(*filter(None, columns), strict=True)]
        kept = [slot for slot in slots if slot is not None]
        init = _init(kept)
        if len(kept) < len(slots) or not init:
            return None
        outputs = self._outputs(start, period, count, set(init))
        if outputs is None:
            return None
        plain = tuple(Slot(s.local, s.is_carried, () if s.is_carried else s.outer) for s in kept)
        carried = tuple(sorted(init))
        return Repeats(
            start, period, count, plain, carried, tuple(init[c] for c in carried), outputs
        )

    def _uses(self, here: int, start: int, period: int) -> list[Slot] | None:
        """What a segment uses, as seen from it; None if it reaches back further than it may."""
        slots = []
        for inside in self.used[here : here + period]:
            for var in inside:
                place = self.places.get(var, -1)
                if place >= here:
                    slots.append(Slot(place - here))
                elif place >= max(start, here - period):
                    slots.append(Slot(place - here + period, is_carried=True))
                elif place < start:
                    slots.append(Slot(outer=(var,)))
                else:
                    return None
        return slots

    def _outputs(
        self, start: int, period: int, count: int, carried: set[int]
    ) -> tuple[int, ...] | None:
        """The locals of which all segments' values are used later; None if it is some of them."""
        end = start + count * period
        found: Counter[int] = Counter()
        for place in range(start, end):
            is_last_carry = place >= end - period and (place - start) % period in carried
            if self.last_use.get(self.vars[place], -1) >= end and not is_last_carry:
                found[(place - start) % period] += 1
        wanted = {local: count - (local in carried) for local in found}
        if any(found[local] < wanted[local] for local in found):
            return None
        return tuple(sorted(found))


def _size(ty: Type | None) -> int:
    return sum(_bytes(tensor) or 0 for _, tensor in tensors_in(ty))


def _slot(column: tuple[Slot, ...]) -> Slot | None:
    """What one use is in all segments; the first one takes from outside what others are handed."""
    first, *others = column
    if any(slot.local != others[0].local for slot in others):
        return None
    if any(slot.is_carried != others[0].is_carried for slot in others):
        return None
    if others[0].is_carried:
        return Slot(others[0].local, True, first.outer) if first.outer else None
    if first.local != others[0].local:
        return None
    return Slot(first.local, False, tuple(var for slot in column for var in slot.outer))


def _init(slots: Sequence[Slot]) -> dict[int, Var]:
    """What each carried local is before the first segment; empty where that is not one value."""
    init: dict[int, Var] = {}
    for slot in slots:
        if slot.is_carried and slot.local is not None:
            (first,) = slot.outer
            if init.setdefault(slot.local, first) is not first:
                return {}
    return init
