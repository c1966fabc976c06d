"""Parts of tensors: slices, rows, pieces, windows; and what writes into them."""

from collections.abc import Sequence
from typing import Any

from relaxjax.ir.dim_variables import is_never_negative
from relaxjax.ir.dims import Dim, dim_max, dim_min, dim_sum
from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of
from relaxjax.ops.shapes import element_count

from .promotion import cast
from .shapes import place_of, shaped
from .table import aten, view


def sliced(x: Expr, place: int, start: Dim, end: Dim, step: Dim = 1) -> Expr:
    """A slice along one axis, between places that exist."""
    return call("strided_slice", x, [place], [start], [end], [step])


def bounds(size: Dim, start: Any, end: Any) -> tuple[Dim, Dim]:
    """The places of a slice as Python takes them: from behind, and cut off at the ends."""
    first, last = _place(0 if start is None else start, size), _place(end, size)
    is_ordered = first == 0 and is_never_negative(last)
    return first, last if is_ordered else dim_max(first, last)


def _place(place: Any, size: Dim) -> Dim:
    if place is None or (isinstance(place, int) and place >= 2**62):
        return size
    if isinstance(place, int) and place < 0:
        return dim_max(place + size, 0) if isinstance(size, int) else place + size
    if isinstance(place, int) and not isinstance(size, int):
        return 0 if place == 0 else dim_min(place, size)
    return dim_min(place, size)


