"""Attention, as einsums and a softmax between them, or by `jax.nn` and the libraries on it.

Its weights are as large as the product of both lengths: an operator of `relax.nn` computes them
again in the backward program instead of keeping them, and under a causal mask leaves out half of
the products. The axes may lie in any order, be split and merged, and heads may share their keys.
What a causal mask hides must be so far below that its weights are 0.

In half precision, scores and weights may be rounded to it anywhere on the way. The operators
compute them in float32, and are no farther from the exact ones. Where nothing is in half
precision, rounding is a part of what was written, and such attention is not read.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import known_dims, known_dtype, known_ndim
from relaxjax.ops.emit import call as relax
from relaxjax.ops.shapes import element_count

from .masks import bare, is_finite, sees
from .reading import HALF_PRECISION, Reading, View, asks_for_precision, raises
from .writing import in_order, of_shape

Names = tuple[str, ...]  # of the axes that were merged into one, the slowest first
Sizes = Mapping[str, Dim]


@dataclass(frozen=True)
class Named:
    """A tensor and the names of its axes; one of a single element has none."""

    expr: Expr
    axes: tuple[Names, ...]

    @property
    def names(self) -> Names:
        return tuple(chain.from_iterable(self.axes))


def regrouped(
    axes: Sequence[Names], sizes: Sizes, dims: Sequence[Dim] | None
) -> tuple[Names, ...] | None:
    """The names of axes after a reshape, None where it splits one that has a name."""
    waiting, found = list(chain.from_iterable(axes)), []
    for dim in dims or ():
        group: list[str] = []
        while element_count([sizes[name] for name in group]) != dim:
            if not waiting:
                return None
            group.append(waiting.pop(0))
        found.append(tuple(group))
    return None if waiting else tuple(found)


def laid(tensor: Named, groups: Sequence[Names], sizes: Sizes) -> Expr | None:
    """A tensor with one axis for each group of names, of one element for a group that it lacks.

    None where it has some names of a group, but not all.
    """
    names = tensor.names
    kept = [group for group in groups if set(group) <= set(names)]
    order = [names.index(name) for group in kept for name in group]
    if sorted(order) != list(range(len(names))):
        return None
    x = tensor.expr
    if order != sorted(order):
        x = in_order(of_shape(x, [sizes[name] for name in names]), order)
    shape = [element_count([sizes[n] for n in g]) if g in kept else 1 for g in groups]
    return of_shape(x, shape)


# A score from which no score of use is so far that it has any weight; and the least in float16.
_HIDDEN, _HIDDEN_IN_FLOAT16 = -1e30, -6e4
# By which JAX asks for what is done anyway: sums of half precision are made in float32.
_AS_EVER = ("BF16_BF16_F32", "F16_F16_F32")


@dataclass(frozen=True)
class _Scores:
    """Scaled products of two tensors in stacks, perhaps with a bias, and under a mask.

    Names are those of the axes of both, by what they are in the product: `s0` and so on of the
    stacks, `d` of what is summed over, and the others.
    """

    factors: tuple[Named, Named]
    sizes: Sizes
    axes: tuple[Names, ...]
    scale: float = 1.0
    bias: Named | None = None
    mask: View | None = None
    hidden: float = -math.inf
    masked: tuple[Names, ...] = ()  # the axes of the scores under the mask
    rounded: bool = False  # they or the weights, on the way

    @property
    def stacks(self) -> Names:
        return tuple(name for name in self.factors[0].names if name.startswith("s"))

    def own(self, side: int) -> Names:
        """The axes that only one of the factors has."""
        names = self.factors[side].names
        return tuple(name for name in names if name not in ("d", *self.stacks))


@dataclass(frozen=True)
class _Attention:
    """The parts of attention, and the groups of axes that its operators have as one."""

    scores: _Scores
    sizes: Sizes
    query: Named
    key: Named
    value: Named
    batch: Names
    rows: Names
    columns: Names
    heads: Names
    shared: Names  # which heads of the query have one of the keys in common
    width: Names

    @property
    def query_heads(self) -> Names:
        return self.heads + self.shared

    @property
    def of_scores(self) -> tuple[Names, ...]:
        """The axes of scores, as the operators have masks and biases of them."""
        return self.batch, self.query_heads, self.rows, self.columns


@raises("lax.dot_general")
def attention(call: Call, reading: Reading) -> Expr | None:
    """softmax of scaled products, perhaps under a mask, times the values."""
    if not _is_plain(call) or known_dtype(call) != known_dtype(call.args[0]):
        return None
    for side in (0, 1):
        weights = _weights(call.args[side], reading)
        if weights is not None and weights.rounded and not _is_half(call, weights):
            continue  # in float32 that is asked for, and no matter of the precision
        parts = None if weights is None else _parts(call, side, weights)
        out = None if parts is None else _attended(parts, reading)
        if weights is not None and parts is not None and out is not None:
            return _as_product(out, parts, weights, side, call)
    return None


def _is_half(call: Call, scores: _Scores) -> bool:
    """Whether what scores are of, or the values that they weigh, is in half precision."""
    dtypes = {known_dtype(x) for x in (*call.args, *(part.expr for part in scores.factors))}
    return not dtypes.isdisjoint(HALF_PRECISION)


def _is_plain(call: Call) -> bool:
    """Whether a product sums over one axis, as its dtype has it, or gives float32 of halves."""
    if call.op is not get_op("lax.dot_general"):
        return False
    dtype, summed = known_dtype(call.args[0]), call.attrs["dimension_numbers"][0][0]
    if len(summed) != 1 or dtype != known_dtype(call.args[1]):
        return False
    if dtype in ("float32", "float64"):
        return known_dtype(call) == dtype and not asks_for_precision(call)
    precision = call.attrs.get("precision")
    is_as_ever = precision is None or (
        isinstance(precision, Mapping) and precision.get("DotAlgorithmPreset") in _AS_EVER
    )
    return dtype in HALF_PRECISION and known_dtype(call) in (dtype, "float32") and is_as_ever


def _weights(expr: Expr, reading: Reading) -> _Scores | None:
    """The scores of whose softmax, which has no other use, `expr` has the elements."""
    if not reading.known.used_once(expr):
        return None
    softmax = reading.known.call(expr, "relax.nn.softmax")
    if softmax is None:
        return _moved(expr, reading, _weights)
    scores = _under_mask(softmax.args[0], reading)
    if scores is None:
        return None
    along = scores.axes[softmax.attrs["axis"] % known_ndim(expr)]
    if len(along) != 1 or along not in (scores.own(0), scores.own(1)):
        return None
    return replace(scores, factors=scores.factors[::-1]) if along == scores.own(0) else scores


def _under_mask(expr: Expr, reading: Reading) -> _Scores | None:
    """Scores, or a choice between them and a number that hides them."""
    wide = reading.rounded(expr)
    if wide is None:
        return _shown(expr, reading)
    found = _shown(wide, reading)
    return None if found is None else replace(found, rounded=True)


def _shown(expr: Expr, reading: Reading) -> _Scores | None:
    chosen = reading.operands(expr, "select_n")
    if chosen is None or len(chosen) != 3:
        return _scores(expr, reading)
    mask, hidden, shown = chosen
    filling, scores = reading.number(hidden), _scores(shown.expr, reading)
    most = _HIDDEN_IN_FLOAT16 if known_dtype(expr) == "float16" else _HIDDEN
    if scores is None or filling is None or not filling <= most:
        return None
    return replace(scores, mask=mask, hidden=filling, masked=scores.axes)


def _scores(expr: Expr, reading: Reading) -> _Scores | None:
    base, scale = reading.multiple(View.whole(expr))
    if base != View.whole(base.expr):
        return None
    call = reading.call(base.expr, "dot_general")
    if call is not None:
        found = _product(call) if _is_plain(call) else None
    else:
        found = _moved(base.expr, reading, _scores) or _biased(base.expr, reading)
    if found is None or (found.bias is not None and scale != 1):
        return None
    return replace(found, scale=found.scale * scale)


def _biased(expr: Expr, reading: Reading) -> _Scores | None:
    """Scores and what is added to them, such as of positions, or where a mask is one of numbers."""
    added = reading.operands(expr, "add")
    if added is None:
        return None
    for one, other in (added, added[::-1]):
        found = _scores(one.expr, reading) if one == View.whole(one.expr) else None
        bias = reading.unturned(other)
        dims = known_dims(bias.expr)
        if found is None or found.bias is not None or dims is None or len(dims) != len(bias.axes):
            continue
        if not is_finite(other, reading):  # where no key counts, the operator has no NaN
            continue
        pairs = zip(bias.axes, dims, strict=True)
        axes = tuple(() if axis is None or dim == 1 else found.axes[axis] for axis, dim in pairs)
        return replace(found, bias=Named(bias.expr, axes))
    return None


def _moved(
    expr: Expr, reading: Reading, inner: Callable[[Expr, Reading], _Scores | None]
) -> _Scores | None:
    """What is read of a tensor that is rounded, or whose axes are in another order or grouping."""
    wide = reading.rounded(expr)
    if wide is not None:
        found = inner(wide, reading)
        return None if found is None else replace(found, rounded=True)
    call = reading.call(expr, "relax.permute_dims", "reshape")
    found = None if call is None else inner(call.args[0], reading)
    if call is None or found is None:
        return None
    if call.op is get_op("lax.reshape"):
        turned = call.attrs.get("dimensions") is not None
        axes = None if turned else regrouped(found.axes, found.sizes, known_dims(call))
        return None if axes is None else replace(found, axes=axes)
    order = call.attrs["axes"]
    return None if order is None else replace(found, axes=tuple(found.axes[a] for a in order))


def _product(call: Call) -> _Scores | None:
    """A product by itself, its axes named."""
    summed, stacks = call.attrs["dimension_numbers"]
    factors: list[Named] = []
    sizes: dict[str, Dim] = {}
    left: list[str] = []
    for side, arg in enumerate(call.args):
        dims = known_dims(arg)
        if dims is None:
            return None
        names = {axis: f"s{place}" for place, axis in enumerate(stacks[side])}
        names[summed[side][0]] = "d"
        left += [f"{'xy'[side]}{axis}" for axis in range(len(dims)) if axis not in names]
        names |= {axis: f"{'xy'[side]}{axis}" for axis in range(len(dims)) if axis not in names}
        sizes |= {names[axis]: dim for axis, dim in enumerate(dims) if dim != 1}
        axes = tuple((names[axis],) if dim != 1 else () for axis, dim in enumerate(dims))
        factors.append(Named(arg, axes))
    order = [*(f"s{place}" for place in range(len(stacks[0]))), *left]
    axes = tuple((name,) if name in sizes else () for name in order)
    return _Scores((factors[0], factors[1]), sizes, axes)


def _parts(call: Call, side: int, weights: _Scores) -> _Attention | None:
    """What is what, where a product of weights, one of its sides, with values is attention."""
    summed, stacks = call.attrs["dimension_numbers"]
    values, dims = call.args[1 - side], known_dims(call.args[1 - side])
    along = weights.own(1)
    together = [name for axis in stacks[side] for name in weights.axes[axis]]
    if dims is None or weights.axes[summed[side][0]] != along:
        return None
    if sorted(together) != sorted(weights.stacks):
        return None
    names = dict(zip(stacks[1 - side], (weights.axes[axis] for axis in stacks[side]), strict=True))
    names[summed[1 - side][0]] = along
    width = {axis: f"v{axis}" for axis, dim in enumerate(dims) if axis not in names and dim != 1}
    sizes = {**weights.sizes, **{name: dims[axis] for axis, name in width.items()}}
    axes = tuple(names.get(a, (width[a],) if a in width else ()) for a in range(len(dims)))
    rows = [name for name in weights.own(0) if sizes[name] == sizes[along[0]]]
    first = (rows or list(weights.own(0)))[:1]
    return _Attention(
        scores=weights,
        sizes=sizes,
        query=weights.factors[0],
        key=weights.factors[1],
        value=Named(values, axes),
        batch=weights.stacks[:-1],
        rows=tuple(first),
        columns=along,
        heads=weights.stacks[-1:],
        shared=tuple(name for name in weights.own(0) if name not in first),
        width=tuple(width.values()),
    )


def _attended(parts: _Attention, reading: Reading) -> Named | None:
    """The call of the operator, and the axes of its result."""
    d = tuple(name for name in parts.key.names if name == "d")
    of_query = (parts.batch, parts.rows, parts.query_heads, d)
    of_key = (parts.batch, parts.columns, parts.heads, d)
    of_value = (*of_key[:3], parts.width)
    query = laid(parts.query, of_query, parts.sizes)
    key = laid(parts.key, of_key, parts.sizes)
    value = laid(parts.value, of_value, parts.sizes)
    mask = _mask(parts, reading)
    if query is None or key is None or value is None or mask is None:
        return None
    if not known_dtype(query) == known_dtype(key) == known_dtype(value):
        return None
    axes = (parts.batch, parts.rows, parts.query_heads, parts.width)
    options: dict[str, Any] = {"scale": parts.scores.scale}
    bias = parts.scores.bias
    if bias is not None:
        table = laid(bias, parts.of_scores, parts.sizes)
        if isinstance(mask, Expr) or table is None:
            return None
        options["causal_mask"] = "TopLeft" if mask == "causal" else None
        return Named(relax("nn.attention_bias", query, key, value, table, **options), axes)
    if isinstance(mask, Expr):
        options["hidden"] = parts.scores.hidden
        return Named(relax("nn.masked_attention", query, key, value, mask, **options), axes)
    options["causal_mask"] = "TopLeft" if mask == "causal" else None
    return Named(relax("nn.attention", query, key, value, **options), axes)


def _mask(parts: _Attention, reading: Reading) -> Expr | str | None:
    """What queries see: "all", "causal", or what a tensor says; None where that has no operator."""
    scores = parts.scores
    if scores.mask is None:
        return "all"
    axes = scores.masked
    if parts.rows in axes and parts.columns in axes:
        found = sees(scores.mask, axes.index(parts.rows), axes.index(parts.columns), reading)
        if found is not None:
            return found
    mask = bare(scores.mask, reading)
    if not math.isfinite(scores.hidden) or known_dtype(mask.expr) != "bool":
        return None
    named = Named(mask.expr, tuple(() if axis is None else axes[axis] for axis in mask.axes))
    return laid(named, parts.of_scores, parts.sizes)


def _as_product(
    out: Named, parts: _Attention, weights: _Scores, side: int, call: Call
) -> Expr | None:
    """The result with its axes as the product `call` has them: the stacks, then each side's own."""
    summed, stacks = call.attrs["dimension_numbers"]
    own = [
        [a for a in range(known_ndim(arg)) if a not in (*summed[s], *stacks[s])]
        for s, arg in enumerate(call.args)
    ]
    by_side = [[parts.value.axes[axis] for axis in own[1 - side]]]
    by_side.insert(side, [weights.axes[axis] for axis in own[side]])
    shared = [weights.axes[axis] for axis in stacks[side]]
    return laid(out, [*shared, *by_side[0], *by_side[1]], parts.sizes)
