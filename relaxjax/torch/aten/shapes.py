"""Operators that arrange the elements of a tensor; most are views of it."""

from collections.abc import Sequence
from typing import Any

from relaxjax.ir.dims import Dim, dim_max, dim_min, dim_sum
from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of

from .promotion import cast, promoted, result_dtype
from .table import aten, view


def place_of(dim: int, ndim: int) -> int:
    """An axis counted from the front; a scalar has one, as it were."""
    return dim % max(ndim, 1)


def shaped(x: Expr, sizes: Sequence[Dim]) -> Expr:
    return call("reshape", x, ShapeExpr(tuple(sizes)))


def _product(sizes: Sequence[Dim]) -> Dim:
    total: Dim = 1
    for size in sizes:
        total = total * size
    return total


def _full(x: Expr, sizes: Sequence[Dim]) -> list[Dim]:
    """Sizes with the one that is -1 computed from the others."""
    known = [size for size in sizes if not (isinstance(size, int) and size == -1)]
    if len(known) == len(sizes):
        return list(sizes)
    rest = _product(dims_of(x)) // _product(known) if _product(known) != 0 else 0
    return [rest if isinstance(size, int) and size == -1 else size for size in sizes]


def _put_reshaped(base: Expr, new: Expr, **_: Any) -> Expr:
    return shaped(new, dims_of(base))


@view("view.default", "_unsafe_view.default", put=_put_reshaped)
def view_default(self: Expr, size: Sequence[Dim]) -> Expr:
    return shaped(self, _full(self, size))


@view("reshape.default", put=_put_reshaped, may_copy=True)
def reshape(self: Expr, shape: Sequence[Dim]) -> Expr:
    return shaped(self, _full(self, shape))


@view("view_as.default", put=_put_reshaped)
def view_as(self: Expr, other: Expr) -> Expr:
    return shaped(self, dims_of(other))


@view("reshape_as.default", put=_put_reshaped, may_copy=True)
def reshape_as(self: Expr, other: Expr) -> Expr:
    return shaped(self, dims_of(other))


@view("flatten.using_ints", put=_put_reshaped, may_copy=True)
def flatten(self: Expr, start_dim: int = 0, end_dim: int = -1) -> Expr:
    sizes, ndim = dims_of(self), ndim_of(self)
    first, last = place_of(start_dim, ndim), place_of(end_dim, ndim)
    return shaped(self, [*sizes[:first], _product(sizes[first : last + 1]), *sizes[last + 1 :]])


