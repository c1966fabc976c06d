"""Values that may lie at a turn of an operator by how they are made, and not by chance.

In `h - max(h)` an element is exactly 0, which is where the slope of `relu` and of `abs` jumps; so
are those of `x[:, None] - x[None, :]` on the diagonal. XLA may compute `h` anew in each kernel that
reads it, and of what rounding leaves of 0, one may take the slope above, and another that below.
What goes back to `h` then no longer cancels with what goes back to its maximum.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, count
from math import prod

from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, If
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import free_vars
from relaxjax.ops.cost_rules import MOVES, PICKS, VIEWS
from relaxjax.ops.decisions import has_floats

# Where elements meet others: a sum may be 0, and two numbers be equal, only because they are.
_MEETS = frozenset(
    {"add", "subtract", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
    | {"add_any", "sub", "eq", "ne", "lt", "le", "gt", "ge"}
)
# Of so many values, the newest, is known what others are made of.
_MOST = 1000


@dataclass(frozen=True)
class _Origin:
    """What a value is made of, element by element: values as the bits of a number, by their place.

    Where elements of some are `chosen`, they come to the places of others. `met` are these in what
    is computed with the value itself.
    """

    same: int = 0
    chosen: int = 0
    met: bool = False

    def meets(self, other: "_Origin") -> bool:
        return bool(self.chosen & (other.same | other.chosen) or other.chosen & self.same)


_NOTHING = _Origin()


def near_turns(bindings: Iterable[Binding]) -> frozenset[Var]:
    """The variables that hold values computed of elements, and of others chosen among the same."""
    bindings = tuple(bindings)
    sources = {
        var
        for binding in bindings
        if _chooses(binding.value)
        for var in free_vars(binding.value)
        if has_floats(var.ty)  # others are exact wherever they are computed
    }
    origins: dict[Var, _Origin] = {}
    places = count()

    def begun(var: Var, origin: _Origin = _NOTHING) -> _Origin:
        """The origin of a variable, which is one itself where elements are chosen among its own."""
        if var in sources:
            place = next(places)
            own = _Origin(1 << place)
            origin = _joined([own, origin], before=place - _MOST)
        origins[var] = origin
        return origin

    def of(var: Var) -> _Origin:
        return origins[var] if var in origins else begun(var)

    for binding in bindings:
        begun(binding.var, _made(binding.value, {v: of(v) for v in free_vars(binding.value)}))
    return frozenset(var for var, origin in origins.items() if origin.met)


def _made(value: Expr, given: Mapping[Var, _Origin]) -> _Origin:
    """The origin of a value: of nothing, if its elements are of many."""
    parts = list(given.values())
    if _chooses(value):
        joined = _joined(parts)
        return _Origin(0, joined.same | joined.chosen, joined.met)
    if not _is_elementwise(value):
        return _NOTHING
    joined = _joined(parts)
    op = value.op if isinstance(value, Call) else None
    is_sum = isinstance(op, Op) and op.name.partition(".")[2] in _MEETS
    if is_sum and any(one.meets(other) for one, other in combinations(parts, 2)):
        return replace(joined, met=True)
    return joined


def _joined(parts: Sequence[_Origin], before: int = 0) -> _Origin:
    """What values are made of together, but for what stands `before` a place."""
    same = chosen = 0
    for part in parts:
        same, chosen = same | part.same, chosen | part.chosen
    late = -1 << max(before, 0)
    return _Origin(same & late, chosen & late, any(part.met for part in parts))


def _chooses(value: Expr) -> bool:
    """Whether the elements of a value may be some of an argument's, at other places.

    What functions, loops and branches do is not looked at: they may give the largest element.
    """
    if not isinstance(value, Call):
        return isinstance(value, Function | If)
    op = value.op
    if not isinstance(op, Op) or op.facts.get("loop"):
        return True
    if op.fusion == "reduction" and _is_of_one_each(value):
        return True
    moves = op.fusion == "injective" or op.cost in (MOVES, PICKS)
    return moves or bool(op.facts.get("chooses"))


def _is_of_one_each(call: Call) -> bool:
    """Whether what is reduced has one element for each that comes of it."""
    types = [one.ty for one in (call, *call.args[:1])]
    counts = [prod(ty.dims) for ty in types if isinstance(ty, TensorType) and ty.dims is not None]
    return len(counts) == 2 and counts[0] == counts[1]


def _is_elementwise(value: Expr) -> bool:
    if not isinstance(value, Call):
        return isinstance(value, Var | Tuple | TupleGetItem)
    op = value.op
    return isinstance(op, Op) and (op.fusion in ("elementwise", "broadcast") or op.cost is VIEWS)
