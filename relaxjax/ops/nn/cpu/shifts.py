"""Convolutions by kernels of one channel, as sums of shifted tensors, times a vector each."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ops.nn.array_convolution import Convolution
from relaxjax.ops.nn.layouts import by_letter, permutation
from relaxjax.ops.once import stored_by_cpu

from .case import MANY_PLACES, Case, known

# A kernel for one channel pays up to so many outputs of it, and elements.
_MANY_OUTPUTS, _LARGE_KERNEL = 16, 25
# Up to so many parts, a sum is quick to compute and to compile in several kernels.
_FEW_PARTS = 16


def is_sum_of_shifts(of: Convolution, weight: Any) -> bool:
    """Whether each kernel is for one channel, of few elements, and windows can be counted."""
    sizes, places = by_letter(weight.shape, of.kernel_layout), of.size(weight)
    if sizes["I"] != 1 or not known(places):
        return False
    if of.groups > 1:
        return bool(math.prod(places) <= MANY_PLACES)
    outputs = sizes["O"]
    few = isinstance(outputs, int) and outputs <= _MANY_OUTPUTS
    return bool(few and math.prod(places) <= _LARGE_KERNEL)


def sum_of_shifts(case: Case) -> Any:
    """The data at each place of the windows times the kernel there, added up."""
    of = case.of
    windows = case.windows.without_rest(case.data.shape)
    padded = windows.padded(case.data, 0).astype(case.dtype)
    kernel = vectors(of, case.weight, case.dtype)
    # Else the place in the middle would be read from what was padded, and that computed twice.
    padded = lax.optimization_barrier(_repeated(of, padded, case.weight))
    parts = [windows.at(padded, place) * kernel[place] for place in windows.places()]
    return jnp.transpose(added_once(parts), permutation(of.data_layout, of.out_layout))


def added_once(parts: Sequence[Any]) -> Any:
    """The sum of parts, which is stored if they are many: else XLA adds in each of its readers."""
    total = functools.reduce(jnp.add, parts)
    many = len(parts) > _FEW_PARTS and jnp.issubdtype(total.dtype, jnp.floating)
    return stored_by_cpu(total) if many else total


def _repeated(of: Convolution, data: Any, weight: Any) -> Any:
    """The data with each channel as often as there are kernels for it. One alone broadcasts."""
    if of.groups == 1:
        return data
    times = weight.shape[of.kernel_layout.index("O")] // of.groups
    return data if times == 1 else jnp.repeat(data, times, of.data_layout.index("C"))


def vectors(of: Convolution, weight: Any, dtype: Any) -> Any:
    """Kernels of one channel: at each place their elements, as they broadcast to the result."""
    kernel = jnp.transpose(weight, permutation(of.kernel_layout, f"{of.spatial}OI"))
    channels = [kernel.shape[-2] if letter == "C" else 1 for letter in of.data_layout]
    return lax.reshape(kernel.astype(dtype), (*kernel.shape[:-2], *channels))
