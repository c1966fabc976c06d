"""Operators that join tensors, take them apart, and lay them out over a grid."""

from collections.abc import Sequence
from typing import Annotated, Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different, dim_sum, floordiv
from relaxjax.ir.expr import Expr, Tuple
from relaxjax.ir.types import TensorType, TupleType, Type

from .axis_layouts import JOINED, SPLIT, STACKED
from .conversions import as_ints
from .cost_rules import MOVES
from .declare import OpError, op
from .emit import call, dims_of, ndim_of
from .shapes import (
    bounded,
    common_dtype,
    dims_text,
    normalize_axis,
    positive_part,
    require_sizes,
    same_dims,
)

_JOINED: dict[str, Any] = {"precision": "follow", "fusion": "injective", "cost": MOVES}


def tensors_of(tensors: TupleType, name: str = "tensors") -> list[TensorType]:
    """The types of the tensors of a tuple; an empty tuple and anything but a tensor are errors."""
    found = [ty for ty in tensors.fields if isinstance(ty, TensorType)]
    if not found or len(found) < len(tensors.fields):
        raise OpError(f"`{name}` must be one or more tensors, but its type is {tensors}")
    return found


def _common_dtype_of(tensors: Sequence[TensorType]) -> str | None:
    return common_dtype(**{f"tensors[{i}]": ty for i, ty in enumerate(tensors)})


def _common_ndim(tensors: Sequence[TensorType]) -> int:
    known = sorted({ty.ndim for ty in tensors if ty.ndim >= 0})
    if len(known) > 1:
        raise OpError(f"`tensors` must have the same rank, found {known}")
    return known[0] if known else -1


def _concat_gradient(g: Expr, y: Expr, tensors: Expr, axis: int | None) -> Expr:
    fields = list(tensors)
    along = 0 if axis is None else normalize_axis(axis, ndim_of(fields[0]))
    if len(fields) == 1:
        return Tuple((g,))
    ends: list[Dim] = []
    for item in fields[:-1]:
        length = dims_of(item)[along]
        ends.append(length if not ends else ends[-1] + length)
    return call("split", g, ends, axis=along if axis is None else axis)


@op(
    "relax.concat",
    layout=JOINED,
    lower=lambda tensors, axis: lax.concatenate(tensors, (axis or 0) % tensors[0].ndim),
    gradient=_concat_gradient,
    **_JOINED,
)
def concat(tensors: TupleType, axis: int | None = 0) -> TensorType:
    """The tensors one after another along `axis`. None is for tensors of one dimension."""
    types = tensors_of(tensors)
    dtype, ndim = _common_dtype_of(types), _common_ndim(types)
    if axis is None and ndim not in (-1, 1):
        raise OpError(f"`axis` may be None for tensors of one dimension only, found {ndim}")
    if ndim < 0:
        return TensorType(None, dtype, vdevice=types[0].vdevice)
    along = normalize_axis(0 if axis is None else axis, ndim)
    shapes = [ty.dims for ty in types]
    dims = _joined([shape for shape in shapes if shape is not None], along)
    if dims is None or None in shapes:
        return TensorType(None, dtype, ndim, types[0].vdevice)
    return TensorType(dims, dtype, vdevice=types[0].vdevice)


def _joined(shapes: Sequence[Sequence[Dim]], along: int) -> tuple[Dim, ...] | None:
    """The shape of a concatenation; None where it is not known that the other dimensions agree."""
    if not shapes:
        return None
    first, agree = shapes[0], True
    for shape in shapes[1:]:
        for place, (dim, other) in enumerate(zip(first, shape, strict=True)):
            if place != along and can_prove_different(dim, other):
                raise OpError(
                    f"`tensors` must agree on all axes but {along}, "
                    f"found {dims_text(first)} and {dims_text(shape)}"
                )
            agree = agree and (place == along or dim == other)
    length = dim_sum(shape[along] for shape in shapes)
    return (*first[:along], length, *first[along + 1 :]) if agree else None


def as_sections(value: Any) -> Any:
    """A number of sections, or the places to cut at."""
    if isinstance(value, list | tuple):
        return as_ints(value)
    return as_ints(value)[0]


Sections = Annotated[Any, as_sections]


def _split(x: Any, indices_or_sections: Any, axis: int) -> Any:
    length, cuts = x.shape[axis], indices_or_sections
    if isinstance(cuts, int):
        cuts = _equal_cuts(length, cuts)
    starts = [_smaller(start, length) for start in (0, *cuts)]
    stops = [_smaller(stop, length) for stop in (*cuts, length)]
    pieces = [
        lax.slice_in_dim(x, start, start if stop < start else stop, axis=axis)
        for start, stop in zip(starts, stops, strict=True)
    ]
    return tuple(pieces) if len(pieces) > 1 else pieces[0]


def _equal_cuts(length: Any, sections: int) -> tuple[Any, ...]:
    """Where to cut for so many pieces of one length, of which the last may be shorter."""
    size = (length + sections - 1) // sections
    return tuple(size * (i + 1) for i in range(sections - 1))


def _smaller(place: Any, length: Any) -> Any:
    return length if place > length else place


def _split_gradient(g: Expr, y: Expr, x: Expr, indices_or_sections: Any, axis: int) -> Expr:
    cuts = indices_or_sections if isinstance(indices_or_sections, tuple) else ()
    places = [cut for cut in cuts if isinstance(cut, int)]
    if places != sorted(places) or min(places, default=0) < 0:
        raise OpError(f"the gradient needs places to cut at in ascending order, found {places}")
    return call("concat", g, axis) if isinstance(y.ty, TupleType) else g


