"""Where samples are in what operators give, by where they are in what these take."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from relaxjax.ir.expr import Call

from .kinds import AFTER, TOTAL, WHOLE, Along, Batch, Kind, Taken, dims_of
from .product_rules import convolution, gather, product, scattered, written

# What an operator makes of arguments of some kinds, None where it mixes samples.
Rule: TypeAlias = Callable[[Call, Sequence[Kind], Batch], Taken | None]


def _of_one(rule: Callable[[Call, Along, Batch], Taken | None]) -> Rule:
    """A rule for an operator on one tensor, which has samples."""

    def of_one(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
        (kind,) = kinds
        return rule(call, kind, batch) if isinstance(kind, Along) else None

    return of_one


def elementwise(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    """Each number is computed of those at its place; axes of length 1, or missing, are repeated."""
    sizes = [dims_of(arg) for arg in call.args]
    rank = max(map(len, sizes))
    from_end = {
        replace(kind, axis=kind.axis - len(dims))
        for kind, dims in zip(kinds, sizes, strict=True)
        if isinstance(kind, Along)
    }
    if len(from_end) != 1:
        return None
    (where,) = from_end
    size = max(dims[where.axis] for dims in sizes if len(dims) >= -where.axis)
    taken: list[Kind] = []
    for kind, dims in zip(kinds, sizes, strict=True):
        is_repeated = len(dims) < -where.axis or dims[where.axis] != size
        if isinstance(kind, Along) and is_repeated:
            return None
        taken.append(WHOLE if is_repeated else replace(where, axis=where.axis + len(dims)))
    return Taken(tuple(taken), replace(where, axis=where.axis + rank))


def alike(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    """Tensors of any shapes, each of which is given as it is."""
    return None if AFTER in kinds else Taken(tuple(kinds), tuple(kinds))


def bitcast(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    """The bits of each number as those of another; where sizes differ, they are of several."""
    return elementwise(call, kinds, batch) if dims_of(call) == dims_of(call.args[0]) else None


@_of_one
def broadcast(call: Call, kind: Along, batch: Batch) -> Taken | None:
    axis = call.attrs["broadcast_dimensions"][kind.axis]
    shape = call.attrs["shape"]
    if shape[axis] != dims_of(call.args[0])[kind.axis]:
        return None
    result = replace(kind, axis=axis)
    return Taken((kind,), result, {"shape": list(batch.part_of(shape, result))})


@_of_one
def reshape(call: Call, kind: Along, batch: Batch) -> Taken | None:
    new = dims_of(call)
    result = batch.reshaped(dims_of(call.args[0]), new, kind)
    if result is None or call.attrs.get("dimensions") is not None:  # an order of axes before that
        return None
    return Taken((kind,), result, {"new_sizes": list(batch.part_of(new, result))})


@_of_one
def transpose(call: Call, kind: Along, batch: Batch) -> Taken | None:
    return Taken((kind,), replace(kind, axis=list(call.attrs["permutation"]).index(kind.axis)))


def _without(kind: Along, gone: Sequence[int]) -> Along:
    return replace(kind, axis=kind.axis - sum(axis < kind.axis for axis in gone))


@_of_one
def squeeze(call: Call, kind: Along, batch: Batch) -> Taken | None:
    gone = call.attrs["dimensions"]
    return None if kind.axis in gone else Taken((kind,), _without(kind, gone))


@_of_one
def total(call: Call, kind: Along, batch: Batch) -> Taken | None:
    """A sum along axes."""
    axes = call.attrs["axes"]
    return Taken((kind,), TOTAL if kind.axis in axes else _without(kind, axes))


def reduced(call: Call, kinds: Sequence[Kind], is_sum: bool) -> Taken | None:
    """Several tensors along axes by a function; one that sums up may do so along the samples."""
    count = (len(kinds) - 1) // 2
    wanted = {kind for kind in kinds[1 : count + 1] if isinstance(kind, Along)}
    if len(wanted) != 1:
        return None
    (kind,) = wanted
    axes = call.attrs["dimensions"]
    result: Kind = TOTAL if kind.axis in axes else _without(kind, axes)
    if result is TOTAL and not is_sum:
        return None
    return Taken((WHOLE, *(kind,) * count, *(WHOLE,) * count), (result,) * count)


def reduction(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    """Something else than a sum along axes, which may not be those of the samples."""
    taken = total(call, kinds, batch)
    return None if taken is None or taken.result is TOTAL else taken


def along_axis(name: str) -> Rule:
    """An operator along the axis of that attribute, which may not be that of the samples."""

    def rule(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
        taken = elementwise(call, kinds, batch)
        if taken is None or not isinstance(taken.result, Along):
            return None
        own = call.attrs[name] % len(dims_of(call.args[0]))
        return None if taken.result.axis == own else taken

    return rule


def sort(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    return _several(along_axis("dimension")(call, kinds, batch), len(kinds))


def top(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    return _several(along_axis("axis")(call, kinds, batch), 2)


def split(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    return _several(along_axis("axis")(call, kinds, batch), len(call.attrs["sizes"]))


def _several(taken: Taken | None, count: int) -> Taken | None:
    """The same for an operator that gives so many tensors."""
    return None if taken is None else replace(taken, result=(taken.result,) * count)


@_of_one
def unstack(call: Call, kind: Along, batch: Batch) -> Taken | None:
    sizes = dims_of(call.args[0])
    axis = call.attrs["axis"] % len(sizes)
    if kind.axis == axis:
        return None
    return Taken((kind,), (_without(kind, [axis]),) * sizes[axis])


def stack(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    taken = elementwise(call, kinds, batch)
    if taken is None or not isinstance(taken.result, Along):
        return None
    at = taken.result.axis
    return replace(taken, result=replace(taken.result, axis=at + (call.attrs["axis"] <= at)))


def concatenate(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    found = {kind for kind in kinds if isinstance(kind, Along)}
    if len(found) != 1:
        return None
    (kind,) = found
    if kind.axis == call.attrs["dimension"]:
        return None
    return Taken((kind,) * len(kinds), kind)


@_of_one
def slice_(call: Call, kind: Along, batch: Batch) -> Taken | None:
    size, axis = dims_of(call.args[0])[kind.axis], kind.axis
    starts, ends = call.attrs["start_indices"], call.attrs["limit_indices"]
    strides = call.attrs.get("strides")
    step = 1 if strides is None else strides[axis]
    if (starts[axis], ends[axis], step) != (0, size, 1):
        return None
    return Taken((kind,), kind, {"limit_indices": list(batch.part_of(ends, kind))})


def pad(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    kind, value = kinds
    if not isinstance(kind, Along) or value is not WHOLE:
        return None
    is_padded = any(call.attrs["padding_config"][kind.axis])
    return None if is_padded else Taken((kind, WHOLE), kind)


@_of_one
def rev(call: Call, kind: Along, batch: Batch) -> Taken | None:
    return None if kind.axis in call.attrs["dimensions"] else Taken((kind,), kind)


def dynamic_slice(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    kind, *places = kinds
    sizes = call.attrs["slice_sizes"]
    if not isinstance(kind, Along) or any(place is not WHOLE for place in places):
        return None
    if sizes[kind.axis] != dims_of(call.args[0])[kind.axis]:
        return None
    attrs = {"slice_sizes": list(batch.part_of(sizes, kind))}
    return Taken((kind, *places), kind, attrs)


def dynamic_update_slice(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    whole, part, *places = kinds
    kind = whole if isinstance(whole, Along) else part
    if not isinstance(kind, Along) or any(place is not WHOLE for place in places):
        return None
    sizes = [dims_of(arg)[kind.axis] for arg in call.args[:2]]
    is_one = part in (kind, WHOLE) and sizes[0] == sizes[1]
    return Taken((kind, kind, *places), kind) if is_one else None


def leading(axes: int) -> Rule:
    """An operator on the last so many axes of its arguments."""

    def rule(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
        taken = elementwise(call, kinds, batch)
        if taken is None or not isinstance(taken.result, Along):
            return None
        own = len(call.attrs["fft_lengths"]) if "fft_lengths" in call.attrs else axes
        return taken if taken.result.axis < len(dims_of(call)) - own else None

    return rule


@_of_one
def windows(call: Call, kind: Along, batch: Batch) -> Taken | None:
    """A reduction of windows, which hold one sample each."""
    attrs = call.attrs
    ones = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")
    is_one = all(attrs[name] is None or attrs[name][kind.axis] == 1 for name in ones)
    is_one = is_one and not any(attrs["padding"][kind.axis])
    return Taken((kind,), kind) if is_one else None


_ELEMENTWISE = """
    abs acos acosh add add_any and_ asin asinh atan atan2 atanh cbrt ceil clamp complex conj
    convert_element_type copy cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt
    imag integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg nextafter not_ or_
    pow real reduce_precision rem round rsqrt select_n shift_left shift_right_arithmetic
    shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor
