"""Convolutions of volumes as convolutions of images: of their planes.

XLA's CPU backend multiplies matrices for windows in two dimensions, and not for those in three. The
planes that a window covers are put side by side here, and one convolution of images does the rest:
it adds up all that a result is made of, and nothing is copied for the places within a plane.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ops.nn.array_convolution import Layouts
from relaxjax.ops.nn.layouts import permutation
from relaxjax.ops.nn.windows import Windows
from relaxjax.ops.once import stored_by_cpu

# Orders of data, kernel and result, with the two axes that become one: the depth D and another.
# Usually each result along the depth is an image, and the planes that it covers are its channels.
# Where results are few, as in the gradient of a kernel, each is some of the outputs of one image,
# whose channels are all the planes that it covers.
_USUAL = ("(ND)HWC", "HW(DI)O", "(ND)HWC")
_FEW = ("(CD)HWN", "(ID)HWO", "HW(DN)C")
# Of a deeper kernel, the planes side by side would take too much memory.
MOST_PLANES = 16

# Convolves images: given the layouts of data, kernel and result, and the first two.
OfImages = Callable[[Layouts, Any, Any], Any]


def convolved(
    data: Any, weight: Any, windows: Windows, layouts: Layouts, groups: int, of_images: OfImages
) -> Any:
    """The result of a convolution of volumes, whose windows are these."""
    windows = _along_depth(windows)
    count = windows.counts[0]
    few = count < windows.size[0]
    of_data, of_kernel, of_out = orders = _FEW if few else _USUAL
    volume = _ordered(data, layouts[0], of_data)
    parts = windows.swapped(windows.axes) if few else windows
    covered = [parts.at_unpadded(volume, place) for place in parts.places()]
    planes = _beside(covered, 1 if few else groups)
    kernel = _joined(_ordered(weight, layouts[1], of_kernel), of_kernel)
    out = of_images(_within_planes(orders), _joined(planes, of_data), kernel)
    other = out.shape[of_out.index("(")] // count
    apart = _apart(out, of_out, (count, other) if few else (other, count))
    return jnp.transpose(apart, permutation(_letters(of_out), layouts[2]))


def put_back(
    data: Any,
    weight: Any,
    windows: Windows,
    layouts: Layouts,
    groups: int,
    depth: Any,
    of_images: OfImages,
) -> Any:
    """The transpose of a convolution of volumes: its planes, put back along a depth.

    `of_images` is the transpose of a convolution, too, and the layouts are those of this one.
    """
    order, of_kernel, _ = _USUAL
    volume = _ordered(data, layouts[0], order)
    kernel = _joined(_ordered(weight, layouts[1], of_kernel), of_kernel)
    flat = of_images(_within_planes(_USUAL), _joined(volume, order), kernel)
    out = _apart(flat, order, volume.shape[:2])
    along = _along_depth(windows)
    parts = _not_beside(out, along.size[0], groups)
    shape = list(parts[0].shape)
    shape[1] = depth
    moved = (along.back(part, [place], shape) for place, part in enumerate(parts))
    whole = stored_by_cpu(along.unpadded(functools.reduce(jnp.add, moved)))
    return jnp.transpose(whole, permutation(_letters(order), layouts[2]))


def _beside(planes: Sequence[Any], groups: int) -> Any:
    """The channels of planes one after the other, in each group by itself."""
    *shape, channels = planes[0].shape
    apart = [lax.reshape(plane, (*shape, groups, channels // groups)) for plane in planes]
    return lax.reshape(jnp.concatenate(apart, -1), (*shape, len(planes) * channels))


def _not_beside(planes: Any, count: int, groups: int) -> list[Any]:
    """The inverse of `_beside`, for so many planes."""
    *shape, channels = planes.shape
    apart = lax.reshape(planes, (*shape, groups, channels // groups))
    return [lax.reshape(part, (*shape, channels // count)) for part in jnp.split(apart, count, -1)]


def _along_depth(windows: Windows) -> Windows:
    """Those along the first spatial axis alone, which is the second of `_USUAL` and `_FEW`."""
    names = ("size", "strides", "pads", "dilation", "counts")
    return replace(windows, axes=(1,), **{name: getattr(windows, name)[:1] for name in names})


def _within_planes(orders: Layouts) -> Layouts:
    """The layouts of images, of arrays in such orders whose two axes are one."""
    data, kernel, out = (_letters(order).replace("D", "") for order in orders)
    return data, kernel, out


def _letters(order: str) -> str:
    return order.replace("(", "").replace(")", "")


def _ordered(x: Any, layout: str, order: str) -> Any:
    return jnp.transpose(x, permutation(layout, _letters(order)))


def _joined(x: Any, order: str) -> Any:
    """An array in such an order, with its two axes as one."""
    first = order.index("(")
    pair = x.shape[first] * x.shape[first + 1]
    return lax.reshape(x, (*x.shape[:first], pair, *x.shape[first + 2 :]))


def _apart(x: Any, order: str, pair: Sequence[Any]) -> Any:
    """The inverse of `_joined`, for two axes of such lengths."""
    first = order.index("(")
    return lax.reshape(x, (*x.shape[:first], *pair, *x.shape[first + 1 :]))
