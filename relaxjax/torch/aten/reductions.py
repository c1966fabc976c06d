"""Operators that make one element of many: sums, extremes, softmax, order."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ir.op import get_op
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, number, scalar, where

from .complex_numbers import is_complex
from .magnitudes import magnitude, powers, root, squared
from .promotion import cast, floating, is_floating, kind_of, promoted
from .shapes import broadcast_tensors, on_rows, place_of, row, shaped
from .spectra import conj
from .table import aten

Axes = Sequence[int] | int | None


def axes_of(x: Expr, dim: Axes) -> list[int]:
    """Axes from the front; none, or an empty list, are all of them."""
    ndim = ndim_of(x)
    if dim is None or dim == []:
        return list(range(ndim))
    return [place_of(one, ndim) for one in ([dim] if isinstance(dim, int) else dim)]


def reduced(operator: str, x: Expr, dim: Axes, keepdim: bool) -> Expr:
    """A reduction by Relax's operator; of a scalar over its one axis, itself."""
    return call(operator, x, axes_of(x, dim) if ndim_of(x) else None, keepdim)


def sum_dtype(x: Expr, dtype: str | None) -> Expr:
    found = dtype_of(x)
    return cast(x, dtype or (found if kind_of(found) >= 2 else "int64"))


@aten("sum.default", "sum.dim_IntList")
def sum_default(
    self: Expr, dim: Axes = None, keepdim: bool = False, dtype: str | None = None
) -> Expr:
    return reduced("sum", sum_dtype(self, dtype), dim, keepdim)


def _known(x: Expr) -> Expr:
    return call("logical_not", call("isnan", x))


@aten("nansum.default")
def nansum(self: Expr, dim: Axes = None, keepdim: bool = False, dtype: str | None = None) -> Expr:
    """The sum of all that is not NaN."""
    x = where(_known(self), self, scalar(0, self)) if is_floating(dtype_of(self)) else self
    return sum_default(x, dim, keepdim, dtype)


@aten("nanmean.default")
def nanmean(self: Expr, dim: Axes = None, keepdim: bool = False, dtype: str | None = None) -> Expr:
    """The mean of all that is not NaN."""
    count = reduced("sum", cast(_known(self), dtype or dtype_of(self)), dim, keepdim)
    return nansum(self, dim, keepdim, dtype) / count


@aten("mean.default", "mean.dim")
def mean(self: Expr, dim: Axes = None, keepdim: bool = False, dtype: str | None = None) -> Expr:
    return reduced("mean", self if dtype is None else cast(self, dtype), dim, keepdim)


@aten("prod.default", "prod.dim_int")
def prod(self: Expr, dim: Axes = None, keepdim: bool = False, dtype: str | None = None) -> Expr:
    return reduced("prod", sum_dtype(self, dtype), dim, keepdim)


def extreme(operator: str) -> Callable[..., tuple[Expr, Expr]]:
    """The first extreme element and its place; the whole gradient goes to that place."""

    def rule(self: Expr, dim: int, keepdim: bool = False) -> tuple[Expr, Expr]:
        place = place_of(dim, ndim_of(self))
        if not ndim_of(self):
            return self, call("zeros", ShapeExpr(()), "int64")
        places = cast(call(operator, self, place, True), "int64")
        values = call("gather_elements", self, places, place)
        if keepdim:
            return values, places
        return call("squeeze", values, [place]), call("squeeze", places, [place])

    return rule


aten("max.dim")(extreme("argmax"))
aten("min.dim")(extreme("argmin"))


def _place(operator: str) -> Callable[..., Expr]:
    @on_rows
    def rule(self: Expr, dim: int | None = None, keepdim: bool = False) -> Expr:
        place = None if dim is None else place_of(dim, ndim_of(self))
        return cast(call(operator, self, place, keepdim), "int64")

    return rule


aten("argmax.default")(_place("argmax"))
aten("argmin.default")(_place("argmin"))


def _truths(operator: str) -> Callable[..., Expr]:
    def rule(self: Expr, dim: Axes = None, keepdim: bool = False) -> Expr:
        found = cast(cast(self, "bool"), "int32")
        return cast(reduced(operator, found, dim, keepdim), "bool")

    return rule


for _overload in ("default", "dim", "dims"):
    aten(f"any.{_overload}")(_truths("max"))
    aten(f"all.{_overload}")(_truths("min"))
aten("_is_all_true.default")(_truths("min"))
aten("_is_any_true.default")(_truths("max"))


