"""Operators that read and write at places which tensors say."""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Constant, Expr, ShapeExpr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, number, scalar, where
from relaxjax.ops.shapes import element_count

from .promotion import cast, highest, is_floating, lowest
from .shapes import broadcast_sizes, expand, on_rows, permute, place_of, row, shaped
from .table import aten


def from_front(places: Expr, size: Dim) -> Expr:
    """Places as numbers from 0 on, where torch counts negative ones from behind."""
    places = cast(places, "int64")
    return where(places < scalar(0, places), places + number(size, places), places)


@aten("embedding.default")
def embedding(
    weight: Expr,
    indices: Expr,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Expr:
    if padding_idx >= 0:
        row = call("arange", 0, dims_of(weight)[0], 1, "int64")
        is_row = call("expand_dims", call("equal", row, scalar(padding_idx, row)), 1)
        weight = where(is_row, call("grad.no_grad", weight), weight)
    rows = call("take", weight, indices, 0)
    if not scale_grad_by_freq:
        return rows
    # A row's adjoint is divided by how often the row is read.
    flat = shaped(indices, [element_count(dims_of(indices))])
    ones = call("full", ShapeExpr(dims_of(flat)), scalar(1, weight), dtype_of(weight))
    counts = index_add(
        call("zeros", ShapeExpr(dims_of(weight)[:1]), dtype_of(weight)), 0, flat, ones
    )
    often = call("expand_dims", call("take", counts, indices, 0), ndim_of(indices))
    known, whole = where(call("isfinite", rows), rows, scalar(0, rows)), call("grad.no_grad", rows)
    return whole + (known - call("grad.no_grad", known)) / often


@aten("index_select.default")
@on_rows
def index_select(self: Expr, dim: int, index: Expr) -> Expr:
    place = place_of(dim, ndim_of(self))
    return call("take", self, from_front(index, dims_of(self)[place]), place)


@aten("take.default")
def take(self: Expr, index: Expr) -> Expr:
    """The elements at places of the tensor as one row."""
    flat = shaped(self, [element_count(dims_of(self))])
    return call("take", flat, from_front(index, dims_of(flat)[0]), 0)


@aten("put.default")
def put(self: Expr, index: Expr, source: Expr, accumulate: bool = False) -> Expr:
    """The tensor with elements written, or added, at places of it as one row."""
    size = element_count(dims_of(self))
    places = from_front(shaped(index, [element_count(dims_of(index))]), size)
    updates = shaped(source, [element_count(dims_of(source))])
    how = "add" if accumulate else "update"
    return shaped(_written(shaped(self, [size]), places, updates, 0, how), dims_of(self))


@aten("gather.default")
def gather(self: Expr, dim: int, index: Expr, sparse_grad: bool = False) -> Expr:
    """The elements at places of an index that may be shorter than the tensor along any axis."""
    if 0 in dims_of(index):  # which may have fewer axes than the tensor
        return call("zeros", ShapeExpr(dims_of(index)), dtype_of(self))
    place = place_of(dim, ndim_of(self))
    x, places = row(self), row(cast(index, "int64"))
    found = call("gather_elements", _as_long(x, places, place), places, place)
    return found if ndim_of(index) else shaped(found, [])


@aten("take_along_dim.default")
def take_along_dim(self: Expr, indices: Expr, dim: int | None = None) -> Expr:
    """Elements along an axis; without one, of all of them in a row."""
    if dim is None:
        self, indices, dim = shaped(self, [-1]), shaped(indices, [-1]), 0
    place = place_of(dim, ndim_of(self))
    sizes, wanted = list(dims_of(self)), list(dims_of(indices))
    for axis, (one, other) in enumerate(zip(sizes, wanted, strict=True)):
        if axis != place:
            sizes[axis] = wanted[axis] = other if one == 1 else one
    return gather(expand(self, sizes), place, expand(indices, wanted))


def _as_long(x: Expr, index: Expr, place: int) -> Expr:
    """A tensor cut to the lengths of an index along all axes but one."""
    for axis, (size, wanted) in enumerate(zip(dims_of(x), dims_of(index), strict=True)):
        if axis != place and size != wanted:
            x = call("strided_slice", x, [axis], [0], [wanted], [1])
    return x


def _scattered(reduction: str) -> Callable[..., Expr]:
    @on_rows
    def rule(self: Expr, dim: int, index: Expr, src: Any) -> Expr:
        place = place_of(dim, ndim_of(self))
        if isinstance(src, Expr):
            updates = src
            for axis, (size, wanted) in enumerate(zip(dims_of(src), dims_of(index), strict=True)):
                if size != wanted:
                    updates = call("strided_slice", updates, [axis], [0], [wanted], [1])
        else:
            updates = call("broadcast_to", cast(src, dtype_of(self)), ShapeExpr(dims_of(index)))
        return _written(self, index, updates, place, reduction)

    return rule


def _written(x: Expr, index: Expr, updates: Expr, place: int, reduction: str) -> Expr:
    """Elements written at places; of truth values, a sum is whether one is true, and so on."""
    places = cast(index, "int64")
    if dtype_of(x) != "bool" or reduction == "update":
        return call("scatter_elements", x, places, updates, place, reduction)
    of_truths = {"add": "max", "mul": "min"}.get(reduction, reduction)
    first, second = (cast(one, "int32") for one in (x, updates))
    return cast(call("scatter_elements", first, places, second, place, of_truths), "bool")


@aten("scatter.src", "scatter.value")
def scatter(self: Expr, dim: int, index: Expr, src: Any = None, value: Any = None) -> Expr:
    return _scattered("update")(self, dim, index, value if src is None else src)


@aten("scatter_add.default")
def scatter_add(self: Expr, dim: int, index: Expr, src: Expr) -> Expr:
    return _scattered("add")(self, dim, index, src)


@aten("scatter_reduce.two")
def scatter_reduce(
    self: Expr, dim: int, index: Expr, src: Expr, reduce: str, include_self: bool = True
) -> Expr:
    names = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "mean"}
    if not include_self:
        return _scattered_alone(self, dim, index, src, reduce)
    if reduce == "mean" and not is_floating(dtype_of(self)):
        return _mean_of_integers(self, dim, index, src)
    return _scattered(names[reduce])(self, dim, index, src)