@op("relax.split", layout=SPLIT, lower=_split, gradient=_split_gradient, **_JOINED)
def split(x: TensorType, indices_or_sections: Sections, axis: int = 0) -> Type:
    """`x` in pieces along `axis`: so many of one length, the last maybe shorter, or cut at places.

    A single piece is the tensor itself, no tuple.
    """
    sections = indices_or_sections
    if isinstance(sections, int) and sections < 1:
        raise OpError(f"`indices_or_sections` must be positive, found {sections}")
    if isinstance(sections, tuple):
        require_sizes("indices_or_sections", sections)
    pieces = len(sections) + 1 if isinstance(sections, tuple) else sections
    along = normalize_axis(axis, x.ndim) if x.ndim >= 0 else axis
    if x.dims is None:
        return _bundle([TensorType(None, x.dtype, x.ndim, x.vdevice)] * pieces)
    length = x.dims[along]
    lengths = (
        _cut_lengths(length, sections)
        if isinstance(sections, tuple)
        else _equal_lengths(length, sections)
    )
    shapes = [(*x.dims[:along], n, *x.dims[along + 1 :]) for n in lengths]
    return _bundle([TensorType(shape, x.dtype, vdevice=x.vdevice) for shape in shapes])


def _equal_lengths(length: Dim, sections: int) -> list[Dim]:
    size = floordiv(length + sections - 1, sections)
    last = length - size * (sections - 1)
    if isinstance(last, int) and last < 0:
        raise OpError(
            f"`x` of length {length} cannot be cut into {sections} pieces: "
            f"they are of length {size}, and only the last may be shorter"
        )
    return [*[size] * (sections - 1), last]


def _cut_lengths(length: Dim, cuts: Sequence[Dim]) -> list[Dim]:
    inner = [
        positive_part(bounded(end, length) - bounded(start, length))
        for start, end in zip([0, *cuts], cuts, strict=False)
    ]
    return [*inner, positive_part(length - cuts[-1]) if cuts else length]


def _bundle(types: Sequence[Type]) -> Type:
    return TupleType(tuple(types)) if len(types) > 1 else types[0]


def _stack_gradient(g: Expr, y: Expr, tensors: Expr, axis: int) -> Expr:
    count = len(list(tensors))
    pieces = call("split", g, count, axis=axis)
    parts = [pieces[i] for i in range(count)] if count > 1 else [g]
    return Tuple(tuple(call("squeeze", part, axis) for part in parts))


@op(
    "relax.stack",
    layout=STACKED,
    lower=lambda tensors, axis: jnp.stack(tensors, axis),
    gradient=_stack_gradient,
    **_JOINED,
)
def stack(tensors: TupleType, axis: int = 0) -> TensorType:
    """The tensors, all of one shape, side by side along a new axis that stands at `axis`."""
    types = tensors_of(tensors)
    dtype, ndim = _common_dtype_of(types), _common_ndim(types)
    if ndim < 0:
        return TensorType(None, dtype, vdevice=types[0].vdevice)
    along = normalize_axis(axis, ndim + 1)
    shapes = [ty.dims for ty in types]
    known = [shape for shape in shapes if shape is not None]
    for shape in known[1:]:
        if any(map(can_prove_different, known[0], shape)):
            raise OpError(
                f"`tensors` must have one shape, found {dims_text(known[0])} and {dims_text(shape)}"
            )
    if len(known) < len(shapes) or not all(same_dims(known[0], shape) for shape in known):
        return TensorType(None, dtype, ndim + 1, types[0].vdevice)
    dims = (*known[0][:along], len(types), *known[0][along:])
    return TensorType(dims, dtype, vdevice=types[0].vdevice)


def _meshgrid_gradient(g: Expr, y: Expr, tensors: Expr, indexing: str) -> Expr:
    count = len(list(tensors))
    own = _grid_axes(count, indexing)
    return Tuple(
        tuple(call("sum", g[i], [a for a in range(count) if a != own[i]]) for i in range(count))
    )


def _grid_axes(count: int, indexing: str) -> list[int]:
    """The axis of the grid along which each tensor runs."""
    swapped = indexing == "xy" and count > 1
    return [1, 0, *range(2, count)] if swapped else list(range(count))


@op(
    "relax.meshgrid",
    lower=lambda tensors, indexing: tuple(jnp.meshgrid(*tensors, indexing=indexing)),
    gradient=_meshgrid_gradient,
    precision="follow",
    fusion="broadcast",
    cost=MOVES,
)
def meshgrid(tensors: TupleType, indexing: str = "ij") -> TupleType:
    """Coordinates of a grid: tensor i repeated along all axes but its own.

    With `indexing="xy"` the first tensor runs along axis 1 and the second along axis 0.
    """
    types = tensors_of(tensors)
    if indexing not in ("ij", "xy"):
        raise OpError(f'`indexing` must be "ij" or "xy", found "{indexing}"')
    ranks = [ty.ndim for ty in types if ty.ndim not in (-1, 1)]
    if ranks:
        raise OpError(f"`tensors` must have 1 dimension each, found one with {ranks[0]}")
    dtype = _common_dtype_of(types)
    lengths = [ty.dims[0] for ty in types if ty.dims is not None]
    if len(lengths) < len(types):
        unknown = TensorType(None, dtype, len(types), types[0].vdevice)
        return TupleType((unknown,) * len(types))
    dims = [lengths[a] for a in _grid_axes(len(types), indexing)]
    return TupleType((TensorType(dims, dtype, vdevice=types[0].vdevice),) * len(types))
