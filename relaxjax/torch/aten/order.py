"""Order: medians, quantiles, running extremes. Of equal elements, the places that a sort gives."""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ir.op import get_op
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, number, scalar, where
from relaxjax.ops.shapes import element_count

from .pairs import fixed
from .promotion import cast, is_floating, promoted
from .shapes import expand, on_rows, place_of, shaped
from .table import aten

Pair = tuple[Expr, Expr]


def alone(x: Expr) -> Pair:
    """A scalar as the one element of its row, and its place."""
    return x, call("zeros", ShapeExpr(()), "int64")


def _taken(x: Expr, places: Expr, axis: int, keepdim: bool) -> Pair:
    values = call("gather_elements", x, places, axis)
    if keepdim:
        return values, places
    return call("squeeze", values, [axis]), call("squeeze", places, [axis])


def _isnan(x: Expr) -> Expr:
    return call("isnan", x) if is_floating(dtype_of(x)) else call("not_equal", x, x)


def _stored(x: Expr) -> Expr:
    """What is compared with elements chosen among its own, so that it has their very bits."""
    return call("grad.once", x) if is_floating(dtype_of(x)) else x


def _read(order: Expr, place: Expr, axis: int) -> Expr:
    """What stands at a place of each row, which may be another one in each."""
    sizes = list(dims_of(order))
    sizes[axis] = dims_of(place)[axis]
    return call("gather_elements", order, expand(place, sizes), axis)


def _middle(x: Expr, axis: int, without_nan: bool) -> Expr:
    """The place of the lower one of the middle elements, or of the first NaN if these count."""
    order = call("argsort", x, axis, False, "int64")
    unknown = call("sum", cast(_isnan(x), "int64"), [axis], True)
    length, one = number(dims_of(x)[axis], unknown), scalar(1, unknown)
    known = length - unknown
    if without_nan:
        middle = call("floor_divide", call("maximum", known, one) - one, scalar(2, unknown))
    else:
        middle = call("floor_divide", length - one, scalar(2, unknown))
        middle = where(unknown > scalar(0, unknown), known, middle)
    return _read(order, middle, axis)


def _median_of_all(without_nan: bool) -> Callable[..., Expr]:
    def rule(self: Expr) -> Expr:
        """The elements that are equal to the median have equal shares of its adjoint."""
        x = _stored(shaped(self, [element_count(dims_of(self))]))
        found = call("gather_elements", x, _middle(x, 0, without_nan), 0)
        if not is_floating(dtype_of(x)):
            return call("squeeze", found, [0])
        found = call("grad.no_grad", found)
        is_nan = call("isnan", found)
        alike, nans = call("equal", x, found), call("isnan", x)
        shares = where(nans, x, scalar(0, x))
        unknown = call("sum", shares) / call("sum", cast(nans, dtype_of(x)))
        known = call("max", where(alike, x, scalar(-inf, x)))
        return where(call("squeeze", is_nan, [0]), unknown, known)

    return rule


def _median_of_rows(without_nan: bool) -> Callable[..., Pair]:
    def rule(self: Expr, dim: int, keepdim: bool = False) -> Pair:
        if not ndim_of(self):
            return alone(self)
        axis = place_of(dim, ndim_of(self))
        return _taken(self, _middle(self, axis, without_nan), axis, keepdim)

    return rule


for _name, _without_nan in (("median", False), ("nanmedian", True)):
    aten(f"{_name}.default")(_median_of_all(_without_nan))
    aten(f"{_name}.dim")(_median_of_rows(_without_nan))


