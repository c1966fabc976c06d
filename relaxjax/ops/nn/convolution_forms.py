"""How convolutions are computed: by XLA's own, or on a CPU by a faster exact form.

XLA's own is the right one on a GPU, whose library it calls. On a CPU some convolutions are products
of matrices: those of one element, and those of few windows. A kernel for each input channel by
itself is a sum of shifted tensors, and volumes are taken as their planes. `benchmarks/operators.py`
compares them, and `docs/performance.md` says which form is taken where.
"""

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
from jax import lax

from . import planes
from .kernel_matrices import KernelMatrix
from .layouts import SPATIAL, by_letter, numbered, permutation, relabelled, window_span
from .windows import Windows

# Shifted tensors and slices are programs of their own: there are not more of them than this.
MANY_PLACES = 64
# A kernel for one channel pays up to so many outputs of it, and elements.
_MANY_OUTPUTS, _LARGE_KERNEL = 16, 25
# Products are faster than XLA's convolution where there are so many channels on both sides,
# in images of so few places, and so few of these in a batch.
WIDE, SMALL, LONG = 128, 64, 1024
_AT_A_TIME = 16  # arrays that are added up in one pass
FEW = 4  # channels, of which XLA's own convolution is slow
_USUAL = 32  # what a batch counts whose size is known when the program runs only


def known(lengths: Iterable[Any]) -> bool:
    """Whether all are numbers before the program runs."""
    return all(isinstance(length, int) for length in lengths)


def usual(length: Any) -> int:
    """A length as it counts where forms are chosen."""
    return length if isinstance(length, int) else _USUAL


