"""Operators that count or find places: of sizes that are known before the program runs."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
from jax import numpy as jnp

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, number, scalar, where
from relaxjax.ops.shapes import element_count

from .indexing import embedding, index_add, index_reduce
from .pairs import fixed
from .promotion import cast
from .shapes import broadcast_sizes, expand, shaped
from .table import aten, traced

_COUNTED = "how many it finds is known only when the program runs: "
_FOUND = f"{_COUNTED}write torch.nonzero_static(x, size=n), or torch.where(mask, x, y)"
_DIFFERENT = f"{_COUNTED}find them before, and give them to the model as an input"
_DRAWN = "draw them before, and give them to the model as an input, or make them of torch.rand_like"
_INVERSE = "write torch.linalg.solve(x.mT @ x, x.mT) for a matrix of full column rank"
_SYMMETRIC = "its results are complex: of a symmetric matrix take torch.linalg.eigh or eigvalsh"
_NUMBER = (
    "a number that Python takes out of a tensor is known only when the program runs: leave it a "
    "tensor, and read at it by index_select, write at it by index_copy"
)
# What to do instead of operators whose results have as many elements as values say, or that differ.
INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("randint", "randint_like", "randperm", "bernoulli", "multinomial"),
            *("poisson", "cauchy_", "log_normal_", "geometric_", "random_"),
            *("rrelu_with_noise", "fractional_max_pool2d", "fractional_max_pool3d"),
        ),
        _DRAWN,
    ),
    "_lu_with_info": "write torch.linalg.lu_factor",
    **dict.fromkeys(("linalg_pinv", "pinverse"), _INVERSE),
    "linalg_cond": "divide the first of torch.linalg.svdvals(x) by the last",
    **dict.fromkeys(("linalg_eig", "linalg_eigvals"), _SYMMETRIC),
    "associative_scan": "write torch's `scan`, or the steps as a loop of Python",
    "embedding_renorm_": "write embedding(x, torch.renorm(weight, norm_type, 0, max_norm)) without "
    "`max_norm`, which would write to a parameter; the gradient goes through the norms then",
    **dict.fromkeys(("nonzero", "nonzero_numpy", "argwhere", "where"), _FOUND),
    **dict.fromkeys(("_unique2", "unique_dim", "unique_consecutive"), _DIFFERENT),
    **dict.fromkeys(("item", "_local_scalar_dense"), _NUMBER),
    "bincount": f"{_COUNTED}sum torch.nn.functional.one_hot(x, n)",
    "repeat_interleave": f"{_COUNTED}read by places that are an input of the model",
}


@aten("masked_scatter.default")
def masked_scatter(self: Expr, mask: Expr, source: Expr) -> Expr:
    """The elements of a source, in their order, where a mask is true."""
    sizes = broadcast_sizes(self, mask)
    x, mask = expand(self, sizes), expand(mask, sizes)
    counted = call("cumsum", cast(shaped(mask, [-1]), "int64"), 0)
    last = number(element_count(dims_of(source)) - 1, counted)
    places = call("minimum", call("maximum", counted - 1, scalar(0, counted)), last)
    taken = call("take", shaped(cast(source, dtype_of(x)), [-1]), places, 0)
    return where(mask, shaped(taken, sizes), x)


@aten("nonzero_static.default")
def nonzero_static(self: Expr, size: int, fill_value: int = -1) -> Expr:
    """The places of the first `size` elements that are not zero, and `fill_value` behind them."""
    flat = shaped(cast(self, "bool"), [-1])
    count = element_count(dims_of(self))
    place = call("arange", 0, count, 1, "int64")
    none = number(count, place)
    found: Expr = call("sort", where(flat, place, none), 0)
    if not isinstance(count, int) or count < size:
        found = call("concat", [found, call("broadcast_to", none, [size])], 0)
    found = call("strided_slice", found, [0], [0], [size], [1])
    if not ndim_of(self):
        return call("zeros", [size, 0], "int64")
    is_found = found < none
    columns: list[Expr] = []
    for length in reversed(dims_of(self)):
        columns.append(call("floor_mod", found, number(length, found)))
        found = call("floor_divide", found, number(length, found))
    filler = scalar(fill_value, place)
    return call("stack", [where(is_found, column, filler) for column in columns[::-1]], 1)


@aten("searchsorted.Tensor")
def searchsorted(
    sorted_sequence: Expr,
    self: Expr,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Expr | None = None,
) -> Expr:
    is_right = right if side is None else side == "right"
    rows = fixed(sorted_sequence)
    if 0 in (*dims_of(rows), *dims_of(self)):
        return call("zeros", ShapeExpr(dims_of(self)), "int32" if out_int32 else "int64")
    if sorter is not None:
        rows = call("gather_elements", rows, cast(sorter, "int64"), ndim_of(rows) - 1)
    if ndim_of(rows) == 1:
        return call("bucketize", fixed(self), rows, out_int32, is_right)

    def find(rows: Any, values: Any) -> Any:
        search = partial(jnp.searchsorted, side="right" if is_right else "left")
        flat = (one.reshape(-1, one.shape[-1]) for one in (rows, values))
        return jax.vmap(search)(*flat).reshape(values.shape)

    return cast(traced(find, rows, fixed(self)), "int32" if out_int32 else "int64")


@aten("searchsorted.Scalar")
def searchsorted_number(sorted_sequence: Expr, self: float, **options: Any) -> Expr:
    """The place of one number in one row."""
    return searchsorted(sorted_sequence, cast(self, dtype_of(sorted_sequence)), **options)


@aten("embedding_bag.padding_idx", "embedding_bag.default")
def embedding_bag(
    weight: Expr,
    indices: Expr,
    offsets: Expr,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Expr | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Expr]:
    """Sums or means of rows, or the largest of each column, in bags that begin at the offsets."""
    count, bags = dims_of(indices)[0], dims_of(offsets)[0]
    if include_last_offset:
        bags = bags - 1
        offsets = call("strided_slice", offsets, [0], [0], [bags], [1])
    place = cast(call("arange", 0, count, 1, "int64"), dtype_of(offsets))
    bag = cast(call("bucketize", place, offsets, False, True), "int64") - 1
    rows = embedding(weight, indices, scale_grad_by_freq=scale_grad_by_freq)
    counts: Expr = call("ones", [count], dtype_of(weight))
    is_row: Expr | None = None
    if padding_idx is not None:
        is_row = call("not_equal", indices, scalar(_from_front(padding_idx, weight), indices))
    if mode == 2:
        return (_largest(rows, bag, bags, is_row),)
    if per_sample_weights is not None:
        rows = rows * call("expand_dims", per_sample_weights, 1)
    if is_row is not None:
        counts = cast(is_row, dtype_of(weight))
        rows = where(call("expand_dims", is_row, 1), rows, scalar(0, rows))
    totals = index_add(call("zeros", [bags, dims_of(weight)[1]], dtype_of(weight)), 0, bag, rows)
    if mode == 0:
        return (totals,)
    counts = index_add(call("zeros", [bags], dtype_of(weight)), 0, bag, counts)
    return (totals / call("expand_dims", call("maximum", counts, scalar(1, counts)), 1),)


def _largest(rows: Expr, bag: Expr, bags: Dim, is_row: Expr | None) -> Expr:
    """The largest of each column of bags, the first of equal ones, which has all of the adjoint."""
    count, width = dims_of(rows)
    numbers = call("grad.no_grad", rows)
    lowest = call("full", [bags, width], cast(-math.inf, dtype_of(rows)), dtype_of(rows))
    counts = is_row if is_row is not None else call("ones", [count], "bool")
    counts = call("broadcast_to", call("expand_dims", counts, 1), [count, width])
    numbers = where(counts, numbers, cast(-math.inf, dtype_of(rows)))
    largest = index_reduce(lowest, 0, bag, numbers, "amax")
    is_largest = call("logical_and", call("equal", numbers, call("take", largest, bag, 0)), counts)
    place = call("expand_dims", call("arange", 0, count, 1, "int64"), 1)
    none = number(count, place)
    places: Expr = call("full", [bags, width], none, "int64")
    places = index_reduce(places, 0, bag, where(is_largest, place, none), "amin")
    is_found = places < none
    found = call("gather_elements", rows, where(is_found, places, scalar(0, place)), 0)
    other = where(call("isnan", largest), largest, scalar(0, largest))  # of no row, or of NaN
    return where(is_found, found, other)


@aten("_embedding_bag.default")
def embedding_bag_spelt_out(
    weight: Expr, indices: Expr, offsets: Expr, *, padding_idx: int = -1, **options: Any
) -> tuple[Expr]:
    """As `run_decompositions` has it, which says -1 where no row is left out."""
    left_out = None if padding_idx < 0 else padding_idx
    return embedding_bag(weight, indices, offsets, **options, padding_idx=left_out)


def _from_front(place: int, weight: Expr) -> int:
    rows: Dim = dims_of(weight)[0]
    if place >= 0:
        return place
    if not isinstance(rows, int):
        raise ValueError("a row counted from behind, of a table whose length is not known")
    return place + rows
