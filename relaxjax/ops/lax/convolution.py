"""XLA's convolution as it runs: what its backend for CPUs reads wrongly or computes slowly."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from relaxjax.ops.platform import by_platform, is_read

Convolve = Callable[..., Any]


def convolved(bind: Convolve, data: Any, kernel: Any, **params: Any) -> Any:
    """The result by the primitive, which is given as `bind`.

    As IR it is one operator, whose attributes say the layouts that were asked for.
    """
    data, params = _padded_before(data, params)
    plain = partial(bind, **params)
    if is_read():
        return plain(data, kernel)
    return by_platform(plain, cpu=partial(_channels_last, plain))(data, kernel)


def convolved_on_cpu(data: Any, kernel: Any, **params: Any) -> Any:
    """The result by JAX's function, whose parameters are given by name."""
    plain: partial[Any] = partial(lax.conv_general_dilated, **params)
    return plain(data, kernel) if is_read() else _channels_last(plain, data, kernel)


def _padded_before(data: Any, params: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Padding that takes something away does so before.

    XLA reads beyond the data else, on a CPU.
    """
    if not any(isinstance(pad, int) and pad < 0 for pair in params["padding"] for pad in pair):
        return data, params
    axes = params["dimension_numbers"].lhs_spec[2:]
    changes = [(0, 0, 0)] * data.ndim
    for axis, pair, step in zip(axes, params["padding"], params["lhs_dilation"], strict=True):
        changes[axis] = (*pair, step - 1)
    padded = lax.pad(data, jnp.zeros((), data.dtype), changes)
    plain = {"padding": ((0, 0),) * len(axes), "lhs_dilation": (1,) * len(axes)}
    return padded, {**params, **plain}


def _channels_last(convolve: partial[Any], data: Any, kernel: Any) -> Any:
    """With the axes in the one order in which XLA has fast programs on a CPU.

    It brings them into this order itself, but not within loops and branches: there, what is in
    another one takes tens of times as long (`python benchmarks/operators.py loops`).
    """
    numbers = convolve.keywords["dimension_numbers"]
    source, target = (_images(spec) for spec in (numbers.lhs_spec, numbers.out_spec))
    outputs, inputs, *places = numbers.rhs_spec
    last = data.ndim - 1
    image, spatial = (0, last, *range(1, last)), range(last - 1)
    ordered = lax.ConvDimensionNumbers(image, (last, last - 1, *spatial), image)
    data, kernel = lax.transpose(data, source), lax.transpose(kernel, (*places, inputs, outputs))
    out = convolve(data, kernel, dimension_numbers=ordered)
    return lax.transpose(out, np.argsort(target))


def _images(spec: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of images in the order of examples, places and channels."""
    return (spec[0], *spec[2:], spec[1])
