"""Pooling, and adaptive pooling."""

import math
from collections.abc import Callable
from typing import Any

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, scalar

from .convolutions import batched, per_axis
from .max_places import adaptive_max, places_of_max
from .padding import padded
from .promotion import is_floating
from .reductions import mean
from .slicing import sliced
from .table import aten


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
        size, room = per_axis(kernel_size, count), per_axis(padding, count)
        steps = per_axis(stride or kernel_size, count)

        def pool(x: Expr, room: list[Any], by_ceiling: bool, counts_all: bool) -> Expr:
            window = (size, steps, [*room, *room], [1] * count, by_ceiling, counts_all)
            return batched(x, count, lambda x: call(f"nn.avg_pool{count}d", x, *window))

        counts_all = count_include_pad or divisor_override is not None
        means = pool(self, room, ceil_mode, counts_all and not ceil_mode)
        if ceil_mode and counts_all:
            wanted, first = dims_of(means), ndim_of(self) - count
            # A window counts what is padded, and what is behind it only by a divisor of its own.
            behind = [0] * count if divisor_override is None else [step - 1 for step in steps]
            ends = [[one, one + more] for one, more in zip(room, behind, strict=True)]
            x = padded(self, [width for pair in ends[::-1] for width in pair], "constant", 0)
            means = pool(x, [0] * count, divisor_override is None, divisor_override is not None)
            for axis in range(first, ndim_of(self)):
                means = sliced(means, axis, 0, wanted[axis])
        if divisor_override is None:
            return means
        if not is_floating(dtype_of(self)):
            raise ValueError(f"means of {dtype_of(self)} by a divisor: give the numbers as floats")
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


def _adaptive_max_pool(count: int) -> Callable[..., tuple[Expr, ...]]:
    def rule(self: Expr, output_size: Any) -> tuple[Expr, ...]:
        size = _adapted_sizes(self, output_size, count)
        pairs = list(zip(dims_of(self)[-count:], size, strict=True))
        if any(not isinstance(length, int) or length % wanted for length, wanted in pairs):
            return adaptive_max(self, size)
        return _max_pool_with_indices(count)(self, [length // wanted for length, wanted in pairs])

    return rule


for _count in (1, 2, 3):
    aten(f"max_pool{_count}d.default")(_max_pool(_count))
    aten(f"max_pool{_count}d_with_indices.default")(_max_pool_with_indices(_count))
    aten(f"avg_pool{_count}d.default")(_avg_pool(_count))
    for _name in ("adaptive_avg_pool", "_adaptive_avg_pool"):
        aten(f"{_name}{_count}d.default")(_adaptive_avg_pool(_count))
    aten(f"adaptive_max_pool{_count}d.default")(_adaptive_max_pool(_count))
