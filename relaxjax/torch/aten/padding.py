"""Padding, where negative widths cut off."""

from collections.abc import Sequence
from typing import Any

from relaxjax.ir.dims import Dim, dim_max
from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dims_of, ndim_of, number

from .slicing import sliced
from .table import aten


@aten("constant_pad_nd.default")
def constant_pad(self: Expr, pad: Sequence[Dim], value: Any = 0) -> Expr:
    return padded(self, pad, "constant", value)


@aten("pad.default")
def pad(self: Expr, pad: Sequence[Dim], mode: str = "constant", value: float | None = None) -> Expr:
    if mode == "circular":
        return _wrapped(self, pad)
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
    if mode not in modes:
        raise ValueError(f'there is no padding of the mode "{mode}" here')
    return padded(self, pad, modes[mode], value or 0)


@aten("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def reflection_pad(self: Expr, padding: Sequence[Dim]) -> Expr:
    return padded(self, padding, "reflect", 0)


@aten("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def replication_pad(self: Expr, padding: Sequence[Dim]) -> Expr:
    return padded(self, padding, "edge", 0)


@aten("pad_sequence.default")
def pad_sequence(
    sequences: Sequence[Expr],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Expr:
    """Sequences as rows of one tensor, as long as the longest."""
    longest: Dim = 0
    for one in sequences:
        longest = dim_max(longest, dims_of(one)[0])
    rows = []
    for one in sequences:
        missing = longest - dims_of(one)[0]
        room = [0, missing] if padding_side == "right" else [missing, 0]
        rows.append(padded(one, [0, 0] * (ndim_of(one) - 1) + room, "constant", padding_value))
    return call("stack", rows, 0 if batch_first else 1)


def padded(x: Expr, widths: Sequence[Dim], mode: str, value: Any) -> Expr:
    """Padded by torch's widths, the pairs of the last axis first; then negative ones cut off.

    So what is cut off may be repeated at the other end, of which it may be all that there is.
    """
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    room = [[dim_max(one, 0) for one in pair] for pair in pairs[::-1]]
    full = [0, 0] * (ndim_of(x) - len(pairs)) + [one for pair in room for one in pair]
    if any(one != 0 for one in full):
        x = call("nn.pad", x, full, mode, float(value))
    for place, pair in enumerate(pairs):
        x = _cut(x, ndim_of(x) - 1 - place, pair)
    return x


def _cut(x: Expr, axis: int, widths: Sequence[Dim]) -> Expr:
    """An axis without what negative widths count at its two ends."""
    low, high = (-min(one, 0) if isinstance(one, int) else 0 for one in widths)
    return sliced(x, axis, low, dims_of(x)[axis] - high) if low or high else x


def _wrapped(x: Expr, widths: Sequence[Dim]) -> Expr:
    """Padded by what stands at the other end, after negative widths have cut off."""
    for place, pair in enumerate(zip(widths[::2], widths[1::2], strict=True)):
        axis = ndim_of(x) - 1 - place
        x = _cut(x, axis, pair)
        size = dims_of(x)[axis]
        low, high = (dim_max(one, 0) for one in pair)
        if (low, high) != (0, 0):
            places = call("arange", -low, size + high, 1, "int64")
            x = call("take", x, call("floor_mod", places, number(size, places)), axis)
    return x