"""

RULES: dict[str, Rule] = {
    **{f"lax.{name}": elementwise for name in _ELEMENTWISE.split()},
    "lax.optimization_barrier": alike,
    "lax.bitcast_convert_type": bitcast,
    "relax.grad.once": elementwise,
    "lax.broadcast_in_dim": broadcast,
    "lax.reshape": reshape,
    "lax.transpose": transpose,
    "lax.squeeze": squeeze,
    "lax.reduce_sum": total,
    **{
        f"lax.{name}": reduction
        for name in (
            *("reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "reduce_xor"),
            *("argmax", "argmin"),
        )
    },
    **{f"lax.{name}": along_axis("axis") for name in ("cumsum", "cumprod", "cummax", "cummin")},
    "lax.cumlogsumexp": along_axis("axis"),
    "lax.sort": sort,
    "lax.split": split,
    "lax.unstack": unstack,
    "lax.stack": stack,
    "lax.concatenate": concatenate,
    "lax.slice": slice_,
    "lax.pad": pad,
    "lax.rev": rev,
    "lax.dynamic_slice": dynamic_slice,
    "lax.dynamic_update_slice": dynamic_update_slice,
    "lax.fft": leading(1),
    "lax.cholesky": leading(2),
    "lax.triangular_solve": leading(2),
    **{f"lax.reduce_window_{name}": windows for name in ("sum", "max", "min")},
    "lax.top_k": top,
    "lax.dot_general": product,
    "lax.conv_general_dilated": convolution,
    "lax.gather": gather,
    "lax.scatter_add": scattered,
    **{f"lax.{name}": written for name in ("scatter", "scatter_mul", "scatter_min", "scatter_max")},
}
