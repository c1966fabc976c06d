"""Random numbers, which training draws; a prediction has the mean of their distribution."""

from collections.abc import Sequence
from typing import Any

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, scalar, where

from .creation import declare_made, filled
from .norms import dropped
from .pairs import fixed
from .promotion import cast, default_dtype, promoted
from .shapes import broadcast_sizes
from .table import aten


def drawn(sizes: Sequence[Dim], distribution: str, dtype: str) -> Expr:
    return call("nn.noise", ShapeExpr(tuple(sizes)), distribution, dtype)


declare_made("rand", lambda size, dtype: drawn(size, "uniform", dtype))
declare_made("randn", lambda size, dtype: drawn(size, "normal", dtype))


@aten("normal.Tensor_Tensor", "normal.Tensor_float", "normal.float_Tensor")
def normal(mean: Any, std: Any = 1.0, generator: Any = None) -> Expr:
    """PyTorch has no gradient by the mean and the deviation either."""
    given = [one for one in (mean, std) if isinstance(one, Expr)]
    center, width = map(fixed, promoted(mean, std))
    return center + width * drawn(broadcast_sizes(*given), "normal", dtype_of(center))


@aten("normal.float_float")
def normal_of_size(
    mean: float, std: float, size: Sequence[Dim], dtype: str | None = None, **_: Any
) -> Expr:
    return _moved(drawn(size, "normal", dtype or default_dtype()), mean, std)


@aten("normal.default", "normal_functional.default")
def normal_in_place(self: Expr, mean: float = 0, std: float = 1, generator: Any = None) -> Expr:
    return _moved(drawn(dims_of(self), "normal", dtype_of(self)), mean, std)


def _uniform(self: Expr, **bounds: Any) -> Expr:
    """Between two bounds, of which torch calls the first one `from`."""
    low, high = bounds.get("from", 0), bounds.get("to", 1)
    return _moved(drawn(dims_of(self), "uniform", dtype_of(self)), low, high - low)


aten("uniform.default")(_uniform)


@aten("exponential.default")
def exponential(self: Expr, lambd: float = 1.0, generator: Any = None) -> Expr:
    found = drawn(dims_of(self), "exponential", dtype_of(self))
    return found if lambd == 1 else found / scalar(lambd, found)


def _moved(noise: Expr, center: float, width: float) -> Expr:
    wide = noise if width == 1 else noise * scalar(width, noise)
    return wide if center == 0 else wide + cast(center, dtype_of(noise))


@aten("rrelu.default")
def rrelu(
    self: Expr,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Expr:
    """A slope below 0 that is drawn for each element, or the mean of the slopes."""
    slope: Expr = scalar((lower + upper) / 2, self)
    if training:
        slope = _moved(drawn(dims_of(self), "uniform", dtype_of(self)), lower, upper - lower)
    return where(self > scalar(0, self), self, self * slope)


# The value that SELU tends to, which takes the place of what is dropped.
_SELU_LOWEST = -1.7580993408473766


def _alpha_dropped(x: Expr, p: float, train: bool, sizes: Sequence[Dim]) -> Expr:
    """Dropout to a value other than 0, which keeps the mean and the variance of what SELU gives.

    A mask of dropout is 1 where nothing is drawn, and where it is, either 0 or more than 1.
    """
    if not train or p == 0:
        return x
    if p == 1:
        return x * scalar(0, x)
    scale = ((_SELU_LOWEST**2 * p + 1) * (1 - p)) ** -0.5
    shift = -scale * _SELU_LOWEST * p
    drawn_at = dropped(filled(sizes, 1, dtype_of(x)), p, True)
    one, zero = scalar(1, x), scalar(0, x)
    kept = x * scalar(scale, x) + scalar(shift, x)
    lost = scalar(scale * _SELU_LOWEST + shift, x)
    found = where(drawn_at > zero, kept, lost)
    return where(call("equal", drawn_at, one), x, found)


@aten("alpha_dropout.default")
def alpha_dropout(input: Expr, p: float, train: bool) -> Expr:
    return _alpha_dropped(input, p, train, dims_of(input))


@aten("feature_alpha_dropout.default")
def feature_alpha_dropout(input: Expr, p: float, train: bool) -> Expr:
    """The same for all elements of a channel."""
    ones = [1] * (ndim_of(input) - 2)
    return _alpha_dropped(input, p, train, [*dims_of(input)[:2], *ones])
