"""What convolutions, pooling and padding compute, in numpy, one window after another."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def _each(value: Any, count: int) -> list[int]:
    """A number for each spatial axis, one for all of them where one is given."""
    numbers = [value] if isinstance(value, int) else list(value)
    return numbers * count if len(numbers) == 1 else numbers


def _sides(padding: Any, count: int) -> list[int]:
    """What is put before each spatial axis, then what is put behind each."""
    pads = _each(padding, count)
    return pads if len(pads) == 2 * count else pads * 2


def windows(x: Any, size: Any, strides: Any, pads: Any, dilation: Any, ceil: bool) -> Any:
    """Each window of the last axes of `x`, and which of its places lie inside of `x`."""
    n = len(size)
    outer, lengths = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, size, strict=True)]
    rooms = [lengths[a] + pads[a] + pads[n + a] - spans[a] for a in range(n)]
    counts = [(-(-r // s) if ceil else r // s) + 1 for r, s in zip(rooms, strides, strict=True)]
    for a in range(n if ceil else 0):
        if (counts[a] - 1) * strides[a] >= lengths[a] + pads[a]:
            counts[a] -= 1  # it would begin behind the end
    values = np.zeros((*outer, *counts, *size))
    inside = np.zeros((*counts, *size), bool)
    for out in np.ndindex(*counts):
        for k in np.ndindex(*size):
            at = tuple(out[a] * strides[a] + k[a] * dilation[a] - pads[a] for a in range(n))
            if all(0 <= at[a] < lengths[a] for a in range(n)):
                values[(..., *out, *k)] = x[(..., *at)]
                inside[(*out, *k)] = True
    return values, inside


def pooling(kind: str, count: int, include: bool) -> Callable[..., Any]:
    spatial = SPATIAL[count]

    def run(
        x: Any,
        pool_size: Any = 1,
        strides: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = include,
        layout: str = f"NC{spatial}",
        out_layout: str | None = None,
    ) -> Any:
        x = x.transpose([layout.index(c) for c in f"NC{spatial}"])
        size, pads = _each(pool_size, count), _sides(padding, count)
        steps, gaps = _each(strides, count), _each(dilation, count)
        values, inside = windows(x, size, steps, pads, gaps, ceil_mode)
        last = tuple(range(-count, 0))
        if kind == "max":
            y = np.where(inside, values, -np.inf).max(last)
        else:
            # A window that lies in the padding as a whole gives 0.
            counts = np.maximum(inside.sum(last), 1)
            y = values.sum(last) / (math.prod(size) if count_include_pad else counts)
        return y.transpose([f"NC{spatial}".index(c) for c in out_layout or layout])

    return run


def convolution(count: int) -> Callable[..., Any]:
    spatial = SPATIAL[count]

    def run(
        x: Any,
        w: Any,
        strides: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        data_layout: str = f"NC{spatial}",
        kernel_layout: str = f"OI{spatial}",
        out_layout: str | None = None,
        out_dtype: Any = None,
    ) -> Any:
        x = x.transpose([data_layout.index(c) for c in f"NC{spatial}"])
        w = w.transpose([kernel_layout.index(c) for c in f"OI{spatial}"])
        steps, pads = _each(strides, count), _sides(padding, count)
        values, _ = windows(x, w.shape[2:], steps, pads, _each(dilation, count), False)
        inputs, outputs = np.split(values, groups, 1), np.split(w, groups, 0)
        last = list(range(-count, 0))
        parts = [
            np.moveaxis(np.tensordot(v, k, (([1, *last]), ([1, *last]))), -1, 1)
            for v, k in zip(inputs, outputs, strict=True)
        ]
        y = np.concatenate(parts, 1)
        return y.transpose([f"NC{spatial}".index(c) for c in out_layout or data_layout])

    return run


def transposed_convolution(count: int) -> Callable[..., Any]:
    spatial = SPATIAL[count]

    def run(
        x: Any,
        w: Any,
        strides: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        data_layout: str = f"NC{spatial}",
        kernel_layout: str = f"IO{spatial}",
        out_layout: str | None = None,
        out_dtype: Any = None,
    ) -> Any:
        x = x.transpose([data_layout.index(c) for c in f"NC{spatial}"])
        w = w.transpose([kernel_layout.index(c) for c in f"IO{spatial}"])
        steps, pads = _each(strides, count), _sides(padding, count)
        gaps, more = _each(dilation, count), _each(output_padding, count)
        full = [
            (x.shape[2 + a] - 1) * steps[a] + gaps[a] * (w.shape[2 + a] - 1) + 1 + more[a]
            for a in range(count)
        ]
        parts = []
        for data, kernel in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True):
            y = np.zeros((x.shape[0], w.shape[1], *full))
            for at in np.ndindex(*x.shape[2:]):
                for k in np.ndindex(*w.shape[2:]):
                    to = tuple(at[a] * steps[a] + k[a] * gaps[a] for a in range(count))
                    y[(..., *to)] += data[(..., *at)] @ kernel[(..., *k)]
            parts.append(y)
        cut: Any = tuple(slice(pads[a], full[a] - pads[count + a]) for a in range(count))
        y = np.concatenate(parts, 1)[(..., *cut)]
        return y.transpose([f"NC{spatial}".index(c) for c in out_layout or data_layout])

    return run


def adaptive_pooling(count: int) -> Callable[..., Any]:
    spatial = SPATIAL[count]

    def run(
        x: Any, output_size: Any = None, layout: str = f"NC{spatial}", out_layout: str | None = None
    ) -> Any:
        x = x.transpose([layout.index(c) for c in f"NC{spatial}"])
        sizes = x.shape[2:] if output_size is None else _each(output_size, count)
        y = np.zeros((*x.shape[:2], *sizes))
        for at in np.ndindex(*sizes):
            window = tuple(
                slice(at[a] * n // sizes[a], -(-(at[a] + 1) * n // sizes[a]))
                for a, n in enumerate(x.shape[2:])
            )
            y[(..., *at)] = x[(..., *window)].mean(tuple(range(2, x.ndim)))
        return y.transpose([f"NC{spatial}".index(c) for c in out_layout or layout])

    return run


MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(x: Any, pad_width: Any, pad_mode: str = "constant", pad_value: float = 0.0) -> Any:
    pairs = list(zip(pad_width[::2], pad_width[1::2], strict=True))
    kept = tuple(
        slice(max(-low, 0), n - max(-high, 0))
        for (low, high), n in zip(pairs, x.shape, strict=True)
    )
    more = [(max(low, 0), max(high, 0)) for low, high in pairs]
    if pad_mode == "constant":
        return np.pad(x[kept], more, constant_values=pad_value)
    return np.pad(x[kept], more, mode=MODES[pad_mode])  # type: ignore[call-overload]  # a str


def pixel_shuffle(x: Any, r: int) -> Any:
    *outer, channels, height, width = x.shape
    y = np.zeros((*outer, channels // (r * r), height * r, width * r), x.dtype)
    for c, i, j in np.ndindex(channels // (r * r), r, r):
        y[..., c, i::r, j::r] = x[..., c * r * r + i * r + j, :, :]
    return y


WINDOWS: dict[str, Callable[..., Any]] = {
    **{f"relax.nn.conv{n}d": convolution(n) for n in (1, 2, 3)},
    **{f"relax.nn.conv{n}d_transpose": transposed_convolution(n) for n in (1, 2, 3)},
    **{f"relax.nn.max_pool{n}d": pooling("max", n, False) for n in (1, 2, 3)},
    **{f"relax.nn.avg_pool{n}d": pooling("avg", n, n != 2) for n in (1, 2, 3)},
    **{f"relax.nn.adaptive_avg_pool{n}d": adaptive_pooling(n) for n in (1, 2, 3)},
    "relax.nn.pad": pad,
    "relax.nn.pixel_shuffle": pixel_shuffle,
    "relax.nn.batch_flatten": lambda x: x.reshape(x.shape[0], math.prod(x.shape[1:])),
}