@aten("count_nonzero.default", "count_nonzero.dim_IntList")
def count_nonzero(self: Expr, dim: Axes = None) -> Expr:
    return reduced("sum", cast(cast(self, "bool"), "int64"), dim, False)


def _count(x: Expr, dim: Axes) -> Dim:
    total: Dim = 1
    for place in axes_of(x, dim) if ndim_of(x) else ():
        total = total * dims_of(x)[place]
    return total


def _variance(x: Expr, dim: Axes, correction: float | None, keepdim: bool) -> Expr:
    """The variance over n - correction instead of n, and over 0 where that is below."""
    if is_complex(x):
        parts = (get_op(f"lax.{part}")(x) for part in ("real", "imag"))
        real, imag = (_variance(part, dim, correction, keepdim) for part in parts)
        return real + imag
    biased = reduced("variance", x, dim, keepdim)
    less = 1 if correction is None else correction
    if less == 0:
        return biased
    count = _count(x, dim)
    if isinstance(count, int):
        return biased * scalar(count / (count - less) if count > less else float("inf"), x)
    whole = number(count, x)
    return biased * (whole / (whole - scalar(less, x)))


def _spread(has_root: bool, has_mean: bool) -> Callable[..., Any]:
    """The variance, or the deviation, which is its root; alone, or with the mean behind it."""

    def rule(
        self: Expr,
        dim: Axes = None,
        unbiased: bool = True,
        correction: float | None = None,
        keepdim: bool = False,
    ) -> Any:
        found = _variance(self, dim, correction if unbiased else 0, keepdim)
        found = root(found, 2) if has_root else found
        return (found, mean(self, dim, keepdim)) if has_mean else found

    return rule


for _overload in ("correction", "dim", "default"):
    aten(f"var.{_overload}")(_spread(False, False))
    aten(f"std.{_overload}")(_spread(True, False))
    aten(f"var_mean.{_overload}")(_spread(False, True))
    aten(f"std_mean.{_overload}")(_spread(True, True))


@aten("aminmax.default")
def aminmax(self: Expr, dim: int | None = None, keepdim: bool = False) -> tuple[Expr, Expr]:
    return reduced("min", self, dim, keepdim), reduced("max", self, dim, keepdim)


@aten("logsumexp.default")
def logsumexp(self: Expr, dim: Axes, keepdim: bool = False) -> Expr:
    return reduced("logsumexp", floating(self), dim, keepdim)


@aten("linalg_vector_norm.default")
def vector_norm(
    self: Expr, ord: Any = 2, dim: Axes = None, keepdim: bool = False, dtype: str | None = None
) -> Expr:  # torch's names
    x = self if dtype is None else cast(self, dtype)
    if ord == 2:
        return root(reduced("sum", squared(x), dim, keepdim), 2)
    if is_complex(x):
        x = magnitude(x)
    match ord:
        case 1:
            return reduced("sum", magnitude(x), dim, keepdim)
        case 0:
            return reduced("sum", cast(cast(x, "bool"), dtype_of(x)), dim, keepdim)
    if ord == float("inf"):
        return reduced("max", magnitude(x), dim, keepdim)
    if ord == float("-inf"):
        return reduced("min", magnitude(x), dim, keepdim)
    if ord > 0:
        return root(reduced("sum", powers(x, ord), dim, keepdim), ord)
    return _norm_below_zero(x, ord, dim, keepdim)


def _norm_below_zero(x: Expr, power: float, dim: Axes, keepdim: bool) -> Expr:
    """0, without a slope, where one of the elements is 0."""
    is_zero = cast(call("equal", x, scalar(0, x)), "int32")
    has_zero = cast(reduced("max", is_zero, dim, True), "bool")
    sizes = call("power", call("abs", where(has_zero, scalar(1, x), x)), scalar(power, x))
    found = call("power", reduced("sum", sizes, dim, keepdim), scalar(1 / power, x))
    has_zero = has_zero if keepdim else cast(reduced("max", is_zero, dim, False), "bool")
    return where(has_zero, scalar(0, x), found)


