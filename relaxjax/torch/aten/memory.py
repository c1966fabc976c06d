"""Tensors that show memory by strides: places in a tensor whose elements lie one beside another."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Constant, Expr
from relaxjax.ops.emit import call, dims_of
from relaxjax.ops.shapes import element_count
from relaxjax.torch.program import TensorMeta

from .shapes import permute, shaped
from .table import aten, view


def _order(layout: TensorMeta) -> list[int]:
    """The axes of a tensor from the widest step in memory to the narrowest."""
    strides = dict(enumerate(layout.strides))
    return sorted(strides, key=lambda axis: (-strides[axis], axis))


def _check_dense(layout: TensorMeta) -> None:
    step = 1
    for axis in reversed(_order(layout)):
        size, stride = layout.example[axis], layout.strides[axis]
        if size != 1 and stride != step:
            raise ValueError(
                f"what it shows lies in the memory of a tensor of sizes {list(layout.example)} and "
                f"strides {list(layout.strides)}, which has gaps or elements that are several at "
                "once: write `x.contiguous()` before it"
            )
        step *= size


def _places(
    size: Sequence[Dim], stride: Sequence[Dim], offset: int | None, layout: TensorMeta
) -> Any:
    """Where the elements are among those of a tensor in the order of memory."""
    lengths = [one for one in size if isinstance(one, int)]
    steps = [one for one in stride if isinstance(one, int)]
    is_known = not any(isinstance(one, str) for one in layout.sizes)
    if len(lengths) + len(steps) < len(size) + len(stride) or not is_known:
        raise ValueError("memory is shown by sizes or strides that are not known")
    _check_dense(layout)
    found = np.asarray(0 if offset is None else offset - layout.offset)
    for length, step in zip(lengths, steps, strict=True):
        found = found[..., None] + np.arange(length) * step
    whole = int(np.prod(layout.example, dtype=np.int64))
    if found.size and not 0 <= found.min() <= found.max() < whole:
        raise ValueError(
            f"it shows elements {found.min()} to {found.max()} of a tensor of {whole} elements: "
            "take it of the whole tensor that these belong to"
        )
    return found


def _flat(x: Expr, layout: TensorMeta) -> Expr:
    return shaped(permute(x, _order(layout)), [element_count(dims_of(x))])


def _put(
    base: Expr,
    new: Expr,
    size: Sequence[Dim],
    stride: Sequence[Dim],
    storage_offset: int | None = None,
    *,
    layout: TensorMeta,
) -> Expr:
    places = _places(size, stride, storage_offset, layout).reshape(-1)
    if len(set(places.tolist())) < len(places):
        raise ValueError("an element is written to that is at several places: write to a copy")
    flat, written = _flat(base, layout), shaped(new, [len(places)])
    found = call("scatter_elements", flat, Constant(places.astype("int64")), written, 0, "update")
    order = _order(layout)
    sorted_sizes = [dims_of(base)[axis] for axis in order]
    return permute(shaped(found, sorted_sizes), [order.index(axis) for axis in range(len(order))])


@view("as_strided.default", put=_put, of_memory=True)
def as_strided(
    self: Expr,
    size: Sequence[Dim],
    stride: Sequence[Dim],
    storage_offset: int | None = None,
    *,
    layout: TensorMeta,
) -> Expr:
    """The elements at those places, of which one may be at several."""
    places = _places(size, stride, storage_offset, layout)
    return call("take", _flat(self, layout), Constant(places.astype("int64")), 0)


aten("as_strided_copy.default", of_memory=True)(as_strided)


@aten("as_strided_scatter.default", of_memory=True)
def as_strided_scatter(self: Expr, src: Expr, *given: Any, **where: Any) -> Expr:
    return _put(self, src, *given, **where)
