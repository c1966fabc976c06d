"""Which axes may be those of a batch, and into how many parts it is worth to split it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from relaxjax.ir.expr import Call, Var
from relaxjax.ir.function import Function
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import static_dims
from relaxjax.ir.tuples import tensors_in
from relaxjax.ir.types import TupleType
from relaxjax.ir.walk import post_order
from relaxjax.ops.cost_rules import byte_count
from relaxjax.ops.loop_types import known_steps_of

# A part has so many samples at least: XLA computes along axes of length 1 in other ways, and takes
# 0.92 of plain JAX's time for 0.27 (ConvNeXt).
_FEWEST = 2
# So many bytes of a part are alive at once at least: else a step is many small operations.
_LEAST = 2**20
_MOST_QUICK = 8
# Of many samples, the peak is mostly that of the sums before.
_MOST = 64
# But for one at a time, of so many: gradients of matrices are computed inside of their sums then.
_MOST_SINGLE = 256
# Loops of so many steps, between which fewer bytes go than that, take as long for fewer samples:
# two parts of a gated recurrent network take 0.78 of plain JAX's time for 0.66, and eight 1.20.
_LONG, _FEW_BYTES, _MOST_OF_LONG = 16, 2**17, 2


# The axis of a batch for the names of the parameters that have one.
Axes: TypeAlias = tuple[tuple[str, int], ...]


class Parts(NamedTuple):
    """So many equal parts of a batch along some axes.

    What samples need of all may be computed before, and `again` in the parts.
    """

    number: int
    axes: Axes
    again: bool = False

    def of(self, function: Function) -> tuple[int, dict[Var, int]]:
        """The same by the parameters of a function."""
        known = dict(self.axes)
        return self.number, {p: known[p.name] for p in function.params if p.name in known}


def batches(function: Function) -> Iterator[dict[Var, int]]:
    """What may be a batch: its axis for each parameter that has so many samples, likeliest first.

    Samples are along the first axis, or the second where steps come first. What gradients are of
    has none, and what comes last is data rather than a model state.
    """
    data = _data(function)
    for axis in (0, 1):
        sizes = {var: dims[axis] for var, dims in data.items() if len(dims) > axis}
        found = Counter(reversed(sizes.values()))
        for size in found:
            yield {var: axis for var, own in sizes.items() if own == size}


def counts(size: int, most: int = _MOST, fewest: int = _FEWEST) -> Iterator[int]:
    """Into how many equal parts a batch of some size may be split, few first.

    There are so many at the `most`, and a part has so many samples at the `fewest`.
    """
    return (count for count in range(2, min(most, size // fewest) + 1) if size % count == 0)


def counts_to_one(size: int) -> list[int]:
    """The same down to parts of one sample, which there may be some more of."""
    found = [*counts(size, fewest=1)]
    return [*found, size] if _MOST < size <= _MOST_SINGLE else found


def most_quick(function: Function, peak: int) -> int:
    """How many parts take about as long as the whole, of which `peak` bytes are alive."""
    return min(_MOST_QUICK, _most_of_loops(function), peak // _LEAST)


def _most_of_loops(function: Function) -> int:
    """In how many parts a function may be taken, as far as its loops tell."""
    calls = (e for e in post_order(function) if isinstance(e, Call))
    loops = (call for call in calls if call.op is get_op("relax.scan"))
    carried = [
        byte_count(loop.args[1].ty) for loop in loops if (known_steps_of(loop) or _LONG) >= _LONG
    ]
    known = [size for size in carried if isinstance(size, int)]
    return min((max(_MOST_OF_LONG, size // _FEW_BYTES) for size in known), default=_MOST_QUICK)


def _data(function: Function) -> Mapping[Var, tuple[int, ...]]:
    """The parameters that no gradient is of, as far as types tell, and their sizes."""
    result = function.body.body.ty
    gradients = result.fields[-1] if isinstance(result, TupleType) and result.fields else None
    wanted = [] if gradients is None else [ty for _, ty in tensors_in(gradients)]
    found: dict[Var, tuple[int, ...]] = {}
    for param in reversed(function.params):
        if wanted and param.ty == wanted[-1]:
            wanted.pop()
        elif dims := static_dims(param.ty):
            found[param] = tuple(dims)
    return dict(reversed(found.items()))