def _mean_of_integers(x: Expr, dim: int, index: Expr, src: Expr) -> Expr:
    """Rounded down, as PyTorch does it."""
    ones = call("broadcast_to", cast(1, dtype_of(x)), ShapeExpr(dims_of(index)))
    counts = scatter_add(call("ones_like", x), dim, index, ones)
    return call("floor_divide", scatter_add(x, dim, index, src), counts)


def _neutral(reduce: str, dtype: str) -> Expr:
    """What changes nothing that it is put to."""
    if reduce == "amax" and is_floating(dtype):
        return cast(-inf, dtype)
    extremes = {"amax": lowest, "amin": highest}
    given = extremes[reduce](dtype) if reduce in extremes else int(reduce == "prod")
    return cast(given, dtype)


def _scattered_alone(x: Expr, dim: int, index: Expr, src: Expr, reduce: str) -> Expr:
    """Of what is written to an element alone; where nothing is written, the tensor stays."""
    dtype = dtype_of(x)
    ones = call("broadcast_to", cast(1, "int64"), ShapeExpr(dims_of(index)))
    counts = scatter_add(call("zeros_like", x, "int64"), dim, index, ones)
    is_written = counts > scalar(0, counts)
    neutral = _neutral(reduce, dtype)
    base = where(is_written, neutral, x)
    if reduce == "mean":
        total, count = scatter_add(base, dim, index, src), cast(counts, dtype)
        count = where(is_written, count, scalar(1, count))
        return total / count if is_floating(dtype) else call("floor_divide", total, count)
    found = scatter_reduce(base, dim, index, src, reduce)
    if reduce not in ("amax", "amin") or not is_floating(dtype):
        return found
    # PyTorch counts the tensor among those that share the adjoint where it equals the extreme one.
    found = call("grad.no_grad", found)
    shares = where(call("equal", x, found), call("grad.no_grad", x), neutral)
    return scatter_reduce(where(is_written, shares, x), dim, index, src, reduce)