def put_slice(
    base: Expr, new: Expr, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Expr:
    place = place_of(dim, ndim_of(base))
    first, last = bounds(dims_of(base)[place], start, end)
    return call("slice_scatter", base, new, first, last, step, axis=place)


@view("slice.Tensor", put=put_slice)
def slice_tensor(
    self: Expr, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Expr:
    place = place_of(dim, ndim_of(self))
    size = dims_of(self)[place]
    first, last = bounds(size, start, end)
    if first == 0 and last == size and step == 1:
        return self
    return sliced(self, place, first, last, step)


@aten("slice_scatter.default")
def slice_scatter(
    self: Expr, src: Expr, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Expr:
    return put_slice(self, cast(src, dtype_of(self)), dim, start, end, step)


def _put_narrow(base: Expr, new: Expr, dim: int, start: Any, length: Dim) -> Expr:
    return put_slice(base, new, dim, start, start + length)


@view("narrow.default", put=_put_narrow)
def narrow(self: Expr, dim: int, start: Any, length: Dim) -> Expr:
    place = place_of(dim, ndim_of(self))
    first = _place(start, dims_of(self)[place])
    return sliced(self, place, first, first + length)


def _put_select(base: Expr, new: Expr, dim: int, index: Dim) -> Expr:
    place = place_of(dim, ndim_of(base))
    return put_slice(base, call("expand_dims", new, place), place, *_one_place(base, place, index))


def _one_place(x: Expr, place: int, index: Dim) -> tuple[Dim, Dim]:
    first = index + dims_of(x)[place] if isinstance(index, int) and index < 0 else index
    return first, first + 1


@view("select.int", put=_put_select)
def select(self: Expr, dim: int, index: Dim) -> Expr:
    place = place_of(dim, ndim_of(self))
    return call("squeeze", sliced(self, place, *_one_place(self, place, index)), [place])


@aten("select_scatter.default")
def select_scatter(self: Expr, src: Expr, dim: int, index: Dim) -> Expr:
    return _put_select(self, cast(src, dtype_of(self)), dim, index)


def _cut(x: Expr, dim: int, sizes: Sequence[Dim]) -> list[Expr]:
    place = place_of(dim, ndim_of(x))
    ends = [dim_sum(sizes[: count + 1]) for count in range(len(sizes))]
    if len(ends) == 1:
        return [x]
    pieces = call("split", x, ends[:-1], place)
    return [pieces[index] for index in range(len(ends))]


def _put_piece(base: Expr, new: Expr, place: int, dim: int, sizes: Sequence[Dim]) -> Expr:
    start = dim_sum(sizes[:place])
    return put_slice(base, new, dim, start, start + sizes[place])


def _even(size: Dim, length: Dim) -> list[Dim]:
    if not isinstance(size, int) or not isinstance(length, int):
        whole = size // length
        if isinstance(whole, int) and size == length * whole:
            return [length] * whole
        raise ValueError(f"an axis of {size} is cut into pieces of {length}: how many is not known")
    return [min(length, size - start) for start in range(0, size, length)] or [0]


def _put_split(base: Expr, new: Expr, place: int, split_size: Dim, dim: int = 0) -> Expr:
    axis = place_of(dim, ndim_of(base))
    return _put_piece(base, new, place, axis, _even(dims_of(base)[axis], split_size))


@view("split.Tensor", put=_put_split)
def split(self: Expr, split_size: Dim, dim: int = 0) -> list[Expr]:
    place = place_of(dim, ndim_of(self))
    return _cut(self, place, _even(dims_of(self)[place], split_size))


def _put_split_sizes(
    base: Expr, new: Expr, place: int, split_sizes: Sequence[Dim], dim: int = 0
) -> Expr:
    return _put_piece(base, new, place, dim, split_sizes)


@view("split_with_sizes.default", put=_put_split_sizes)
def split_with_sizes(self: Expr, split_sizes: Sequence[Dim], dim: int = 0) -> list[Expr]:
    return _cut(self, dim, split_sizes)


@view("split.sizes")
def split_sizes(self: Expr, split_size: Sequence[Dim], dim: int = 0) -> list[Expr]:
    return _cut(self, dim, split_size)


def _put_chunk(base: Expr, new: Expr, place: int, chunks: int, dim: int = 0) -> Expr:
    size = dims_of(base)[place_of(dim, ndim_of(base))]
    return _put_split(base, new, place, -(-size // chunks), dim)


@view("chunk.default", put=_put_chunk)
def chunk(self: Expr, chunks: int, dim: int = 0) -> list[Expr]:
    size = dims_of(self)[place_of(dim, ndim_of(self))]
    return split(self, -(-size // chunks), dim)


def _put_unbind(base: Expr, new: Expr, place: int, dim: int = 0) -> Expr:
    return _put_select(base, new, dim, place)


@view("unbind.int", put=_put_unbind)
def unbind(self: Expr, dim: int = 0) -> list[Expr]:
    place = place_of(dim, ndim_of(self))
    count = dims_of(self)[place]
    if not isinstance(count, int):
        raise ValueError(
            f"an axis of {count} is taken apart: how many tensors that gives is not known"
        )
    return [call("squeeze", one, [place]) for one in _cut(self, place, [1] * count)]


@aten("roll.default")
def roll(self: Expr, shifts: Sequence[int], dims: Sequence[int] = ()) -> Expr:
    if not dims:
        flat = shaped(self, [element_count(dims_of(self))])
        return shaped(roll(flat, shifts, [0]), dims_of(self))
    for shift, dim in zip(shifts, dims, strict=True):
        place = place_of(dim, ndim_of(self))
        size = dims_of(self)[place]
        if isinstance(size, int) and size == 0:
            continue
        cut = (size - shift) % size
        if not (isinstance(cut, int) and cut == 0):
            parts = [sliced(self, place, cut, size), sliced(self, place, 0, cut)]
            self = call("concat", parts, place)
    return self


@view("unfold.default")
def unfold(self: Expr, dimension: int, size: int, step: int) -> Expr:
    """Windows along an axis, the places in a window as the last axis."""
    sizes = list(dims_of(self))
    if not sizes:
        return shaped(self, [size])
    place = place_of(dimension, len(sizes))
    count = (sizes[place] - size) // step + 1
    span = (count - 1) * step + 1
    parts = [sliced(self, place, at, at + span, step) for at in range(size)]
    return call("stack", parts, len(sizes))


@aten("diff.default")
def diff(
    self: Expr, n: int = 1, dim: int = -1, prepend: Expr | None = None, append: Expr | None = None
) -> Expr:
    """The differences of neighbours, `n` times; of truth values, whether they differ."""
    if n == 0:  # what stands before and behind it counts for nothing
        return self
    place = place_of(dim, ndim_of(self))
    parts = [one for one in (prepend, self, append) if one is not None]
    x = self if len(parts) == 1 else call("concat", parts, place)
    operator = "not_equal" if dtype_of(self) == "bool" else "subtract"
    for _ in range(n):
        size = dims_of(x)[place]
        x = call(operator, sliced(x, place, 1, size), sliced(x, place, 0, size - 1))
    return x
