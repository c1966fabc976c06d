"""Convolutions as products of matrices: of one element, of few windows, or of few places.

Data, kernel and product stay as they lie where they can: XLA would copy each element by itself.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ops.nn.layouts import permutation, relabelled
from relaxjax.ops.nn.windows import Windows

from .case import Case
from .kernel_matrices import KernelMatrix

_AT_A_TIME = 16  # arrays that are added up in one pass


def one_product(case: Case) -> Any:
    """The result for a kernel of one element, without padding."""
    of, data = case.of, case.data
    if any(stride != 1 for stride in of.strides):
        data = case.windows.at(data, [0] * len(of.strides))
    last = of.data_layout.replace("C", "") + "C"
    rows = jnp.transpose(data, permutation(of.data_layout, last))
    matrix = jnp.transpose(case.weight, permutation(of.kernel_layout, f"IO{of.spatial}"))
    matrix = lax.reshape(matrix, matrix.shape[:2])
    count = rows.size // rows.shape[-1] if rows.size else 0
    product = jnp.matmul(
        lax.reshape(rows, (count, rows.shape[-1])), matrix, preferred_element_type=case.dtype
    )
    shaped = lax.reshape(product, (*rows.shape[:-1], matrix.shape[1]))
    return jnp.transpose(shaped, permutation(last, of.out_layout))


def product_for_each_result(case: Case) -> Any:
    """For each result the images' windows times the kernel, as the matrix that is wanted."""
    of, data = case.of, case.data
    inner = of.data_layout.replace("N", "")
    order = f"{relabelled(inner, C='I')}O"
    kernel = jnp.transpose(case.weight, permutation(of.kernel_layout, order))
    count = math.prod(kernel.shape[:-1])
    columns = lax.reshape(kernel, (count, kernel.shape[-1]))
    images = data.shape[of.data_layout.index("N")]
    if of.data_layout.startswith("N"):
        axis, shape, order = 1, (images, count), f"N{inner}"
    else:
        axis, shape, order = 0, (count, images), f"{inner}N"
    padded, whole = _in_order(case, order)
    parts = [lax.reshape(whole.at(padded, place), shape) for place in whole.places()]
    if of.out_layout.index("N") < of.out_layout.index("C"):
        letters = "NC"
        products = [_product(part, axis, columns, 0, case.dtype) for part in parts]
    else:
        letters = "CN"
        products = [_product(columns, 0, part, axis, case.dtype) for part in parts]
    out = jnp.stack(products, -1)
    shaped = lax.reshape(out, (*out.shape[:-1], *case.windows.counts))
    return jnp.transpose(shaped, permutation(f"{letters}{of.spatial}", of.out_layout))


def grouped_product_for_each_result(case: Case) -> Any:
    """Each result as a product of the kernel with the window that it covers, in each group."""
    of, order = case.of, f"NC{case.of.spatial}"
    padded = jnp.transpose(case.windows.padded(case.data, 0), permutation(of.data_layout, order))
    kernel = jnp.transpose(case.weight, permutation(of.kernel_layout, f"OI{of.spatial}"))
    whole = case.windows.swapped(range(2, case.data.ndim))
    parts = [
        _grouped_product(whole.at(padded, place), kernel, of.groups, case.dtype)
        for place in whole.places()
    ]
    out = lax.reshape(jnp.stack(parts, -1), (*parts[0].shape, *case.windows.counts))
    return jnp.transpose(out, permutation(order, of.out_layout))


