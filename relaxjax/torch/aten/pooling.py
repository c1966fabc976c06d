"""Pooling, and adaptive pooling."""

import math
from collections.abc import Callable
from typing import Any

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dims_of, ndim_of, scalar

from .max_places import adaptive_max, places_of_max
from .padding import padded
from .products import per_axis
from .reductions import mean
from .table import aten


def batched(x: Expr, count: int, pool: Callable[[Expr], Expr]) -> Expr:
    """What a pooling of `count` spatial axes makes of images, or of a single one."""
    if ndim_of(x) == count + 2:
        return pool(x)
    return call("squeeze", pool(call("expand_dims", x, 0)), [0])


def _max_pool(count: int) -> Callable[..., Expr]:
    def rule(
        self: Expr,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Expr:
        size, room = per_axis(kernel_size, count), per_axis(padding, count)
        steps = per_axis(stride or kernel_size, count)
        gaps = per_axis(dilation, count)
        name = f"nn.max_pool{count}d"
        return batched(
            self, count, lambda x: call(name, x, size, steps, [*room, *room], gaps, ceil_mode)
        )

    return rule


def _max_pool_with_indices(count: int) -> Callable[..., tuple[Expr, ...]]:
    """With the places, where the sizes are known: else a program that reads them is refused."""
    pool = _max_pool(count)

    def rule(
        self: Expr,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> tuple[Expr, ...]:
        found = pool(self, kernel_size, stride, padding, dilation, ceil_mode)
        given = (kernel_size, stride or kernel_size, padding, dilation)
        spread = [per_axis(one, count) for one in given]
        places = places_of_max(self, dims_of(found)[-count:], *spread)
        return (found,) if places is None else (found, places)

    return rule


def _avg_pool(count: int) -> Callable[..., Expr]:
    def rule(
        self: Expr,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Expr:
        if divisor_override is not None and ceil_mode:
            raise ValueError("average pooling with a divisor of its own, and by `ceil_mode`")
        size, room = per_axis(kernel_size, count), per_axis(padding, count)
        steps = per_axis(stride or kernel_size, count)
        if ceil_mode and count_include_pad:  # a window counts what is padded, and none behind it
            self = padded(
                self, [width for one in room[::-1] for width in (one, one)], "constant", 0
            )
            room, count_include_pad = [0] * count, False
        counts_all = count_include_pad or divisor_override is not None
        window = (size, steps, [*room, *room], [1] * count, ceil_mode, counts_all)
        means = batched(self, count, lambda x: call(f"nn.avg_pool{count}d", x, *window))
        if divisor_override is None:
            return means
        return means * scalar(math.prod(size) / divisor_override, means)

    return rule


def _adapted_sizes(x: Expr, output_size: Any, count: int) -> list[Any]:
    """The sizes that a pooling is to give; None leaves an axis as it is."""
    return [
        length if wanted is None else wanted
        for wanted, length in zip(per_axis(output_size, count), dims_of(x)[-count:], strict=True)
    ]


def _adaptive_avg_pool(count: int) -> Callable[..., Expr]:
    def rule(self: Expr, output_size: Any) -> Expr:
        size = _adapted_sizes(self, output_size, count)
        if set(size) == {1}:
            return mean(self, list(range(-count, 0)), True)
        return batched(self, count, lambda x: call(f"nn.adaptive_avg_pool{count}d", x, size))

    return rule


def _adaptive_max_pool(count: int) -> Callable[..., tuple[Expr]]:
    def rule(self: Expr, output_size: Any) -> tuple[Expr]:
        size = _adapted_sizes(self, output_size, count)
        pairs = list(zip(dims_of(self)[-count:], size, strict=True))
        if any(not isinstance(length, int) or length % wanted for length, wanted in pairs):
            return (adaptive_max(self, size),)
        windows = [length // wanted for length, wanted in pairs]
        return (_max_pool(count)(self, windows),)

    return rule


for _count in (1, 2, 3):
    aten(f"max_pool{_count}d.default")(_max_pool(_count))
    aten(f"max_pool{_count}d_with_indices.default")(_max_pool_with_indices(_count))
    aten(f"avg_pool{_count}d.default")(_avg_pool(_count))
    for _name in ("adaptive_avg_pool", "_adaptive_avg_pool"):
        aten(f"{_name}{_count}d.default")(_adaptive_avg_pool(_count))
    aten(f"adaptive_max_pool{_count}d.default")(_adaptive_max_pool(_count))