@dataclass(frozen=True)
class Convolution:
    """A convolution of arrays: window, groups, and layouts of data, kernel and result."""

    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int
    data_layout: str
    kernel_layout: str
    out_layout: str

    @property
    def spatial(self) -> str:
        return SPATIAL[len(self.strides)]

    @property
    def axes(self) -> tuple[int, ...]:
        """The spatial axes of the data."""
        return tuple(self.data_layout.index(letter) for letter in self.spatial)

    def by_xla(self, data: Any, weight: Any, dtype: Any) -> Any:
        """The result, added up in `dtype`, by XLA's own convolution."""
        return lax.conv_general_dilated(
            data,
            weight,
            self.strides,
            self.pads,
            rhs_dilation=self.dilation,
            dimension_numbers=numbered(self.data_layout, self.kernel_layout, self.out_layout),
            feature_group_count=self.groups,
            preferred_element_type=dtype,
        )

    def on_cpu(self, data: Any, weight: Any, dtype: Any) -> Any:
        """The result, added up in `dtype`, by the form that is fast on a CPU."""
        if self.is_pointwise(weight) and not any(map(any, self.pads)):
            return self.product(data, weight, dtype)
        if self.is_sum_of_shifts(weight):
            return self._shifts(data, weight, dtype)
        windows = self.windows(data.shape, weight)
        work = Work.of(self, data, weight, windows)
        if work is None:
            return self.by_xla(data, weight, dtype)
        if work.is_one_by_one:
            return self._one_by_one(data, weight, windows, dtype)
        if work.is_side_by_side:
            return self._side_by_side(data, weight, windows, dtype, work)
        if work.is_patches:
            return self._patches(data, weight, windows, dtype, work)
        if self.is_volume and min(windows.size[0], windows.counts[0]) <= planes.MOST_PLANES:
            return self._planes(data, weight, windows, dtype)
        return self.by_xla(data, weight, dtype)

    @property
    def layouts(self) -> planes.Layouts:
        return self.data_layout, self.kernel_layout, self.out_layout

    def within_planes(self, layouts: planes.Layouts) -> "Convolution":
        """The same of images, which are the planes of volumes, for arrays of such layouts."""
        window = {name: getattr(self, name)[1:] for name in ("strides", "pads", "dilation")}
        data, kernel, out = layouts
        return replace(self, **window, data_layout=data, kernel_layout=kernel, out_layout=out)

    def _planes(self, data: Any, weight: Any, windows: Windows, dtype: Any) -> Any:
        """A convolution of volumes as one of images."""

        def of_images(layouts: planes.Layouts, data: Any, weight: Any) -> Any:
            return self.within_planes(layouts).on_cpu(data, weight, dtype)

        return planes.convolved(data, weight, windows, self.layouts, self.groups, of_images)

    def is_pointwise(self, weight: Any) -> bool:
        """Whether the kernel is of one element for each pair of channels."""
        sizes = by_letter(weight.shape, self.kernel_layout)
        return self.groups == 1 and all(sizes[letter] == 1 for letter in self.spatial)

    @property
    def is_volume(self) -> bool:
        """Whether windows are in three dimensions, where XLA's CPU backend has no products."""
        return len(self.strides) == 3

    def is_sum_of_shifts(self, weight: Any) -> bool:
        """Whether each kernel is for one channel, of few elements, and windows can be counted."""
        sizes = by_letter(weight.shape, self.kernel_layout)
        places = [sizes[letter] for letter in self.spatial]
        if sizes["I"] != 1 or not known(places):
            return False
        if self.groups > 1:
            return bool(math.prod(places) <= MANY_PLACES)
        outputs = sizes["O"]
        few = isinstance(outputs, int) and outputs <= _MANY_OUTPUTS
        return bool(few and math.prod(places) <= _LARGE_KERNEL)

    def _one_by_one(self, data: Any, weight: Any, windows: Windows, dtype: Any) -> Any:
        """Each result as a product of the kernel with the window of the data that it covers."""
        if self.groups == 1:
            return self._window_products(data, weight, windows, dtype)
        if data.shape[self.data_layout.index("N")] == 1 and self.kernel_layout.endswith("O"):
            return self._sums(data, weight, windows, dtype)
        order = f"NC{self.spatial}"
        padded = jnp.transpose(windows.padded(data, 0), permutation(self.data_layout, order))
        kernel = jnp.transpose(weight, permutation(self.kernel_layout, f"OI{self.spatial}"))
        whole = windows.swapped(range(2, data.ndim))
        parts = [
            self._grouped_product(whole.at(padded, place), kernel, dtype)
            for place in whole.places()
        ]
        out = lax.reshape(jnp.stack(parts, -1), (*parts[0].shape, *windows.counts))
        return jnp.transpose(out, permutation(order, self.out_layout))

    def _sums(self, data: Any, weight: Any, windows: Windows, dtype: Any) -> Any:
        """For one image: at each place the kernel times its window, summed with the groups last."""
        channels = jnp.transpose(data, permutation(self.data_layout, f"NC{self.spatial}"))
        shape = (self.groups, channels.shape[1] // self.groups, *channels.shape[2:])
        image = jnp.moveaxis(lax.reshape(channels, shape), 0, -1)
        axes = tuple(range(1, image.ndim - 1))
        padded = replace(windows, axes=axes).padded(image, 0)
        kernel = jnp.transpose(weight, permutation(self.kernel_layout, f"I{self.spatial}O"))
        apart = (*kernel.shape[:-1], self.groups, kernel.shape[-1] // self.groups)
        kernel = lax.reshape(kernel, apart).astype(dtype)
        whole, inside = windows.swapped(axes), tuple(range(len(axes)))
        padded = lax.optimization_barrier(padded.astype(dtype))
        products = [whole.at(padded, place)[..., None] * kernel for place in whole.places()]
        sums = [jnp.sum(image_sum, inside) for image_sum in _added_up(products)]
        out = lax.reshape(jnp.stack(sums, -1), (1, weight.shape[-1], *windows.counts))
        return jnp.transpose(out, permutation(f"NC{self.spatial}", self.out_layout))

    def _window_products(self, data: Any, weight: Any, windows: Windows, dtype: Any) -> Any:
        """For each result the images' windows times the kernel, as the matrix that is wanted.

        Data, kernel and product stay as they lie: XLA would copy each element by itself.
        """
        inner = self.data_layout.replace("N", "")
        order = f"{relabelled(inner, C='I')}O"
        kernel = jnp.transpose(weight, permutation(self.kernel_layout, order))
        count = math.prod(kernel.shape[:-1])
        columns = lax.reshape(kernel, (count, kernel.shape[-1]))
        images = data.shape[self.data_layout.index("N")]
        if self.data_layout.startswith("N"):
            axis, shape, order = 1, (images, count), f"N{inner}"
        else:
            axis, shape, order = 0, (count, images), f"{inner}N"
        padded, whole = self._in_order(data, windows, order)
        parts = [lax.reshape(whole.at(padded, place), shape) for place in whole.places()]
        if self.out_layout.index("N") < self.out_layout.index("C"):
            letters, products = "NC", [_product(part, axis, columns, 0, dtype) for part in parts]
        else:
            letters, products = "CN", [_product(columns, 0, part, axis, dtype) for part in parts]
        out = jnp.stack(products, -1)
        shaped = lax.reshape(out, (*out.shape[:-1], *windows.counts))
        return jnp.transpose(shaped, permutation(f"{letters}{self.spatial}", self.out_layout))

    def _side_by_side(
        self, data: Any, weight: Any, windows: Windows, dtype: Any, work: "Work"
    ) -> Any:
        """The same as one product: the result is a kernel, as one of which it is laid out."""
        layout = relabelled(self.out_layout, C="O", N="I")
        kernel = KernelMatrix.of(layout, self.spatial, work.inputs * work.places <= work.outputs)
        features = KernelMatrix(f"I{self.spatial}O", self.spatial)
        columns = features.columns(weight, self.kernel_layout)
        images, whole = self._in_order(data, windows, f"C{self.spatial}N")
        beside = kernel.beside(whole, images)
        pair = (beside.T, columns) if kernel.is_outputs_last else (columns.T, beside)
        product = jnp.matmul(*pair, preferred_element_type=dtype)
        sizes = dict(zip(self.spatial, windows.counts, strict=True))
        sizes |= {"O": columns.shape[1], "I": images.shape[-1]}
        shaped = lax.reshape(product, [sizes[letter] for letter in kernel.layout])
        return jnp.transpose(shaped, permutation(kernel.layout, layout))

    def _in_order(self, data: Any, windows: Windows, order: str) -> tuple[Any, Windows]:
        """The padded data with its axes in an order, and the windows there, whole."""
        # No window reaches what would be cut off: its slices are those of the data as it is.
        reached = replace(windows, pads=tuple((low, max(high, 0)) for low, high in windows.pads))
        padded = jnp.transpose(reached.padded(data, 0), permutation(self.data_layout, order))
        return padded, windows.swapped([order.index(letter) for letter in self.spatial])

    def _grouped_product(self, window: Any, kernel: Any, dtype: Any) -> Any:
        """The sum over channels and places of one window times the kernel, for each group."""
        inputs = lax.reshape(
            window, (window.shape[0], self.groups, kernel.shape[1], *window.shape[2:])
        )
        outputs = lax.reshape(
            kernel, (self.groups, kernel.shape[0] // self.groups, *kernel.shape[1:])
        )
        if self.groups > 1 and inputs.shape[0] == 1:
            products = jnp.swapaxes(inputs, 0, 1).astype(dtype) * outputs.astype(dtype)
            sums = jnp.sum(products, tuple(range(2, products.ndim)))
            return lax.reshape(sums, (1, kernel.shape[0]))
        rows = lax.reshape(inputs, (*inputs.shape[:2], math.prod(inputs.shape[2:])))
        columns = lax.reshape(outputs, (*outputs.shape[:2], math.prod(outputs.shape[2:])))
        product = jnp.einsum("ngk,gok->ngo", rows, columns, preferred_element_type=dtype)
        return lax.reshape(product, (product.shape[0], kernel.shape[0]))

    def _patches(self, data: Any, weight: Any, windows: Windows, dtype: Any, work: "Work") -> Any:
        """All windows side by side as the rows of a matrix, times the kernel as another."""
        last = f"N{self.spatial}C"
        windows = replace(windows, axes=tuple(range(1, data.ndim - 1)))
        padded = windows.padded(jnp.transpose(data, permutation(self.data_layout, last)), 0)
        keeps = work.batch * work.results <= work.outputs
        kernel = KernelMatrix.of(self.kernel_layout, self.spatial, keeps)
        rows = kernel.beside(windows, padded)
        columns = kernel.columns(weight, self.kernel_layout)
        product = jnp.matmul(rows, columns, preferred_element_type=dtype)
        shaped = lax.reshape(product, (padded.shape[0], *windows.counts, columns.shape[1]))
        return jnp.transpose(shaped, permutation(last, self.out_layout))

    def product(self, data: Any, weight: Any, dtype: Any) -> Any:
        """The result for a kernel of one element: a product of matrices."""
        if any(stride != 1 for stride in self.strides):
            data = self.windows(data.shape, weight).at(data, [0] * len(self.strides))
        last = self.data_layout.replace("C", "") + "C"
        rows = jnp.transpose(data, permutation(self.data_layout, last))
        matrix = jnp.transpose(weight, permutation(self.kernel_layout, f"IO{self.spatial}"))
        matrix = lax.reshape(matrix, matrix.shape[:2])
        count = rows.size // rows.shape[-1] if rows.size else 0
        product = jnp.matmul(
            lax.reshape(rows, (count, rows.shape[-1])), matrix, preferred_element_type=dtype
        )
        shaped = lax.reshape(product, (*rows.shape[:-1], matrix.shape[1]))
        return jnp.transpose(shaped, permutation(last, self.out_layout))

    def _shifts(self, data: Any, weight: Any, dtype: Any) -> Any:
        windows = self.windows(data.shape, weight).without_rest(data.shape)
        padded, vectors = windows.padded(data, 0).astype(dtype), self.vectors(weight, dtype)
        # Else the place in the middle would be read from what was padded, and that computed twice.
        padded = lax.optimization_barrier(self.repeated(padded, weight))
        parts = (windows.at(padded, place) * vectors[place] for place in windows.places())
        out = functools.reduce(jnp.add, parts)
        return jnp.transpose(out, permutation(self.data_layout, self.out_layout))

    def repeated(self, data: Any, weight: Any) -> Any:
        """The data with each channel as often as there are kernels for it."""
        axis, outputs = self.data_layout.index("C"), weight.shape[self.kernel_layout.index("O")]
        times = outputs // self.groups
        return data if times == 1 else jnp.repeat(data, times, axis, total_repeat_length=outputs)

    def windows(self, shape: Sequence[Any], weight: Any) -> Windows:
        """The windows of the kernel over data of a shape."""
        sizes = by_letter(weight.shape, self.kernel_layout)
        size = tuple(sizes[letter] for letter in self.spatial)
        counts = tuple(
            (shape[axis] + low + high - window_span(length, dilation)) // stride + 1
            for axis, (low, high), length, dilation, stride in zip(
                self.axes, self.pads, size, self.dilation, self.strides, strict=True
            )
        )
        return Windows(self.axes, size, self.strides, self.pads, self.dilation, counts)

    def vectors(self, weight: Any, dtype: Any) -> Any:
        """Kernels of one channel: at each place their elements, as they broadcast to the result."""
        kernel = jnp.transpose(weight, permutation(self.kernel_layout, f"{self.spatial}OI"))
        channels = [kernel.shape[-2] if letter == "C" else 1 for letter in self.data_layout]
        return lax.reshape(kernel.astype(dtype), (*kernel.shape[:-2], *channels))


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


@dataclass(frozen=True, slots=True)
class Work:
    """How much there is to do: what decides between the forms that are products of matrices."""

    form: Convolution
    batch: int
    outputs: int
    inputs: int  # of each group
    elements: int  # of an image
    places: int  # of a window
    results: int  # of an image

    @staticmethod
    def of(form: Convolution, data: Any, weight: Any, windows: Windows) -> "Work | None":
        """None where a spatial length is not known before the program runs, or nothing is to do."""
        image = by_letter(data.shape, form.data_layout)
        kernel = by_letter(weight.shape, form.kernel_layout)
        lengths = tuple(image[letter] for letter in form.spatial)
        spatial, others = (*lengths, *windows.size, *windows.counts), (image["N"], *weight.shape)
        if not known(spatial) or min(spatial) < 1 or 0 in others:
            return None
        sizes = (image["N"], kernel["O"], kernel["I"])
        batch, outputs, inputs = map(usual, sizes)
        counts = map(math.prod, (lengths, windows.size, windows.counts))
        return Work(form, batch, outputs, inputs, *counts)

    @property
    def is_one_by_one(self) -> bool:
        """Whether results are few: each is one product, with all of its window."""
        if self.form.groups > 1:
            single = self.batch == 1 and self.outputs <= self.form.groups * FEW
            return self.results < self.places and self.results <= (MANY_PLACES if single else 1)
        return self.results == 1 < self.places

    @property
    def is_side_by_side(self) -> bool:
        """Whether it is the gradient of a kernel of few places, by an image of few."""
        wide = self.form.groups == 1 and min(self.batch, self.outputs) >= WIDE
        few = self.results <= 9 and self.places <= SMALL
        return wide and few and self.inputs * self.places <= LONG

    @property
    def is_patches(self) -> bool:
        """Whether windows are few, or XLA has no good program: their elements are copied out."""
        if self.form.groups > 1 or self.places > MANY_PLACES:
            return False
        small = self.results < self.places and self.batch * self.results <= self.outputs
        # XLA takes such a kernel for the data, and has then only its slowest program.
        larger = self.places > self.elements
        return small or larger or self.is_small_image

    @property
    def is_small_image(self) -> bool:
        """Whether there are many channels in images of few places."""
        wide = min(self.inputs, self.outputs) >= WIDE and self.results <= SMALL
        return wide and self.batch * self.results <= LONG
