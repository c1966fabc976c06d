"""Operators that arrange the elements of a tensor; most are views of it."""

import typing
from collections.abc import Sequence
from functools import wraps
from typing import Any

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of
from relaxjax.ops.shapes import element_count

from .promotion import cast, promoted, result_dtype
from .table import Rule, aten, view


def place_of(dim: int, ndim: int) -> int:
    """An axis counted from the front; a scalar has one, as it were."""
    return dim % max(ndim, 1)


def shaped(x: Expr, sizes: Sequence[Dim]) -> Expr:
    if 0 in sizes and -1 not in sizes:  # which Relax takes for the size that stands there before
        return call("zeros", ShapeExpr(tuple(sizes)), dtype_of(x))
    return call("reshape", x, ShapeExpr(tuple(sizes)))


def row(x: Any) -> Any:
    """A scalar as a row of one element; numbers, and tensors with axes, as they are."""
    return shaped(x, [1]) if isinstance(x, Expr) and not ndim_of(x) else x


def on_rows(rule: Rule) -> Rule:
    """A rule along an axis also of scalars, which torch takes for rows of one element there.

    A row may be given a scalar as well, such as the one place that is read.
    """

    @wraps(rule)
    def taken(self: Expr, *given: Any, **named: Any) -> Any:
        if ndim_of(self) > 1:
            return rule(self, *given, **named)
        found = rule(row(self), *map(row, given), **{name: row(one) for name, one in named.items()})
        if ndim_of(self):
            return found
        if isinstance(found, tuple):
            return tuple(shaped(one, []) for one in found)
        return shaped(found, [])

    return typing.cast("Rule", taken)


def _full(x: Expr, sizes: Sequence[Dim]) -> list[Dim]:
    """Sizes with the one that is -1 computed from the others."""
    known = [size for size in sizes if not (isinstance(size, int) and size == -1)]
    if len(known) == len(sizes):
        return list(sizes)
    rest = element_count(dims_of(x)) // element_count(known) if element_count(known) != 0 else 0
    return [rest if isinstance(size, int) and size == -1 else size for size in sizes]


def _put_reshaped(base: Expr, new: Expr, **_: Any) -> Expr:
    return shaped(new, dims_of(base))


@view("view.default", "_unsafe_view.default", put=_put_reshaped)
def view_default(self: Expr, size: Sequence[Dim]) -> Expr:
    return shaped(self, _full(self, size))


@view("reshape.default", put=_put_reshaped, may_copy=True)
def reshape(self: Expr, shape: Sequence[Dim]) -> Expr:
    return shaped(self, _full(self, shape))


@view("reshape_as.default", put=_put_reshaped, may_copy=True)
def reshape_as(self: Expr, other: Expr) -> Expr:
    return shaped(self, dims_of(other))


@view("flatten.using_ints", put=_put_reshaped, may_copy=True)
def flatten(self: Expr, start_dim: int = 0, end_dim: int = -1) -> Expr:
    sizes, ndim = dims_of(self), ndim_of(self)
    first, last = place_of(start_dim, ndim), place_of(end_dim, ndim)
    return shaped(
        self, [*sizes[:first], element_count(sizes[first : last + 1]), *sizes[last + 1 :]]
    )


@view("unflatten.int", put=_put_reshaped)
def unflatten(self: Expr, dim: int, sizes: Sequence[Dim]) -> Expr:
    whole = dims_of(self)
    place = place_of(dim, len(whole))
    known = element_count([size for size in sizes if size != -1])
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


@view("transpose.int", "swapdims.default", put=_put_transposed)
def transpose(self: Expr, dim0: int = 0, dim1: int = 1) -> Expr:
    return permute(self, _swapped(ndim_of(self), dim0, dim1))


def _put_swapped(base: Expr, new: Expr, axis0: int, axis1: int) -> Expr:
    return transpose(new, axis0, axis1)


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


def broadcast_sizes(*tensors: Expr) -> list[Dim]:
    """The sizes that tensors broadcast to; a symbolic one is not 1, as torch takes it."""
    ndim = max(map(ndim_of, tensors))
    padded: list[list[Dim]] = [[*[1] * (ndim - ndim_of(one)), *dims_of(one)] for one in tensors]
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
    whole: list[Dim] = [*[1] * (len(counts) - len(sizes)), *sizes]
    counts = [*[1] * (len(whole) - len(counts)), *counts]
    apart = [size for one in whole for size in (1, one)]
    spread = [size for pair in zip(counts, whole, strict=True) for size in pair]
    repeated = call("broadcast_to", shaped(self, apart), ShapeExpr(tuple(spread)))
    return shaped(repeated, [n * count for n, count in zip(whole, counts, strict=True)])


@aten("repeat_interleave.self_int")
def repeat_interleave(
    self: Expr, repeats: Dim, dim: int | None = None, output_size: Dim | None = None
) -> Expr:
    if dim is None:
        self, dim = shaped(self, [element_count(dims_of(self))]), 0
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
@on_rows
def flip(self: Expr, dims: Sequence[int]) -> Expr:
    for dim in dims:
        self = call("flip", self, place_of(dim, ndim_of(self)))
    return self


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


aten("_to_copy.default")(to)


@view("type_as.default", "to.other", may_copy=True)
def type_as(self: Expr, other: Expr, non_blocking: bool = False, copy: bool = False) -> Expr:
    return cast(self, dtype_of(other))


@aten("copy.default")
def copy(self: Expr, src: Expr, non_blocking: bool = False) -> Expr:
    return expand(cast(src, dtype_of(self)), dims_of(self))


@aten("pixel_shuffle.default")
def pixel_shuffle(self: Expr, upscale_factor: int) -> Expr:
    return call("nn.pixel_shuffle", self, upscale_factor)


@aten("channel_shuffle.default")
def channel_shuffle(self: Expr, groups: int) -> Expr:
    batch, channels, *space = dims_of(self)
    apart = shaped(self, [batch, groups, channels // groups, *space])
    return shaped(transpose(apart, 1, 2), dims_of(self))


@aten("meshgrid.default", "meshgrid.indexing")
def meshgrid(tensors: Sequence[Expr], indexing: str = "ij") -> list[Expr]:
    grids = call("meshgrid", list(map(row, tensors)), indexing)
    return [grids[index] for index in range(len(tensors))]


view("view_as.default", put=_put_reshaped)(lambda self, other: shaped(self, dims_of(other)))
view("ravel.default", put=_put_reshaped, may_copy=True)(lambda self: flatten(self))
view("swapaxes.default", put=_put_swapped)(lambda self, axis0, axis1: transpose(self, axis0, axis1))
view("mT.default", put=_put_matrices)(lambda self: transpose(self, -2, -1))
view("expand_as.default")(lambda self, other: expand(self, dims_of(other)))
aten("tril.default")(lambda self, diagonal=0: call("tril", self, diagonal))
aten("triu.default")(lambda self, diagonal=0: call("triu", self, diagonal))