@view("unflatten.int", put=_put_reshaped)
def unflatten(self: Expr, dim: int, sizes: Sequence[Dim]) -> Expr:
    whole = dims_of(self)
    place = place_of(dim, len(whole))
    known = _product([size for size in sizes if size != -1])
    inner = [whole[place] // known if size == -1 else size for size in sizes]
    return shaped(self, [*whole[:place], *inner, *whole[place + 1 :]])


@view("squeeze.default", "squeeze.dim", "squeeze.dims", put=_put_reshaped)
def squeeze(self: Expr, dim: int | Sequence[int] | None = None) -> Expr:
    sizes = dims_of(self)
    asked = range(len(sizes)) if dim is None else [dim] if isinstance(dim, int) else dim
    places = {place_of(one, len(sizes)) for one in asked}
    kept = [n for i, n in enumerate(sizes) if not (i in places and isinstance(n, int) and n == 1)]
    return shaped(self, kept) if len(kept) < len(sizes) else self


@view("unsqueeze.default", put=_put_reshaped)
def unsqueeze(self: Expr, dim: int) -> Expr:
    return call("expand_dims", self, place_of(dim, ndim_of(self) + 1))


def _put_permuted(base: Expr, new: Expr, dims: Sequence[int]) -> Expr:
    places = [place_of(dim, len(dims)) for dim in dims]
    return call("permute_dims", new, [places.index(place) for place in range(len(places))])


@view("permute.default", put=_put_permuted)
def permute(self: Expr, dims: Sequence[int]) -> Expr:
    places = [place_of(dim, len(dims)) for dim in dims]
    return self if places == list(range(len(places))) else call("permute_dims", self, places)


def _swapped(ndim: int, one: int, other: int) -> list[int]:
    places = list(range(ndim))
    if ndim:
        one, other = place_of(one, ndim), place_of(other, ndim)
        places[one], places[other] = other, one
    return places


def _put_transposed(base: Expr, new: Expr, dim0: int, dim1: int) -> Expr:
    return transpose(new, dim0, dim1)


@view("transpose.int", "swapaxes.default", "swapdims.default", put=_put_transposed)
def transpose(self: Expr, dim0: int = 0, dim1: int = 1) -> Expr:
    return permute(self, _swapped(ndim_of(self), dim0, dim1))


def _put_t(base: Expr, new: Expr) -> Expr:
    return t(new)


@view("t.default", put=_put_t)
def t(self: Expr) -> Expr:
    return transpose(self, 0, 1) if ndim_of(self) == 2 else self


def _put_reversed(base: Expr, new: Expr) -> Expr:
    return numpy_t(new)


@view("numpy_T.default", put=_put_reversed)
def numpy_t(self: Expr) -> Expr:
    return permute(self, list(range(ndim_of(self)))[::-1])


def _put_matrices(base: Expr, new: Expr) -> Expr:
    return transpose(new, -2, -1)


@view("mT.default", "adjoint.default", "matrix_H.default", put=_put_matrices)
def matrices_transposed(self: Expr) -> Expr:
    return transpose(self, -2, -1)


@view("movedim.int", "movedim.intlist")
def movedim(self: Expr, source: int | Sequence[int], destination: int | Sequence[int]) -> Expr:
    ndim = ndim_of(self)
    sources, targets = (
        [place_of(one, ndim) for one in ([dims] if isinstance(dims, int) else dims)]
        for dims in (source, destination)
    )
    moved = dict(zip(targets, sources, strict=True))
    rest = iter([place for place in range(ndim) if place not in sources])
    return permute(self, [moved[i] if i in moved else next(rest) for i in range(ndim)])


@view("expand.default", "broadcast_to.default")
def expand(self: Expr, size: Sequence[Dim], implicit: bool = False) -> Expr:
    sizes = dims_of(self)
    new = len(size) - len(sizes)
    full = [
        sizes[place - new] if isinstance(one, int) and one == -1 else one
        for place, one in enumerate(size)
    ]
    return (
        self if tuple(full) == tuple(sizes) else call("broadcast_to", self, ShapeExpr(tuple(full)))
    )


@view("expand_as.default")
def expand_as(self: Expr, other: Expr) -> Expr:
    return expand(self, dims_of(other))


def broadcast_sizes(*tensors: Expr) -> list[Dim]:
    """The sizes that tensors broadcast to; a symbolic one is not 1, as torch takes it."""
    ndim = max(map(ndim_of, tensors))
    padded = [[1] * (ndim - ndim_of(one)) + list(dims_of(one)) for one in tensors]
    return [
        next((size for size in sizes if not (isinstance(size, int) and size == 1)), 1)
        for sizes in zip(*padded, strict=True)
    ]


@aten("broadcast_tensors.default")
def broadcast_tensors(tensors: Sequence[Expr]) -> list[Expr]:
    sizes = broadcast_sizes(*tensors)
    return [expand(one, sizes) for one in tensors]


@aten("repeat.default", "tile.default")
def repeat(
    self: Expr, repeats: Sequence[Dim] | None = None, dims: Sequence[Dim] | None = None
) -> Expr:
    counts = list(repeats or dims or ())
    sizes = dims_of(self)
    whole = [1] * (len(counts) - len(sizes)) + list(sizes)
    counts = [1] * (len(whole) - len(counts)) + counts
    apart = [size for one in whole for size in (1, one)]
    spread = [size for pair in zip(counts, whole, strict=True) for size in pair]
    repeated = call("broadcast_to", shaped(self, apart), ShapeExpr(tuple(spread)))
    return shaped(repeated, [n * count for n, count in zip(whole, counts, strict=True)])


@aten("repeat_interleave.self_int")
def repeat_interleave(
    self: Expr, repeats: Dim, dim: int | None = None, output_size: Dim | None = None
) -> Expr:
    if dim is None:
        self, dim = shaped(self, [_product(dims_of(self))]), 0
    sizes = list(dims_of(self))
    place = place_of(dim, len(sizes))
    apart = call("expand_dims", self, place + 1)
    spread = [*sizes[: place + 1], repeats, *sizes[place + 1 :]]
    repeated = call("broadcast_to", apart, ShapeExpr(tuple(spread)))
    return shaped(repeated, [*sizes[:place], sizes[place] * repeats, *sizes[place + 1 :]])


@aten("cat.default", "concat.default", "concatenate.default")
def cat(tensors: Sequence[Expr], dim: int = 0) -> Expr:
    """One after another; an empty vector beside tensors of more axes counts for nothing."""
    ndim = max(map(ndim_of, tensors))
    counted = [one for one in tensors if not (ndim > 1 and dims_of(one) == (0,))]
    dtype = result_dtype(*tensors)
    return call("concat", [cast(one, dtype) for one in counted], place_of(dim, ndim))


@aten("stack.default")
def stack(tensors: Sequence[Expr], dim: int = 0) -> Expr:
    return call("stack", list(promoted(*tensors)), place_of(dim, ndim_of(tensors[0]) + 1))


@aten("flip.default")
def flip(self: Expr, dims: Sequence[int]) -> Expr:
    for dim in dims:
        self = call("flip", self, place_of(dim, ndim_of(self)))
    return self


@aten("roll.default")
def roll(self: Expr, shifts: Sequence[int], dims: Sequence[int] = ()) -> Expr:
    if not dims:
        flat = shaped(self, [_product(dims_of(self))])
        return shaped(roll(flat, shifts, [0]), dims_of(self))
    for shift, dim in zip(shifts, dims, strict=True):
        place = place_of(dim, ndim_of(self))
        size = dims_of(self)[place]
        cut = (size - shift) % size
        if not (isinstance(cut, int) and cut == 0):
            parts = [sliced(self, place, cut, size), sliced(self, place, 0, cut)]
            self = call("concat", parts, place)
    return self


def sliced(x: Expr, place: int, start: Dim, end: Dim, step: Dim = 1) -> Expr:
    """A slice along one axis, between places that exist."""
    return call("strided_slice", x, [place], [start], [end], [step])


def bounds(size: Dim, start: Any, end: Any) -> tuple[Dim, Dim]:
    """The places of a slice as Python takes them: from behind, and cut off at the ends."""
    first, last = _place(0 if start is None else start, size), _place(end, size)
    return first, dim_max(first, last)


def _place(place: Any, size: Dim) -> Dim:
    if place is None or (isinstance(place, int) and place >= 2**62):
        return size
    if isinstance(place, int) and place < 0:
        return dim_max(place + size, 0) if isinstance(size, int) else place + size
    if isinstance(place, int) and not isinstance(size, int):
        return 0 if place == 0 else dim_min(place, size)
    return dim_min(place, size)


def _put_slice(
    base: Expr, new: Expr, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Expr:
    place = place_of(dim, ndim_of(base))
    first, last = bounds(dims_of(base)[place], start, end)
    return call("slice_scatter", base, new, first, last, step, axis=place)


@view("slice.Tensor", put=_put_slice)
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
    return _put_slice(self, cast(src, dtype_of(self)), dim, start, end, step)


def _put_narrow(base: Expr, new: Expr, dim: int, start: Any, length: Dim) -> Expr:
    return _put_slice(base, new, dim, start, start + length)


@view("narrow.default", put=_put_narrow)
def narrow(self: Expr, dim: int, start: Any, length: Dim) -> Expr:
    place = place_of(dim, ndim_of(self))
    first = _place(start, dims_of(self)[place])
    return sliced(self, place, first, first + length)


def _put_select(base: Expr, new: Expr, dim: int, index: Dim) -> Expr:
    place = place_of(dim, ndim_of(base))
    return _put_slice(base, call("expand_dims", new, place), place, *_one_place(base, place, index))


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
    return _put_slice(base, new, dim, start, start + sizes[place])


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


@aten("tril.default")
def tril(self: Expr, diagonal: int = 0) -> Expr:
    return call("tril", self, diagonal)


@aten("triu.default")
def triu(self: Expr, diagonal: int = 0) -> Expr:
    return call("triu", self, diagonal)


@view("to.dtype", "to.dtype_layout", "to.device", may_copy=True)
def to(
    self: Expr,
    dtype: str | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> Expr:
    return self if dtype is None else cast(self, dtype)


@aten("_to_copy.default")
def to_copy(
    self: Expr,
    dtype: str | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Expr:
    return self if dtype is None else cast(self, dtype)


@view("type_as.default", "to.other", may_copy=True)
def type_as(self: Expr, other: Expr, non_blocking: bool = False, copy: bool = False) -> Expr:
    return cast(self, dtype_of(other))


@aten("copy.default")
def copy(self: Expr, src: Expr, non_blocking: bool = False) -> Expr:
    return expand(cast(src, dtype_of(self)), dims_of(self))


@view("unfold.default")
def unfold(self: Expr, dimension: int, size: int, step: int) -> Expr:
    """Windows along an axis, the places in a window as the last axis."""
    sizes = list(dims_of(self))
    place = place_of(dimension, len(sizes))
    count = (sizes[place] - size) // step + 1
    span = (count - 1) * step + 1
    parts = [sliced(self, place, at, at + span, step) for at in range(size)]
    return call("stack", parts, len(sizes))


@aten("pixel_shuffle.default")
def pixel_shuffle(self: Expr, upscale_factor: int) -> Expr:
    return call("nn.pixel_shuffle", self, upscale_factor)


@aten("channel_shuffle.default")
def channel_shuffle(self: Expr, groups: int) -> Expr:
    batch, channels, *space = dims_of(self)
    apart = shaped(self, [batch, groups, channels // groups, *space])
    return shaped(transpose(apart, 1, 2), dims_of(self))


@aten("constant_pad_nd.default")
def constant_pad(self: Expr, pad: Sequence[Dim], value: Any = 0) -> Expr:
    return padded(self, pad, "constant", value)


@aten("pad.default")
def pad(self: Expr, pad: Sequence[Dim], mode: str = "constant", value: float | None = None) -> Expr:
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
    if mode not in modes:
        raise ValueError(f'there is no padding of the mode "{mode}" here')
    return padded(self, pad, modes[mode], value or 0)


@aten("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def reflection_pad(self: Expr, padding: Sequence[Dim]) -> Expr:
    return padded(self, padding, "reflect", 0)


@aten("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def replication_pad(self: Expr, padding: Sequence[Dim]) -> Expr:
    return padded(self, padding, "edge", 0)


def padded(x: Expr, widths: Sequence[Dim], mode: str, value: Any) -> Expr:
    """Padded by torch's widths, the pairs of the last axis first; negative ones cut off."""
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    for place, (low, high) in enumerate(pairs):
        axis = ndim_of(x) - 1 - place
        cut = [-min(one, 0) if isinstance(one, int) else 0 for one in (low, high)]
        if any(cut):
            x = sliced(x, axis, cut[0], dims_of(x)[axis] - cut[1])
    room = [[dim_max(one, 0) for one in pair] for pair in pairs[::-1]]
    full = [0, 0] * (ndim_of(x) - len(pairs)) + [one for pair in room for one in pair]
    return call("nn.pad", x, full, mode, float(value)) if any(one != 0 for one in full) else x


@aten("meshgrid.default", "meshgrid.indexing")
def meshgrid(tensors: Sequence[Expr], indexing: str = "ij") -> list[Expr]:
    grids = call("meshgrid", list(tensors), indexing)
    return [grids[index] for index in range(len(tensors))]
