"""Tensors put beside and above one another, cut at places, and turned round."""

from collections.abc import Sequence
from itertools import combinations as chosen
from itertools import combinations_with_replacement as chosen_again
from typing import Any

import numpy as np

from relaxjax.ir.dims import Dim, dim_sum
from relaxjax.ir.expr import Constant, Expr
from relaxjax.ops.emit import call, dims_of, ndim_of
from relaxjax.ops.shapes import element_count

from .creation import filled
from .promotion import cast, promoted, result_dtype
from .reductions import reduced, sum_dtype
from .shapes import cat, expand, flip, place_of, shaped, transpose
from .slicing import bounds, put_slice, sliced
from .table import aten, view


def _at_least(x: Expr, ndim: int) -> Expr:
    """With axes in front; of three, an axis behind comes before a second one in front."""
    sizes = list(dims_of(x))
    if ndim == 3 and len(sizes) == 2:
        return shaped(x, [*sizes, 1])
    if ndim == 3 and len(sizes) == 1:
        return shaped(x, [1, *sizes, 1])
    return shaped(x, [*[1] * (ndim - len(sizes)), *sizes]) if len(sizes) < ndim else x


def _put_at_least(base: Expr, new: Expr) -> Expr:
    return shaped(new, dims_of(base))


def _declare_at_least(ndim: int) -> None:
    view(f"atleast_{ndim}d.default", put=_put_at_least)(lambda self: _at_least(self, ndim))
    aten(f"atleast_{ndim}d.Sequence")(lambda tensors: [_at_least(one, ndim) for one in tensors])


for _ndim in (1, 2, 3):
    _declare_at_least(_ndim)


@aten("hstack.default")
def hstack(tensors: Sequence[Expr]) -> Expr:
    rows = [_at_least(one, 1) for one in tensors]
    return cat(rows, 0 if ndim_of(rows[0]) == 1 else 1)


@aten("vstack.default", "row_stack.default")
def vstack(tensors: Sequence[Expr]) -> Expr:
    return cat([_at_least(one, 2) for one in tensors], 0)


@aten("column_stack.default")
def column_stack(tensors: Sequence[Expr]) -> Expr:
    columns = [shaped(x, [element_count(dims_of(x)), 1]) if ndim_of(x) < 2 else x for x in tensors]
    return cat(columns, 1)


@aten("block_diag.default")
def block_diag(tensors: Sequence[Expr]) -> Expr:
    """A matrix of matrices along its diagonal, and zeros elsewhere."""
    dtype = result_dtype(*tensors)
    blocks = [cast(_at_least(one, 2), dtype) for one in tensors]
    widths = [dims_of(one)[1] for one in blocks]
    rows = []
    for place, block in enumerate(blocks):
        height = dims_of(block)[0]
        sides = [dim_sum(widths[:place]), dim_sum(widths[place + 1 :])]
        left, right = (filled([height, width], 0, dtype) for width in sides)
        rows.append(call("concat", [left, block, right], 1))
    return call("concat", rows, 0)


@aten("cartesian_prod.default")
def cartesian_prod(tensors: Sequence[Expr]) -> Expr:
    """All tuples of an element of each vector."""
    if len(tensors) == 1:
        return tensors[0]
    sizes = [dims_of(one)[0] for one in tensors]
    columns = []
    for place, one in enumerate(promoted(*tensors)):
        apart = shaped(one, [-1 if axis == place else 1 for axis in range(len(sizes))])
        columns.append(shaped(expand(apart, sizes), [element_count(sizes)]))
    return call("stack", columns, 1)


@aten("combinations.default")
def combinations(self: Expr, r: int = 2, with_replacement: bool = False) -> Expr:
    """All sets of `r` elements of a vector, in their order."""
    (length,) = dims_of(self)
    if not isinstance(length, int):
        raise ValueError(f"the sets of elements of {length}: how many there are is not known")
    sets = list((chosen_again if with_replacement else chosen)(range(length), r))
    places = np.array(sets, "int64").reshape(len(sets), r)
    return call("take", self, Constant(places), 0)


