"""Pooling in one to three dimensions: the largest element, or the mean, of each window.

On a CPU forward and backward go over the places of the window, not of the tensor. XLA's own window
reduction is slower there, and its adjoint much slower; only for windows of many places it is the
shorter program. `benchmarks/operators.py` compares them.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import core, lax

from relaxjax.ir.dims import Dim, floordiv
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import GradientRule, Op
from relaxjax.ir.types import TensorType
from relaxjax.ops.arrays import widened
from relaxjax.ops.conversions import Ints
from relaxjax.ops.cost_rules import counting, elements
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.emit import call
from relaxjax.ops.lettered_layouts import lettered
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.once import computed_once
from relaxjax.ops.platform import by_platform
from relaxjax.ops.scaling import pooled
from relaxjax.ops.shapes import element_count, require_adjoint
from relaxjax.ops.traced import differentiated_as, traced_gradient

from .layouts import (
    SPATIAL,
    both_sides,
    by_letter,
    check_layout,
    in_layout,
    pad_pairs,
    per_axis,
    permutation,
    require_positive,
    require_rank,
    spatial_axes,
    window_span,
)
from .windows import Windows


def complete_pooling(
    pool_size: Any, strides: Any, padding: Any, dilation: Any, layout: str, **rest: Any
) -> Mapping[str, Any]:
    """One value for each spatial axis where one stood for all, and the layout of the result."""
    count, out_layout = spatial_axes("layout", layout), rest["out_layout"] or layout
    check_layout("layout", layout, f"NC{SPATIAL[count]}")
    check_layout("out_layout", out_layout, f"NC{SPATIAL[count]}")
    full = {
        "pool_size": per_axis("pool_size", pool_size, count),
        "strides": per_axis("strides", strides, count),
        "dilation": per_axis("dilation", dilation, count),
    }
    require_positive(**full)
    return {**full, "padding": both_sides(padding, count), "out_layout": out_layout}


def _end_room(length: Any, span: Any, stride: Any, low: Any, high: Any, ceil_mode: bool) -> Any:
    """What is left behind the first window; in ceil_mode so much more that a last one begins there.

    But none begins behind the elements, as padded in front: of `stride` places where it might, so
    many are too `late`.
    """
    room = length + low + high - span
    late = min(max(high - span + stride, 0), stride)
    return room + stride - 1 - late if ceil_mode else room


def _pooled_type(
    data: TensorType,
    pool_size: Sequence[Dim],
    strides: Sequence[Dim],
    padding: Sequence[Dim],
    dilation: Sequence[Dim],
    ceil_mode: bool,
    layout: str,
    out_layout: str | None,
) -> TensorType:
    target = out_layout or layout
    require_rank("data", data, layout)
    if data.dims is None:
        return TensorType(None, data.dtype, len(target), data.vdevice)
    image = by_letter(data.dims, layout)
    for axis, (letter, pads) in enumerate(
        zip(SPATIAL[len(strides)], pad_pairs(padding), strict=True)
    ):
        span = window_span(pool_size[axis], dilation[axis])
        room = _end_room(image[letter], span, strides[axis], *pads, ceil_mode)
        if isinstance(room, int) and room < 0:
            raise OpError(
                f"the window does not fit into `data` along {letter}: it reaches over {span} "
                f"elements of {image[letter]}, padded by {pads[0]} and {pads[1]}"
            )
        image[letter] = floordiv(room, strides[axis]) + 1
    return TensorType(in_layout(image, target), data.dtype, vdevice=data.vdevice)


def _windows(
    shape: Sequence[Any],
    layout: str,
    pool_size: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: Any,
    sliced: bool,
) -> Windows:
    axes = tuple(layout.index(letter) for letter in SPATIAL[len(strides)])
    counts, pads = [], []
    for axis, (low, high) in enumerate(pad_pairs(padding)):
        span, stride, length = (
            window_span(pool_size[axis], dilation[axis]),
            strides[axis],
            shape[axes[axis]],
        )
        room = _end_room(length, span, stride, low, high, ceil_mode)
        counts.append(room // stride + 1)
        end = (counts[-1] - 1) * stride + span - length - low if ceil_mode else high
        # Behind the last window there may be elements that none reads, where strides are longer.
        pads.append((low, core.max_dim(end, 0) if stride > span else end))
    return Windows(axes, pool_size, strides, tuple(pads), dilation, tuple(counts), sliced)


def _arranged(x: Any, source: str, target: str) -> Any:
    return x if source == target else jnp.transpose(x, permutation(source, target))


def _lowest(dtype: Any) -> Any:
    """What is below every number of a dtype: the padding for a maximum."""
    if jnp.issubdtype(dtype, jnp.floating):
        return -np.inf
    return False if dtype.kind == "b" else jnp.iinfo(dtype).min  # type: ignore[no-untyped-call]  # JAX has no types for it


def _largest(x: Any, windows: Windows) -> Any:
    return windows.reduced(x, _lowest(x.dtype), jnp.maximum, lax.max)


def _max_pool(
    data: Any, layout: str, out_layout: str, count_include_pad: bool, **window: Any
) -> Any:
    largest = _largest(data, _windows(data.shape, layout, **window))
    return _arranged(largest, layout, out_layout)


def _max_pool_backward(
    output_grad: Any,
    data: Any,
    layout: str,
    out_layout: str,
    count_include_pad: bool,
    **window: Any,
) -> Any:
    """The adjoint of a window goes to the first of its places that has the largest element.

    JAX has no derivative of XLA's windows where their places lie apart. Elsewhere that of their
    adjoint rounds float64 to half of its bits, but on a CPU.
    """
    g = _arranged(output_grad, out_layout, layout)
    windows = _windows(data.shape, layout, **window)
    by_places = functools.partial(_to_places, windows)
    if not windows.left_to_xla or set(windows.dilation) != {1}:
        return by_places(g, data)

    def by_xla(g: Any, data: Any) -> Any:
        return jax.vjp(lambda x: _largest(x, windows), data)[1](g)[0]

    if not windows.are_counted:
        return by_xla(g, data)
    return differentiated_as(by_places, by_xla)(g, data)


def _to_places(windows: Windows, g: Any, data: Any) -> Any:
    """The adjoints of windows at their places with the largest element.

    Many are taken axis by axis: the first place is in the first row of which the largest element is
    the window's.
    """
    windows = replace(windows, sliced=True)
    stages, values = [windows], [data]
    if windows.has_many_places:
        stages = windows.by_axis()[::-1]
        for stage in stages[:-1]:
            values.append(_largest(values[-1], stage))
    for stage, value in zip(stages[::-1], values[::-1], strict=True):
        g = _to_the_largest(g, value, stage)
    return g


def _to_the_largest(g: Any, data: Any, windows: Windows) -> Any:
    """The adjoints at their places, one of the window after the other.

    These are computed once: each of them is asked in turn whether it is the one.
    """
    padded = windows.padded(data, _lowest(data.dtype))
    numbers = computed_once(_first_largest(padded, windows))
    first = windows.spread(numbers, np.iinfo(numbers.dtype).max)
    spread, total = windows.spread(g, 0), jnp.zeros_like(padded)
    for number, place in enumerate(windows.places()):
        part = jnp.where(first == number, spread, jnp.zeros_like(spread))
        total = total + windows.moved(part, place, padded.shape)
    return windows.unpadded(total)


def _first_largest(padded: Any, windows: Windows) -> Any:
    """The number of the first place in each window that has its largest element."""
    start, *others = windows.places()
    largest = windows.at(padded, start)
    dtype = jnp.uint8 if len(others) < np.iinfo(np.uint8).max else jnp.uint32
    number = jnp.zeros(largest.shape, dtype)
    for index, place in enumerate(others, 1):
        part = windows.at(padded, place)
        larger = part > largest
        largest = jnp.where(larger, part, largest)
        number = jnp.where(larger, dtype(index), number)
    return number


def _window_sum(x: Any, windows: Windows) -> Any:
    return windows.reduced(x, 0, jnp.add, lax.add)


def _shares(shape: Sequence[Any], windows: Windows, count_include_pad: bool, dtype: Any) -> Any:
    """What each window divides its sum by: all its places, or those inside the tensor."""
    if count_include_pad:
        return jnp.asarray(math.prod(windows.size), dtype)
    lengths = windows.along(len(shape), [shape[axis] for axis in windows.axes], 1)
    inside = _window_sum(jnp.ones(lengths, dtype), windows)
    return jnp.maximum(inside, jnp.ones((), dtype))


def _avg_pool(
    data: Any, layout: str, out_layout: str, count_include_pad: bool, **window: Any
) -> Any:
    x, windows = widened(data), _windows(data.shape, layout, **window)
    mean = _window_sum(x, windows) / _shares(x.shape, windows, count_include_pad, x.dtype)
    return _arranged(mean, layout, out_layout).astype(data.dtype)


def _avg_pool_backward(
    output_grad: Any,
    data: Any,
    layout: str,
    out_layout: str,
    count_include_pad: bool,
    **window: Any,
) -> Any:
    """The adjoint of a window, divided, goes to each of its places."""
    g = widened(_arranged(output_grad, out_layout, layout))
    windows = _windows(data.shape, layout, **window)
    g = g / _shares(data.shape, windows, count_include_pad, g.dtype)
    if windows.left_to_xla:
        like = jax.ShapeDtypeStruct(data.shape, g.dtype)
        (adjoint,) = jax.linear_transpose(lambda x: _window_sum(x, windows), like)(g)
        return adjoint.astype(data.dtype)
    shape, spread = windows.padded_shape(data.shape), windows.spread(g, 0)
    parts = (windows.moved(spread, place, shape) for place in windows.places())
    return windows.unpadded(functools.reduce(jnp.add, parts)).astype(data.dtype)


def _on_each_platform(lower: Callable[..., Any]) -> Callable[..., Any]:
    """A lowering that takes slices on a CPU, and leaves windows to XLA elsewhere."""
    return by_platform(
        functools.partial(lower, sliced=False), cpu=functools.partial(lower, sliced=True)
    )


def _pooled(call: Call) -> Dim:
    """An operation for each element of each window."""
    return elements(call.ty) * element_count(call.attrs["pool_size"])


def pooling(kind: str, count: int, include_pad: bool, doc: str, lower: Callable[..., Any]) -> Op:
    """The pooling of a kind over `count` spatial axes."""
    backward = f"grad.{kind}_pool{count}d_backward"

    def infer(
        data: TensorType,
        pool_size: Ints = (1,) * count,
        strides: Ints = (1,) * count,
        padding: Ints = (0,) * count,
        dilation: Ints = (1,) * count,
        ceil_mode: bool = False,
        count_include_pad: bool = include_pad,
        layout: str = f"NC{SPATIAL[count]}",
        out_layout: str | None = None,
    ) -> TensorType:
        window = (pool_size, strides, padding, dilation, ceil_mode)
        return _pooled_type(data, *window, layout, out_layout)

    def gradient(g: Expr, y: Expr, data: Expr, **attrs: Any) -> Expr:
        return call(backward, g, data, **attrs)

    infer.__doc__ = doc
    return op(
        f"relax.nn.{kind}_pool{count}d",
        layout=lettered(),
        scaling=pooled(nonnegative=kind == "max"),
        complete=complete_pooling,
        lower=_on_each_platform(lower),
        gradient=gradient,
        precision="follow",
        fusion="reduction",
        facts={"chooses": True} if kind == "max" else {},
        cost=counting(_pooled),
    )(infer)


def pooling_backward(
    kind: str, count: int, lower: Callable[..., Any], gradient: GradientRule
) -> Op:
    """The adjoint of the data of a pooling."""

    def infer(
        output_grad: TensorType,
        data: TensorType,
        pool_size: Ints = (1,) * count,
        strides: Ints = (1,) * count,
        padding: Ints = (0,) * (2 * count),
        dilation: Ints = (1,) * count,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        layout: str = f"NC{SPATIAL[count]}",
        out_layout: str | None = None,
    ) -> TensorType:
        given = (pool_size, strides, padding, dilation, ceil_mode, layout, out_layout)
        require_adjoint(output_grad, _pooled_type(data, *given))
        return data

    infer.__doc__ = f"The adjoint of the data of {kind}_pool{count}d."
    return op(
        f"relax.grad.{kind}_pool{count}d_backward",
        layout=lettered(data=1, like_result=0),
        complete=complete_pooling,
        lower=_on_each_platform(lower),
        gradient=gradient,
        precision="follow",
        cost=LOWERED,
    )(infer)


def _avg_backward_gradient(count: int) -> GradientRule:
    """It is linear in `output_grad`, and the pooling itself is its transpose."""

    def gradient(
        g: Expr, y: Expr, output_grad: Expr, data: Expr, **attrs: Any
    ) -> tuple[Expr, None]:
        return call(f"nn.avg_pool{count}d", g, **attrs), None

    return gradient


def _doc(what: str) -> str:
    return (
        f"{what} of each window of the data.\n\n"
        "With ceil_mode a last window may reach over the end, where it begins before it."
    )


_MAX = (
    _doc("The largest element") + "\nA window of padding alone has minus infinity, or "
    "the lowest integer; TVM gives the lowest finite number."
)
_AVG = _doc("The mean") + " The padding counts with count_include_pad."

max_pool1d, max_pool2d, max_pool3d = (
    pooling("max", count, False, _MAX, _max_pool) for count in (1, 2, 3)
)
# The defaults are TVM's: only avg_pool2d leaves the padding out.
avg_pool1d, avg_pool2d, avg_pool3d = (
    pooling("avg", count, count != 2, _AVG, _avg_pool) for count in (1, 2, 3)
)
max_pool1d_backward, max_pool2d_backward, max_pool3d_backward = (
    pooling_backward(
        "max", count, _max_pool_backward, traced_gradient(f"relax.grad.max_pool{count}d_backward")
    )
    for count in (1, 2, 3)
)
avg_pool1d_backward, avg_pool2d_backward, avg_pool3d_backward = (
    pooling_backward("avg", count, _avg_pool_backward, _avg_backward_gradient(count))
    for count in (1, 2, 3)
)