def sums_of_one_image(case: Case) -> Any:
    """For one image: at each place the kernel times its window, summed with the groups last."""
    of, windows, dtype = case.of, case.windows, case.dtype
    channels = jnp.transpose(case.data, permutation(of.data_layout, f"NC{of.spatial}"))
    shape = (of.groups, channels.shape[1] // of.groups, *channels.shape[2:])
    image = jnp.moveaxis(lax.reshape(channels, shape), 0, -1)
    axes = tuple(range(1, image.ndim - 1))
    padded = replace(windows, axes=axes).padded(image, 0)
    kernel = jnp.transpose(case.weight, permutation(of.kernel_layout, f"I{of.spatial}O"))
    apart = (*kernel.shape[:-1], of.groups, kernel.shape[-1] // of.groups)
    kernel = lax.reshape(kernel, apart).astype(dtype)
    whole, inside = windows.swapped(axes), tuple(range(len(axes)))
    padded = lax.optimization_barrier(padded.astype(dtype))

    def sums(part: Windows, data: Any) -> Any:
        products = [part.at(data, place)[..., None] * kernel for place in part.places()]
        return jnp.stack([jnp.sum(image_sum, inside) for image_sum in _added_up(products)])

    many = math.prod(whole.size) > _AT_A_TIME
    found = whole.row_by_row(padded, sums) if many else sums(whole, padded)
    out = lax.reshape(jnp.moveaxis(found, 0, -1), (1, case.weight.shape[-1], *windows.counts))
    return jnp.transpose(out, permutation(f"NC{of.spatial}", of.out_layout))


def product_laid_out_as_a_kernel(case: Case) -> Any:
    """All windows side by side, of the whole batch: the result is a kernel, and laid out as one."""
    of, counts = case.of, case.counts
    assert counts is not None, "forms of products are chosen by their counts"
    layout = relabelled(of.out_layout, C="O", N="I")
    keeps = counts.inputs * counts.places <= counts.outputs
    kernel = KernelMatrix.of(layout, of.spatial, keeps)
    features = KernelMatrix(f"I{of.spatial}O", of.spatial)
    columns = features.columns(case.weight, of.kernel_layout)
    images, whole = _in_order(case, f"C{of.spatial}N")
    beside = kernel.beside(whole, images)
    pair = (beside.T, columns) if kernel.is_outputs_last else (columns.T, beside)
    product = jnp.matmul(*pair, preferred_element_type=case.dtype)
    sizes = dict(zip(of.spatial, case.windows.counts, strict=True))
    sizes |= {"O": columns.shape[1], "I": images.shape[-1]}
    shaped = lax.reshape(product, [sizes[letter] for letter in kernel.layout])
    return jnp.transpose(shaped, permutation(kernel.layout, layout))


def product_of_patches(case: Case) -> Any:
    """All windows side by side as the rows of a matrix, times the kernel as another."""
    of, counts = case.of, case.counts
    assert counts is not None, "forms of products are chosen by their counts"
    last = f"N{of.spatial}C"
    windows = replace(case.windows, axes=tuple(range(1, case.data.ndim - 1)))
    padded = windows.padded(jnp.transpose(case.data, permutation(of.data_layout, last)), 0)
    keeps = counts.batch * counts.results <= counts.outputs
    kernel = KernelMatrix.of(of.kernel_layout, of.spatial, keeps)
    rows = kernel.beside(windows, padded)
    columns = kernel.columns(case.weight, of.kernel_layout)
    product = jnp.matmul(rows, columns, preferred_element_type=case.dtype)
    shaped = lax.reshape(product, (padded.shape[0], *windows.counts, columns.shape[1]))
    return jnp.transpose(shaped, permutation(last, of.out_layout))


def _in_order(case: Case, order: str) -> tuple[Any, Windows]:
    """The padded data with its axes in an order, and the windows there, whole."""
    windows = case.windows
    # No window reaches what would be cut off: its slices are those of the data as it is.
    reached = replace(windows, pads=tuple((low, max(high, 0)) for low, high in windows.pads))
    padded = jnp.transpose(reached.padded(case.data, 0), permutation(case.of.data_layout, order))
    return padded, windows.swapped([order.index(letter) for letter in case.of.spatial])


def _grouped_product(window: Any, kernel: Any, groups: int, dtype: Any) -> Any:
    """The sum over channels and places of one window times the kernel, for each group."""
    inputs = lax.reshape(window, (window.shape[0], groups, kernel.shape[1], *window.shape[2:]))
    outputs = lax.reshape(kernel, (groups, kernel.shape[0] // groups, *kernel.shape[1:]))
    if inputs.shape[0] == 1:
        products = jnp.swapaxes(inputs, 0, 1).astype(dtype) * outputs.astype(dtype)
        sums = jnp.sum(products, tuple(range(2, products.ndim)))
        return lax.reshape(sums, (1, kernel.shape[0]))
    rows = lax.reshape(inputs, (*inputs.shape[:2], math.prod(inputs.shape[2:])))
    columns = lax.reshape(outputs, (*outputs.shape[:2], math.prod(outputs.shape[2:])))
    product = jnp.einsum("ngk,gok->ngo", rows, columns, preferred_element_type=dtype)
    return lax.reshape(product, (product.shape[0], kernel.shape[0]))


def _product(left: Any, left_axis: int, right: Any, right_axis: int, dtype: Any) -> Any:
    """The product of two matrices over an axis of each."""
    axes = (((left_axis,), (right_axis,)), ((), ()))
    return lax.dot_general(left, right, axes, preferred_element_type=dtype)


def _added_up(arrays: Sequence[Any]) -> list[Any]:
    """The sum of each over its first axis: of several arrays at a time in one pass.

    XLA reads what they are made of once for all of them then, and writes out none.
    """

    def both(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        return list(map(jnp.add, left, right))

    parts = [arrays[start : start + _AT_A_TIME] for start in range(0, len(arrays), _AT_A_TIME)]
    zero = jnp.zeros((), arrays[0].dtype)
    return [out for part in parts for out in lax.reduce(part, [zero] * len(part), both, (0,))]
