"""Causal attention, as einsums and a softmax between them, or by `jax.nn.dot_product_attention`.

Half of its products are masked, which `relax.nn.attention` leaves out. The axes may lie in any
order; what the mask hides must be so far below that its weights are 0.
"""

from dataclasses import dataclass, replace

import numpy as np

from relaxjax.ir.expr import Call, Constant, Expr
from relaxjax.ir.op import get_op
from relaxjax.ops.emit import call as relax

from .reading import (
    Reading,
    View,
    asks_for_precision,
    dims_of,
    dtype_of,
    ndim_of,
    of_one_float,
    raises,
)
from .writing import in_order, of_shape

_HIDDEN = -1e30  # a score from which no score of use is so far that it has any weight
_COUNTING = ("int32", "uint32", "int64", "uint64")  # they count any sequence without coming round


@dataclass(frozen=True)
class _Product:
    """A product of two tensors in stacks: for each, which of its axes play which part."""

    args: tuple[Expr, Expr]
    stacks: tuple[tuple[int, ...], tuple[int, ...]]
    summed: tuple[int, int]
    left: tuple[tuple[int, ...], tuple[int, ...]]  # those that are neither


@dataclass(frozen=True)
class _Scores:
    """Scaled products of queries and keys, each axis named by where the product had it."""

    product: _Product
    scale: float
    axes: tuple[int, ...]


@raises("lax.dot_general")
def causal_attention(call: Call, reading: Reading) -> Expr | None:
    """softmax of products under a mask of what comes later, times the values."""
    means = _product(call)
    if means is None:
        return None
    for side in (0, 1):
        weights = means.args[side]
        softmax = reading.known.call(weights, "relax.nn.softmax")
        if softmax is None or not reading.known.used_once(weights):
            continue
        along = softmax.attrs["axis"] % ndim_of(weights)
        scores = _causal_scores(softmax.args[0], reading)
        if scores is not None and means.summed[side] == along == _place(scores, 1):
            return _attention(scores, means, side, call)
    return None


def _product(call: Call) -> _Product | None:
    if call.op is not get_op("lax.dot_general") or asks_for_precision(call):
        return None
    if not of_one_float(call) or dtype_of(call) not in ("float32", "float64"):
        return None
    (left, right), stacks = call.attrs["dimension_numbers"]
    if len(left) != 1 or len(stacks[0]) != 2:
        return None
    x, y = call.args
    others = [
        tuple(axis for axis in range(ndim_of(arg)) if axis not in (*summed, *stack))
        for arg, summed, stack in zip((x, y), (left, right), stacks, strict=True)
    ]
    return _Product((x, y), stacks, (left[0], right[0]), (others[0], others[1]))


def _causal_scores(expr: Expr, reading: Reading) -> _Scores | None:
    """Scores under a causal mask whose rows are queries, and whose columns are keys."""
    masked = reading.operands(expr, "select_n")
    if masked is None or len(masked) != 3:
        return None
    mask, hidden, shown = masked
    filling, scores = reading.number(hidden), _scores(shown.expr, reading)
    if scores is None or filling is None or not filling <= _HIDDEN:
        return None
    rows, columns = (_place(scores, side) for side in (0, 1))
    if rows is None or columns is None:
        return None
    return scores if sees(mask, rows, columns, reading) == "causal" else None


def _scores(expr: Expr, reading: Reading) -> _Scores | None:
    base, scale = reading.multiple(View.whole(expr))
    if base != View.whole(base.expr):
        return None
    moved = reading.call(base.expr, "relax.permute_dims")
    if moved is not None and moved.attrs["axes"] is not None:
        inner = _scores(moved.args[0], reading)
        if inner is None:
            return None
        axes = tuple(inner.axes[axis] for axis in moved.attrs["axes"])
        return replace(inner, axes=axes, scale=inner.scale * scale)
    call = reading.call(base.expr, "dot_general")
    product = None if call is None else _product(call)
    return None if product is None else _Scores(product, scale, tuple(range(ndim_of(expr))))


def _place(scores: _Scores, side: int) -> int | None:
    """Which axis of the scores counts the queries, or the keys."""
    made = _made(scores.product, side)
    return None if made is None else scores.axes.index(made)


def _made(product: _Product, side: int) -> int | None:
    """Which axis of a product comes from the sequence of one side."""
    sequence = _sequence(product, side)
    if sequence is None:
        return None
    before = len(product.stacks[0]) + (len(product.left[0]) if side else 0)
    return before + product.left[side].index(sequence)