@aten("cosine_similarity.default")
def cosine_similarity(x1: Expr, x2: Expr, dim: int = 1, eps: float = 1e-08) -> Expr:
    """The axis is one of what both broadcast to, and lengths are those of what is repeated."""
    ndim = max(ndim_of(x1), ndim_of(x2))
    if not ndim:
        return shaped(cosine_similarity(row(x1), row(x2), 0, eps), [])
    dim = place_of(dim, ndim) - ndim
    lengths = [dims_of(x)[dim] if ndim_of(x) >= -dim else None for x in (x1, x2)]
    units = []
    for x in promoted(*([x1, x2] if lengths[0] == lengths[1] else broadcast_tensors([x1, x2]))):
        length = vector_norm(x, 2, dim, True)
        least = scalar(eps, x)
        units.append(x / where(length < least, least, length))
    return reduced("sum", units[0] * units[1], dim, False)


@aten("norm.ScalarOpt_dim", "norm.Scalar", "norm.ScalarOpt_dim_dtype")
def norm(
    self: Expr, p: Any = 2, dim: Axes = None, keepdim: bool = False, dtype: str | None = None
) -> Expr:
    return vector_norm(self, 2 if p is None else p, dim, keepdim, dtype)


def _along(operator: str) -> Callable[..., Expr]:
    @on_rows
    def rule(self: Expr, dim: int, dtype: str | None = None) -> Expr:
        x = self if dtype is None else cast(self, dtype)
        return call(operator, floating(x), place_of(dim, ndim_of(x)))

    return rule


def _along_half(operator: str) -> Callable[..., Expr]:
    @on_rows
    def rule(self: Expr, dim: int, half_to_float: bool = False) -> Expr:
        x = cast(self, "float32") if half_to_float else self
        return call(operator, x, place_of(dim, ndim_of(x)))

    return rule


for _name in ("softmax", "log_softmax"):
    aten(f"{_name}.int")(_along(f"nn.{_name}"))
    aten(f"_{_name}.default")(_along_half(f"nn.{_name}"))


@aten("_safe_softmax.default")
@on_rows
def safe_softmax(self: Expr, dim: int, dtype: str | None = None) -> Expr:
    """A softmax that is 0 in rows of minus infinities."""
    place = place_of(dim, ndim_of(self))
    is_out = call("equal", self, scalar(-math.inf, self))
    nothing = cast(reduced("min", cast(is_out, "int32"), [place], True), "bool")
    x = where(nothing, scalar(0, self), self)
    found = call("nn.softmax", x if dtype is None else cast(x, dtype), place)
    return where(nothing, scalar(0, found), found)


@aten("cumsum.default")
@on_rows
def cumsum(self: Expr, dim: int, dtype: str | None = None) -> Expr:
    return call("cumsum", sum_dtype(self, dtype), place_of(dim, ndim_of(self)))


@aten("cumprod.default")
@on_rows
def cumprod(self: Expr, dim: int, dtype: str | None = None) -> Expr:
    return call("cumprod", sum_dtype(self, dtype), place_of(dim, ndim_of(self)))


@aten("topk.default")
@on_rows
def topk(
    self: Expr, k: Dim, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Expr, Expr]:
    """A NaN is above all numbers, also one with a sign, which is below them for XLA."""
    place = place_of(dim, ndim_of(self))
    x = where(_known(self), self, scalar(math.nan, self)) if is_floating(dtype_of(self)) else self
    places = call("topk", x, k, place, "indices", largest, "int64")
    return call("gather_elements", self, places, place), places


@aten("sort.default", "sort.stable")
@on_rows
def sort(
    self: Expr, dim: int = -1, descending: bool = False, stable: bool = False
) -> tuple[Expr, Expr]:
    place = place_of(dim, ndim_of(self))
    places = call("argsort", self, place, descending, "int64")
    return call("gather_elements", self, places, place), places


@aten("argsort.default", "argsort.stable")
@on_rows
def argsort(self: Expr, dim: int = -1, descending: bool = False, stable: bool = False) -> Expr:
    return call("argsort", self, place_of(dim, ndim_of(self)), descending, "int64")


@aten("trace.default")
def trace(self: Expr) -> Expr:
    rows, columns = dims_of(self)
    diagonal = call("eye", rows, columns, 0, "bool")
    return call("sum", where(diagonal, self, scalar(0, self)))


aten("amax.default")(lambda self, dim=None, keepdim=False: reduced("max", self, dim, keepdim))
aten("amin.default")(lambda self, dim=None, keepdim=False: reduced("min", self, dim, keepdim))
aten("max.default")(lambda self: reduced("max", self, None, False))
aten("min.default")(lambda self: reduced("min", self, None, False))
aten("dot.default")(lambda self, tensor: call("sum", self * tensor))
aten("vdot.default")(lambda self, other: call("sum", conj(self) * other))