@aten("kthvalue.default")
def kthvalue(self: Expr, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
    """The k-th smallest element, and where it stands."""
    if not ndim_of(self):
        return alone(self)
    axis = place_of(dim, ndim_of(self))
    order = call("argsort", self, axis, False, "int64")
    places = call("strided_slice", order, [axis], [k - 1], [k], [1])
    return _taken(self, places, axis, keepdim)


def _quantile(without_nan: bool) -> Callable[..., Expr]:
    def rule(
        self: Expr,
        q: Any,
        dim: int | None = None,
        keepdim: bool = False,
        interpolation: str = "linear",
    ) -> Expr:
        """What stands at the share `q` of the sorted elements, or between two of them."""
        axis = 0 if dim is None else place_of(dim, ndim_of(self))
        x = (
            shaped(self, [element_count(dims_of(self))])
            if dim is None or not ndim_of(self)
            else self
        )
        share = cast(q, dtype_of(x))
        is_one = not ndim_of(share)
        last = ndim_of(x) - 1
        rows = call("permute_dims", x, [*(i for i in range(last + 1) if i != axis), axis])
        found = _between(rows, shaped(share, [-1]), without_nan, interpolation)
        kept: Sequence[Dim] = dims_of(found)[:-1]
        if keepdim:
            ones = [1] * ndim_of(self) if dim is None else [*kept[:axis], 1, *kept[axis:]]
            kept = ones if ndim_of(self) else []
        if is_one:
            return shaped(found, kept)
        in_front = call("permute_dims", found, [last, *range(last)])
        return shaped(in_front, [dims_of(share)[0], *kept])

    return rule


def _between(rows: Expr, shares: Expr, without_nan: bool, interpolation: str) -> Expr:
    """The quantiles of rows along the last axis."""
    last = ndim_of(rows) - 1
    values = call("gather_elements", rows, call("argsort", rows, last, False, "int64"), last)
    unknown = call("sum", cast(call("isnan", rows), dtype_of(rows)), [last], True)
    one, zero = scalar(1, rows), scalar(0, rows)
    length = number(dims_of(rows)[last], rows)
    if without_nan:
        ranks = call("maximum", shares * (length - unknown - one), zero)
    else:
        ranks = where(unknown > zero, length - one, shares * (length - one))
    rounding = {"lower": "floor", "higher": "ceil", "nearest": "round"}.get(interpolation)
    if rounding is not None:
        return call("gather_elements", values, cast(call(rounding, ranks), "int64"), last)
    below = call("grad.no_grad", call("floor", ranks))
    low = call("gather_elements", values, cast(below, "int64"), last)
    high = call("gather_elements", values, cast(call("ceil", ranks), "int64"), last)
    weight = ranks - below if interpolation == "linear" else scalar(0.5, rows)
    near_low = low + weight * (high - low)
    near_high = high - (high - low) * (one - weight)
    return where(weight < scalar(0.5, rows), near_low, near_high)


for _name, _without_nan in (("quantile", False), ("nanquantile", True)):
    aten(f"{_name}.default", f"{_name}.scalar")(_quantile(_without_nan))


def _running(operator: str) -> Callable[..., Pair]:
    """The extreme element up to each place, and where it stands: the last of equal ones."""

    def rule(self: Expr, dim: int) -> Pair:
        if not ndim_of(self):
            return alone(self)
        axis = place_of(dim, ndim_of(self))
        x = cast(self, "int32") if dtype_of(self) == "bool" else _stored(self)
        still = fixed(x)
        extreme = get_op(operator)(still, axis=axis, reverse=False)
        is_new = call("logical_or", call("equal", still, extreme), _isnan(still))
        sizes = [1] * ndim_of(x)
        sizes[axis] = -1
        place = shaped(call("arange", 0, dims_of(x)[axis], 1, "int64"), sizes)
        new = where(is_new, place, scalar(0, place))
        places = get_op("lax.cummax")(new, axis=axis, reverse=False)
        return call("gather_elements", self, places, axis), places

    return rule


aten("cummax.default")(_running("lax.cummax"))
aten("cummin.default")(_running("lax.cummin"))


@aten("mode.default")
@on_rows
def mode(self: Expr, dim: int = -1, keepdim: bool = False) -> Pair:
    """The least of the elements that are there most often, and where it stands last."""
    axis = place_of(dim, ndim_of(self))
    order = call("argsort", self, axis, False, "int64")
    alike = call("gather_elements", fixed(_stored(self)), order, axis)
    sizes = [1] * ndim_of(self)
    sizes[axis] = -1
    place = shaped(call("arange", 0, dims_of(self)[axis], 1, "int64"), sizes)
    zero, one = scalar(0, place), scalar(1, place)
    before = _read(alike, call("maximum", place - one, zero), axis)
    starts = where(call("not_equal", alike, before), place, zero)
    begun = get_op("lax.cummax")(starts, axis=axis, reverse=False)
    best = cast(call("argmax", place - begun, axis, True), "int64")
    return _taken(self, _read(order, best, axis), axis, keepdim)


@aten("logcumsumexp.default")
def logcumsumexp(self: Expr, dim: int) -> Expr:
    """What is infinite has no slope: JAX's own would be wrong for all elements before it."""
    if not ndim_of(self):
        return self
    axis, infinity = place_of(dim, ndim_of(self)), scalar(inf, self)
    is_infinite = call("equal", self, infinity)
    found = get_op("lax.cumlogsumexp")(
        where(is_infinite, scalar(0, self), self), axis=axis, reverse=False
    )
    after = get_op("lax.cummax")(cast(is_infinite, "int32"), axis=axis, reverse=False)
    return where(cast(after, "bool"), infinity, found)


@aten("msort.default")
def msort(self: Expr) -> Expr:
    if not ndim_of(self):
        return self
    return call("gather_elements", self, call("argsort", self, 0, False, "int64"), 0)


@aten("isin.Tensor_Tensor", "isin.Tensor_Scalar", "isin.Scalar_Tensor")
def isin(
    elements: Any = None,
    test_elements: Any = None,
    assume_unique: bool = False,
    invert: bool = False,
    element: Any = None,
    test_element: Any = None,
) -> Expr:
    """Whether each element is one of others."""
    x = elements if element is None else element
    others = test_elements if test_element is None else test_element
    x, others = promoted(x, others)
    apart = call("expand_dims", x, ndim_of(x))
    same = cast(call("equal", apart, shaped(others, [element_count(dims_of(others))])), "int32")
    found = cast(call("max", same, [ndim_of(x)]), "bool")
    return call("logical_not", found) if invert else found