def _places(count: Any, size: Dim) -> list[Dim]:
    """Where an axis is cut: into so many parts, longer ones in front, or at these places."""
    if not isinstance(count, int):
        return [bounds(size, place, None)[0] for place in count]
    if not isinstance(size, int):
        whole = size // count
        if not (size - whole * count == 0):
            raise ValueError(f"an axis of {size} is cut into {count} parts: how long is not known")
        return [whole * place for place in range(1, count)]
    lengths = [size // count + (place < size % count) for place in range(count)]
    return [sum(lengths[:place]) for place in range(1, count)]


def _pieces(size: Dim, where: Any) -> list[tuple[Dim, Dim]]:
    places = _places(where, size)
    return [bounds(size, *pair) for pair in zip([0, *places], [*places, size], strict=True)]


def _split(x: Expr, where: Any, dim: int) -> list[Expr]:
    axis = place_of(dim, ndim_of(x))
    return [sliced(x, axis, *piece) for piece in _pieces(dims_of(x)[axis], where)]


def _put_split(base: Expr, new: Expr, place: int, where: Any, dim: int) -> Expr:
    axis = place_of(dim, ndim_of(base))
    return put_slice(base, new, axis, *_pieces(dims_of(base)[axis], where)[place])


@view(
    "tensor_split.sections",
    put=lambda base, new, place, sections, dim=0: _put_split(base, new, place, sections, dim),
)
def tensor_split_sections(self: Expr, sections: int, dim: int = 0) -> list[Expr]:
    return _split(self, sections, dim)


@view(
    "tensor_split.indices",
    put=lambda base, new, place, indices, dim=0: _put_split(base, new, place, indices, dim),
)
def tensor_split_indices(self: Expr, indices: Sequence[Dim], dim: int = 0) -> list[Expr]:
    return _split(self, indices, dim)


def _declare_splits(name: str, axis_of: Any) -> None:
    def put_sections(base: Expr, new: Expr, place: int, sections: int) -> Expr:
        return _put_split(base, new, place, sections, axis_of(base))

    def put_indices(base: Expr, new: Expr, place: int, indices: Sequence[Dim]) -> Expr:
        return _put_split(base, new, place, indices, axis_of(base))

    @view(f"{name}.int", put=put_sections)
    def by_sections(self: Expr, sections: int) -> list[Expr]:
        return _split(self, sections, axis_of(self))

    @view(f"{name}.array", put=put_indices)
    def by_indices(self: Expr, indices: Sequence[Dim]) -> list[Expr]:
        return _split(self, indices, axis_of(self))


_declare_splits("hsplit", lambda x: 0 if ndim_of(x) == 1 else 1)
_declare_splits("vsplit", lambda x: 0)
_declare_splits("dsplit", lambda x: 2)


@aten("rot90.default")
def rot90(self: Expr, k: int = 1, dims: Sequence[int] = (0, 1)) -> Expr:
    """Turned by 90 degrees `k` times, from the first of the axes to the second."""
    first, second = (place_of(dim, ndim_of(self)) for dim in dims)
    match k % 4:
        case 1:
            return transpose(flip(self, [second]), first, second)
        case 2:
            return flip(self, [first, second])
        case 3:
            return transpose(flip(self, [first]), first, second)
    return self


@aten("sum_to_size.default")
def sum_to_size(self: Expr, size: Sequence[Dim]) -> Expr:
    """The sum over what broadcasting from `size` repeats."""
    sizes = dims_of(self)
    more = len(sizes) - len(size)
    repeated = [
        axis
        for axis, found in enumerate(sizes)
        if axis < more or (size[axis - more] == 1 and found != 1)
    ]
    if not repeated:
        return self
    return shaped(reduced("sum", sum_dtype(self, None), repeated, True), size)


@aten("pixel_unshuffle.default")
def pixel_unshuffle(self: Expr, downscale_factor: int) -> Expr:
    """Blocks of an image as channels, of which there are more by the square of the factor."""
    *batch, channels, height, width = dims_of(self)
    factor, first = downscale_factor, len(batch)
    high, wide = height // factor, width // factor
    blocks = shaped(self, [*batch, channels, high, factor, wide, factor])
    order = [*range(first + 1), first + 2, first + 4, first + 1, first + 3]
    apart = call("permute_dims", blocks, order)
    return shaped(apart, [*batch, channels * factor * factor, high, wide])


aten("dstack.default")(lambda tensors: cat([_at_least(one, 3) for one in tensors], 2))
aten("fliplr.default")(lambda self: flip(self, [1]))
aten("flipud.default")(lambda self: flip(self, [0]))
