"""Kernels as matrices: the outputs on one side, all that each is summed over on the other.

A kernel that lies in memory with its outputs first or last is such a matrix as it is, and the
elements of windows are put side by side in its order. Where the windows are more than the kernel,
channels go last in both: those of a window are copied one beside the other then.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ops.nn.layouts import permutation
from relaxjax.ops.nn.windows import Windows

from .window_numbers import beside


@dataclass(frozen=True)
class KernelMatrix:
    """A kernel's axes, outputs O first or last, and the axes in which its windows slide."""

    layout: str
    spatial: str

    @staticmethod
    def of(layout: str, spatial: str, keeps: bool) -> "KernelMatrix":
        """Of a kernel in a layout, which `keeps` its inputs outside of the places of a window."""
        inside, outside = ((f"O{order}", f"{order}O") for order in (f"{spatial}I", f"I{spatial}"))
        kept = layout in inside or (keeps and layout in outside)
        return KernelMatrix(layout if kept else inside[0], spatial)

    @property
    def order(self) -> str:
        """The axes that are summed over."""
        return self.layout.replace("O", "")

    @property
    def is_outputs_last(self) -> bool:
        return self.layout.endswith("O")

    def columns(self, weight: Any, layout: str) -> Any:
        """The kernel with a column for each output."""
        matrix = self._matrix(weight, layout)
        return matrix if self.is_outputs_last else matrix.T

    def rows(self, weight: Any, layout: str) -> Any:
        """The kernel with a row for each output."""
        matrix = self._matrix(weight, layout)
        return matrix.T if self.is_outputs_last else matrix

    def _matrix(self, weight: Any, layout: str) -> Any:
        kernel = jnp.transpose(weight, permutation(layout, self.layout))
        outputs = weight.shape[layout.index("O")]
        rest = weight.size // outputs
        return lax.reshape(kernel, (rest, outputs) if self.is_outputs_last else (outputs, rest))

    def beside(self, windows: Windows, padded: Any) -> Any:
        """Windows of (batch, *spatial, channels) as rows, what they cover in this order."""
        covered = beside(windows, padded, channels_last=self.order.endswith("I"))
        batch, count, *elements = covered.shape
        return lax.reshape(covered, (batch * count, math.prod(elements)))

    def apart(self, product: Any, size: Sequence[int]) -> tuple[Any, list[int]]:
        """The last axis of a product as the axes of this order, and which are the spatial ones."""
        channels = product.shape[-1]
        for length in size:
            channels //= length
        sizes = dict(zip(self.spatial, size, strict=True))
        shape = [sizes.get(letter, channels) for letter in self.order]
        first = product.ndim - 1
        axes = [first + self.order.index(letter) for letter in self.spatial]
        return lax.reshape(product, (*product.shape[:-1], *shape)), axes
