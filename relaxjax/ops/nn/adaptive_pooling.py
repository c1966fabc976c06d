"""Adaptive pooling: as many windows as asked for, of nearly one length."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType
from relaxjax.ops.arrays import widened
from relaxjax.ops.conversions import Ints
from relaxjax.ops.declare import op
from relaxjax.ops.lettered_layouts import lettered
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.shapes import require_sizes
from relaxjax.ops.traced import traced_gradient

from .layouts import (
    SPATIAL,
    by_letter,
    check_layout,
    in_layout,
    per_axis,
    permutation,
    require_rank,
    spatial_axes,
)


def _complete(
    output_size: Any, layout: str, out_layout: str | None, **rest: Any
) -> Mapping[str, Any]:
    count = spatial_axes("layout", layout)
    check_layout("layout", layout, f"NC{SPATIAL[count]}")
    check_layout("out_layout", out_layout or layout, f"NC{SPATIAL[count]}")
    size = None if output_size is None else per_axis("output_size", output_size, count)
    return {"output_size": size, "out_layout": out_layout or layout}


def _averaging(length: int, count: int, dtype: Any) -> Any:
    """The matrix of the means: window i runs from floor(i * n / m) to ceil((i + 1) * n / m)."""
    matrix = np.zeros((count, length))
    for i in range(count):
        start, stop = i * length // count, -(-(i + 1) * length // count)
        matrix[i, start:stop] = 1 / (stop - start)
    return jnp.asarray(matrix, dtype)


def _adaptive_avg_pool(data: Any, output_size: Any, layout: str, out_layout: str) -> Any:
    """One axis after another: a mean of equal parts where they are equal, else a product."""
    x = widened(data)
    for letter, count in zip(SPATIAL[len(layout) - 2], output_size or (), strict=False):
        axis = layout.index(letter)
        length = x.shape[axis]
        if length % count == 0:
            apart = x.reshape(*x.shape[:axis], count, length // count, *x.shape[axis + 1 :])
            x = jnp.mean(apart, axis + 1)
        else:
            product = jnp.tensordot(_averaging(length, count, x.dtype), x, ((1,), (axis,)))
            x = jnp.moveaxis(product, 0, axis)
    return jnp.transpose(x, permutation(layout, out_layout)).astype(data.dtype)


def adaptive_pooling(count: int) -> Op:
    """The adaptive pooling over `count` spatial axes."""

    def infer(
        data: TensorType,
        output_size: Ints | None = None,
        layout: str = f"NC{SPATIAL[count]}",
        out_layout: str | None = None,
    ) -> TensorType:
        target = out_layout or layout
        require_rank("data", data, layout)
        require_sizes("output_size", output_size or ())
        if data.dims is None:
            return TensorType(None, data.dtype, len(target), data.vdevice)
        image = by_letter(data.dims, layout)
        image |= dict(zip(SPATIAL[count], output_size or (), strict=False))
        return TensorType(in_layout(image, target), data.dtype, vdevice=data.vdevice)

    infer.__doc__ = (
        "The means of `output_size` windows along each spatial axis, which cover it evenly.\n\n"
        "Without a size the data stays as it is."
    )
    name = f"relax.nn.adaptive_avg_pool{count}d"
    return op(
        name,
        layout=lettered(),
        complete=_complete,
        lower=_adaptive_avg_pool,
        gradient=traced_gradient(name),
        precision="follow",
        fusion="reduction",
        cost=LOWERED,
    )(infer)


adaptive_avg_pool1d = adaptive_pooling(1)
adaptive_avg_pool2d = adaptive_pooling(2)
adaptive_avg_pool3d = adaptive_pooling(3)