def _sequence(product: _Product, side: int) -> int | None:
    """The only axis of one side that is left and longer than one."""
    dims = dims_of(product.args[side])
    longer = [axis for axis in product.left[side] if dims is not None and dims[axis] != 1]
    return longer[0] if len(longer) == 1 else None


def sees(mask: View, rows: int, columns: int, reading: Reading) -> str | None:
    """What a mask lets be seen: "all", or "causal", where no row sees a later column."""
    mask = reading.peeled(mask)
    if reading.number(mask) == 1:
        return "all"
    if isinstance(mask.expr, Constant):
        lower = np.tril(np.ones(mask.expr.data.shape, bool))
        return "causal" if mask.axes == (rows, columns) and _same(mask.expr, lower) else None
    both = reading.args(mask, "and_")
    if both is not None:
        found = {sees(one, rows, columns, reading) for one in both}
        return None if None in found else "causal" if "causal" in found else "all"
    chosen = reading.args(mask, "select_n")
    if chosen is not None and len(chosen) == 3:
        if reading.number(chosen[1]) == 0 and reading.number(chosen[2]) == 1:
            return sees(chosen[0], rows, columns, reading)
        return None
    return _compared(mask, rows, columns, reading)


def _compared(mask: View, rows: int, columns: int, reading: Reading) -> str | None:
    """Whether a mask says that rows count from the same place as columns, and are not before."""
    earlier, later = reading.args(mask, "le"), reading.args(mask, "ge")
    pair = earlier[::-1] if earlier is not None else later
    if pair is None:
        return None
    row, column = (_counted(view, reading) for view in pair)
    if row is None or column is None or row[1] != column[1]:
        return None
    return "causal" if (row[0], column[0]) == (rows, columns) else None


def _same(constant: Constant, array: np.ndarray) -> bool:
    return constant.data.ndim == 2 and bool(np.array_equal(constant.data, array))


def _counted(view: View, reading: Reading) -> tuple[int, float] | None:
    """The axis along which numbers count up, and from where."""
    moved = reading.with_number(view, "add")
    view, start = (view, 0.0) if moved is None else moved
    view = reading.peeled(view)
    count = reading.call(view.expr, "iota")
    if count is None or dtype_of(count) not in _COUNTING:
        return None
    return view.axes[count.attrs["dimension"]], start


def _attention(scores: _Scores, means: _Product, side: int, call: Call) -> Expr | None:
    """Attention in the place of the product `means` that `call` is, whose `side` are weights."""
    stacks = tuple(scores.axes[axis] for axis in means.stacks[side])
    query, key = (_by_heads(scores.product, part) for part in (0, 1))
    dims, rows = dims_of(call), _made(scores.product, 0)
    of_values = means.left[1 - side]
    if query is None or key is None or dims is None or rows is None:
        return None
    if sorted(stacks) != [0, 1] or len(of_values) != 1:
        return None
    first, second = (means.stacks[1 - side][stacks.index(stack)] for stack in (0, 1))
    order = (first, means.summed[1 - side], second, of_values[0])
    value = in_order(means.args[1 - side], order)
    out = relax("nn.attention", query, key, value, scale=scores.scale, causal_mask="TopLeft")
    # The result is of the stacks, then of what is left of the one side, then of the other.
    kept = [("weights", scores.axes[axis]) for axis in means.left[side]]
    parts = [kept, [("values", 0)]] if side == 0 else [[("values", 0)], kept]
    wanted = [*(("stack", stack) for stack in stacks), *parts[0], *parts[1]]
    found = [("stack", 0), ("weights", rows), ("stack", 1), ("values", 0)]
    return of_shape(in_order(out, [found.index(name) for name in wanted if name in found]), dims)


def _by_heads(product: _Product, side: int) -> Expr | None:
    """Queries or keys as (stack, sequence, stack, size), without axes of one."""
    arg, (first, second) = product.args[side], product.stacks[side]
    dims, sequence = dims_of(arg), _sequence(product, side)
    if sequence is None or dims is None:
        return None
    order = (first, sequence, second, product.summed[side])
    ones = [axis for axis in product.left[side] if axis != sequence]
    return of_shape(in_order(arg, [*order, *ones]), [dims[axis] for axis in order])