@aten("scatter.reduce", "scatter.value_reduce")
def scatter_by(
    self: Expr, dim: int, index: Expr, src: Any = None, reduce: str = "add", value: Any = None
) -> Expr:
    names = {"add": "add", "multiply": "mul"}
    return _scattered(names[reduce])(self, dim, index, value if src is None else src)


@aten("index_add.default")
@on_rows
def index_add(self: Expr, dim: int, index: Expr, source: Expr, alpha: Any = 1) -> Expr:
    place = place_of(dim, ndim_of(self))
    updates = source if alpha == 1 else source * cast(alpha, dtype_of(source))
    sizes = list(dims_of(updates))
    places = shaped(cast(index, "int64"), [-1 if i == place else 1 for i in range(len(sizes))])
    places = call("broadcast_to", places, ShapeExpr(tuple(sizes)))
    return _written(self, places, updates, place, "add")


@aten("index_reduce.default")
@on_rows
def index_reduce(
    self: Expr, dim: int, index: Expr, source: Expr, reduce: str, include_self: bool = True
) -> Expr:
    """As `scatter_reduce` has it, with one place for all of a row."""
    place = place_of(dim, ndim_of(self))
    places = shaped(cast(index, "int64"), [-1 if i == place else 1 for i in range(ndim_of(self))])
    places = call("broadcast_to", places, ShapeExpr(dims_of(source)))
    return scatter_reduce(self, place, places, source, reduce, include_self)


@aten("index_copy.default")
@on_rows
def index_copy(self: Expr, dim: int, index: Expr, source: Expr) -> Expr:
    place = place_of(dim, ndim_of(self))
    places = shaped(cast(index, "int64"), [-1 if i == place else 1 for i in range(ndim_of(self))])
    places = call("broadcast_to", places, ShapeExpr(dims_of(source)))
    return call("scatter_elements", self, places, source, place, "update")


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
@on_rows
def index_fill(self: Expr, dim: int, index: Expr, value: Any) -> Expr:
    place = place_of(dim, ndim_of(self))
    sizes = list(dims_of(self))
    sizes[place] = dims_of(index)[0]
    filled = call("broadcast_to", cast(value, dtype_of(self)), ShapeExpr(tuple(sizes)))
    return index_copy(self, dim, index, filled)


def by_places(indices: Sequence[Expr | None]) -> list[Expr | None]:
    """Indices with the places of what is true, for masks whose elements the program holds."""
    found: list[Expr | None] = []
    for index in indices:
        if isinstance(index, Constant) and index.data.dtype == bool and index.data.ndim:
            found += [Constant(places) for places in np.nonzero(index.data)]
        else:
            found.append(index)
    return found


@aten("masked_select.default")
def masked_select(self: Expr, mask: Expr) -> Expr:
    """By a mask whose elements the program holds; what others choose has no known size."""
    sizes = broadcast_sizes(self, mask)
    known = [size for size in sizes if isinstance(size, int)]
    if not isinstance(mask, Constant) or len(known) < len(sizes):
        raise ValueError(
            f"what a mask of {dims_of(mask)} chooses of a tensor of {dims_of(self)} has a size "
            "that no compiled program knows: choose by torch.where"
        )
    return index_tensor(expand(self, sizes), [Constant(np.broadcast_to(mask.data, known))])


