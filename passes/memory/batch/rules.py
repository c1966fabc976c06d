"""Where samples are in what operators give, by where they are in what these take."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import jax.numpy as jnp

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import Op
from relaxjax.ir.tensor_types import known_dtype
from relaxjax.ir.types import is_float, is_integer

from .kinds import AFTER, TOTAL, WHOLE, Along, Batch, Kind, Taken, dims_of
from .product_rules import convolution, gather, product, scattered, written

# What an operator makes of arguments of some kinds, None where it mixes samples.
Rule: TypeAlias = Callable[[Call, Sequence[Kind], Batch], Taken | None]


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


def broadcast(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    (kind,) = kinds
    assert isinstance(kind, Along)
    axis = call.attrs["broadcast_dimensions"][kind.axis]
    shape = call.attrs["shape"]
    if shape[axis] != dims_of(call.args[0])[kind.axis]:
        return None
    result = replace(kind, axis=axis)
    return Taken((kind,), result, {"shape": list(batch.part_of(shape, result))})


def reshape(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    (kind,) = kinds
    assert isinstance(kind, Along)
    new = dims_of(call)
    result = batch.reshaped(dims_of(call.args[0]), new, kind)
    if result is None or call.attrs.get("dimensions") is not None:  # an order of axes before that
        return None
    return Taken((kind,), result, {"new_sizes": list(batch.part_of(new, result))})


def transpose(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    (kind,) = kinds
    assert isinstance(kind, Along)
    return Taken((kind,), replace(kind, axis=list(call.attrs["permutation"]).index(kind.axis)))


def _without(kind: Along, gone: Sequence[int]) -> Along:
    return replace(kind, axis=kind.axis - sum(axis < kind.axis for axis in gone))


def squeeze(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    (kind,) = kinds
    assert isinstance(kind, Along)
    gone = call.attrs["dimensions"]
    return None if kind.axis in gone else Taken((kind,), _without(kind, gone))


def total(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    """A sum along axes."""
    (kind,) = kinds
    assert isinstance(kind, Along)
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


def along_axis(name: str, count: int | None = None) -> Rule:
    """An operator along the axis of that attribute, which may not be that of the samples.

    Of one tensor it makes `count` ones, a tuple of as many as it takes if that is 0.
    """

    def rule(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
        taken = elementwise(call, kinds, batch)
        if taken is None or not isinstance(taken.result, Along):
            return None
        axis = call.attrs[name]
        if taken.result.axis == (axis % len(dims_of(call.args[0])) if axis is not None else -1):
            return None
        if count is None:
            return taken
        return replace(taken, result=(taken.result,) * (count or len(kinds)))

    return rule


def top(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    taken = along_axis("axis")(call, kinds, batch)
    return taken and replace(taken, result=(taken.result,) * 2)


def split(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    taken = along_axis("axis")(call, kinds, batch)
    return taken and replace(taken, result=(taken.result,) * len(call.attrs["sizes"]))


def unstack(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    (kind,) = kinds
    assert isinstance(kind, Along)
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


def slice_(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    (kind,) = kinds
    assert isinstance(kind, Along)
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


def rev(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    (kind,) = kinds
    assert isinstance(kind, Along)
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


def windows(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    """A reduction of windows, which hold one sample each."""
    (kind,) = kinds
    assert isinstance(kind, Along)
    attrs = call.attrs
    ones = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")
    is_one = all(attrs[name] is None or attrs[name][kind.axis] == 1 for name in ones)
    is_one = is_one and not any(attrs["padding"][kind.axis])
    return Taken((kind,), kind) if is_one else None


def _scaled(call: Call, kinds: Sequence[Kind]) -> Taken | None:
    """A product or quotient of a sum and what is the same for all parts.

    Integers are none: their quotients are rounded, and the bits that a sum of few has lost are not
    those that its parts have lost.
    """
    is_one = list(kinds).count(TOTAL) == 1 and not any(
        is_integer(known_dtype(arg)) for arg in call.args
    )
    return Taken(tuple(kinds), TOTAL) if is_one else None


def linear(call: Call, kinds: Sequence[Kind], is_zero: Callable[[Expr], bool]) -> Taken | None:
    """What is computed of sums as they are: of their parts it gives parts of a sum.

    Arguments that are the same for all parts are zeros there, but for factors and places.
    """
    name = call.op.name if isinstance(call.op, Op) else ""
    if name == "lax.select_n":
        is_sum = (
            kind is TOTAL or is_zero(arg)
            for kind, arg in zip(kinds[1:], call.args[1:], strict=True)
        )
        is_chosen_alike = kinds[0] is WHOLE and all(is_sum)
        return Taken((WHOLE, *(TOTAL for _ in kinds[1:])), TOTAL) if is_chosen_alike else None
    if name == "lax.convert_element_type" and not _keeps_bits(call):
        return None
    if name in _FACTORS:
        return _scaled(call, kinds) if name != "lax.div" or kinds[1] is WHOLE else None
    sums = _SUMS.get(name)
    if sums is None:
        return None
    count = len(kinds) if sums == 0 else sums
    for kind, arg in zip(kinds[:count], call.args, strict=False):
        if kind is not TOTAL and not (kind is WHOLE and is_zero(arg)):
            return None
    if any(kind is not WHOLE for kind in kinds[count:]):
        return None
    if name == "lax.pad" and not is_zero(call.args[1]):
        return None
    of_many = {"lax.split": "sizes", "lax.unstack": None}
    result: Kind = TOTAL
    if name in of_many:
        attr = of_many[name]
        axis = call.attrs["axis"]
        many = len(call.attrs[attr]) if attr else dims_of(call.args[0])[axis]
        result = (TOTAL,) * many
    return Taken((TOTAL,) * count + tuple(kinds[count:]), result)


def _keeps_bits(call: Call) -> bool:
    """Whether floats are converted to ones that tell them all apart.

    Not so integers: a sum of few bits may have lost some that its parts have.
    """
    old, new = known_dtype(call.args[0]), known_dtype(call)
    if old is None or new is None or not (is_float(old) and is_float(new)):
        return False
    return bool(jnp.promote_types(old, new) == jnp.dtype(new))


_FACTORS = frozenset({"lax.mul", "lax.div", "lax.dot_general"})
# How many of the first arguments are sums; 0 for all.
_SUMS: Mapping[str, int] = {
    **dict.fromkeys(
        (
            *("lax.neg", "lax.reshape", "lax.transpose", "lax.squeeze", "lax.broadcast_in_dim"),
            *("lax.reduce_sum", "lax.rev", "lax.slice", "lax.pad", "lax.split", "lax.unstack"),
            *("lax.dynamic_slice", "lax.stop_gradient", "lax.copy", "lax.real", "lax.imag"),
            *("lax.conj", "lax.convert_element_type", "relax.grad.once"),
        ),
        1,
    ),
    **dict.fromkeys(("lax.add", "lax.add_any", "lax.sub", "lax.concatenate", "lax.stack"), 0),
    "lax.dynamic_update_slice": 2,
}


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
    "lax.sort": along_axis("dimension", 0),
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
