"""Windows of `lax.*` as pooling of `relax.*`, along whichever axes they slide."""

import math
from typing import Any

from relaxjax.ir.expr import Call, Expr, const
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import known_dims, known_dtype, known_ndim
from relaxjax.ops.nn.layouts import SPATIAL

from .reading import Reading, View, of_one_float, raises


@raises("lax.reduce_window_max")
def max_pooling(call: Call, reading: Reading) -> Expr | None:
    """The largest element of each window along up to three axes."""
    window = _window(call)
    if window is None:
        return None
    return get_op(f"relax.nn.max_pool{known_ndim(call) - 2}d")(call.args[0], **window)


@raises("lax.div")
def mean_pooling(call: Call, reading: Reading) -> Expr | None:
    """The sum of each window, divided by how many places it has."""
    divided = reading.with_number(View.whole(call), "div")
    summed = None if divided is None else reading.call(divided[0].expr, "reduce_window_sum")
    window = None if summed is None else _window(summed)
    if divided is None or summed is None or window is None:
        return None
    return _mean(summed, window) if divided[1] == math.prod(window["pool_size"]) else None


@raises("lax.reduce_window_sum")
def sum_pooling(call: Call, reading: Reading) -> Expr | None:
    """The sum of each window: its mean, as often as it has places."""
    window = _window(call)
    if window is None:
        return None
    return _mean(call, window) * const(math.prod(window["pool_size"]), known_dtype(call))


def _mean(summed: Call, window: dict[str, Any]) -> Expr:
    mean = get_op(f"relax.nn.avg_pool{known_ndim(summed) - 2}d")
    return mean(summed.args[0], **window, count_include_pad=True)


def _window(call: Call) -> dict[str, Any] | None:
    """A window as `relax` has it: two axes it does not slide along are images and channels."""
    attrs, ndim = call.attrs, known_ndim(call)
    if ndim - 2 not in SPATIAL or not of_one_float(call) or set(attrs["base_dilation"]) != {1}:
        return None
    if 0 in (known_dims(call) or ()):  # no window fits
        return None
    whole = [
        size == stride == step == 1 and low == high == 0
        for size, stride, step, (low, high) in zip(
            attrs["window_dimensions"],
            attrs["window_strides"],
            attrs["window_dilation"],
            attrs["padding"],
            strict=True,
        )
    ]
    others = [axis for axis in range(ndim) if whole[axis]]
    pads = [pad for pair in attrs["padding"] for pad in pair]
    lengths = (*attrs["window_dimensions"], *attrs["window_strides"], *pads)
    if len(others) < 2 or not all(isinstance(n, int) for n in lengths) or min(pads) < 0:
        return None
    first, last = others[0], others[-1]
    axes = [axis for axis in range(ndim) if axis not in (first, last)]
    letters = {first: "N", last: "C", **dict(zip(axes, SPATIAL[ndim - 2], strict=True))}
    sides = [attrs["padding"][axis] for axis in axes]
    return {
        "pool_size": [attrs["window_dimensions"][axis] for axis in axes],
        "strides": [attrs["window_strides"][axis] for axis in axes],
        "padding": [*(low for low, _ in sides), *(high for _, high in sides)],
        "dilation": [attrs["window_dilation"][axis] for axis in axes],
        "layout": "".join(letters[axis] for axis in range(ndim)),
    }