def _picked(
    x: Expr, indices: Sequence[Expr | None]
) -> tuple[list[int], list[int], Expr, list[Dim]]:
    """The axes that are indexed, all axes with these in front, the places, and their sizes."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if any(dtype_of(index) == "bool" for index in given):
        raise ValueError(
            "what is read by a mask has as many elements as the mask is true at, which no "
            "compiled program knows: choose by torch.where"
        )
    sizes = broadcast_sizes(*given)
    places = [
        expand(from_front(index, dims_of(x)[axis]), sizes)
        for axis, index in zip(axes, given, strict=True)
    ]
    order = [*axes, *(axis for axis in range(ndim_of(x)) if axis not in axes)]
    return axes, order, call("stack", places, len(sizes)), sizes


@aten("index.Tensor", "_unsafe_index.Tensor")
def index_tensor(self: Expr, indices: Sequence[Expr | None]) -> Expr:
    """Elements at places, whose axes stand where the first of the indexed ones was, if in a row."""
    indices = by_places(indices)
    axes, order, places, sizes = _picked(self, indices)
    if len(axes) == 1:
        index = next(one for one in indices if one is not None)
        return call("take", self, from_front(index, dims_of(self)[axes[0]]), axes[0])
    found = call("gather_nd", permute(self, order), places)
    return permute(found, _moved_back(axes, len(sizes), ndim_of(found)))


def _moved_back(axes: Sequence[int], count: int, ndim: int) -> list[int]:
    """Where the axes of the places go that stand in front: torch leaves them there if apart."""
    in_row = list(axes) == list(range(axes[0], axes[0] + len(axes)))
    first = axes[0] if in_row else 0
    rest = list(range(count, ndim))
    return [*rest[:first], *range(count), *rest[first:]]


@aten("index_put.default", "_unsafe_index_put.default", "_index_put_impl.default")
def index_put(
    self: Expr,
    indices: Sequence[Expr | None],
    values: Expr,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Expr:
    given = [index for index in indices if index is not None]
    is_alone = len(given) == 1 and dtype_of(given[0]) == "bool"
    if is_alone and not isinstance(given[0], Constant):
        return _put_by_mask(self, indices, values, accumulate)
    axes, order, places, sizes = _picked(self, by_places(indices))
    front = permute(self, order)
    rest = list(dims_of(front))[len(axes) :]
    back = _moved_back(axes, len(sizes), len(sizes) + len(rest))
    wanted = [[*sizes, *rest][axis] for axis in back]
    updates = permute(expand(cast(values, dtype_of(self)), wanted), _inverse(back))
    written = call("scatter_nd", front, places, updates, "add" if accumulate else "update")
    return permute(written, _inverse(order))


def _put_by_mask(x: Expr, indices: Sequence[Expr | None], values: Expr, accumulate: bool) -> Expr:
    """Values at all places of a mask that covers the first axes, the same ones at each place."""
    mask = indices[0]
    rest = ndim_of(x) - (0 if mask is None else ndim_of(mask))
    if mask is None or not (ndim_of(values) <= rest or all(size == 1 for size in dims_of(values))):
        raise ValueError("different values at the places of a mask: choose by torch.where")
    value = cast(values, dtype_of(x))
    value = value if ndim_of(values) <= rest else shaped(value, [])
    sizes = [*dims_of(mask), *[1] * rest]
    return where(shaped(mask, sizes), x + value if accumulate else value, x)


def _inverse(order: Sequence[int]) -> list[int]:
    return [list(order).index(axis) for axis in range(len(order))]


@aten("_unsafe_masked_index.default")
def unsafe_masked_index(self: Expr, mask: Expr, indices: Sequence[Expr | None], fill: Any) -> Expr:
    """Elements at places where a mask is true, which alone are places in the tensor."""
    safe = []
    for axis, index in enumerate(indices):
        if index is not None:
            last = number(dims_of(self)[axis] - 1, index)
            index = call("minimum", call("maximum", index, scalar(0, index)), last)
        safe.append(index)
    return where(mask, index_tensor(self, safe), cast(fill, dtype_of(self)))


@aten("one_hot.default")
def one_hot(self: Expr, num_classes: int = -1) -> Expr:
    if num_classes < 0:
        raise ValueError("one_hot without a number of classes depends on the values: give it one")
    classes = call("arange", 0, num_classes, 1, "int64")
    return cast(call("equal", call("expand_dims", self, ndim_of(self)), classes), "int64")


@aten("bucketize.Tensor")
def bucketize(self: Expr, boundaries: Expr, out_int32: bool = False, right: bool = False) -> Expr:
    return call("bucketize", self, boundaries, out_int32, right)
