"""A convolution with its arrays: what a form is chosen by, and what it computes."""

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from relaxjax.ops.nn.array_convolution import Convolution
from relaxjax.ops.nn.layouts import by_letter
from relaxjax.ops.nn.windows import Windows

# Shifted tensors and slices are programs of their own: there are not more of them than this.
MANY_PLACES = 64
# Products are faster than XLA's convolution where there are so many channels on both sides,
# in images of so few places, and so few of these in a batch.
WIDE, SMALL, LONG = 128, 64, 1024
FEW = 4  # channels, of which XLA's own convolution is slow
_USUAL = 32  # what a batch counts whose size is known when the program runs only


def known(lengths: Iterable[Any]) -> bool:
    """Whether all are numbers before the program runs."""
    return all(isinstance(length, int) for length in lengths)


def usual(length: Any) -> int:
    """A length as it counts where forms are chosen."""
    return length if isinstance(length, int) else _USUAL


@dataclass(frozen=True, eq=False)
class Case:
    """A convolution of these arrays, whose sums are added up in `dtype`."""

    of: Convolution
    data: Any
    weight: Any
    dtype: Any

    @functools.cached_property
    def windows(self) -> Windows:
        return self.of.windows(self.data.shape, self.weight)

    @functools.cached_property
    def counts(self) -> "Counts | None":
        """None where a spatial length is not known before the program runs, or nothing is to do."""
        image = by_letter(self.data.shape, self.of.data_layout)
        kernel = by_letter(self.weight.shape, self.of.kernel_layout)
        lengths = tuple(image[letter] for letter in self.of.spatial)
        spatial = (*lengths, *self.windows.size, *self.windows.counts)
        if not known(spatial) or min(spatial) < 1 or 0 in (image["N"], *self.weight.shape):
            return None
        sizes = map(usual, (image["N"], kernel["O"], kernel["I"]))
        return Counts(*sizes, *map(math.prod, (lengths, self.windows.size, self.windows.counts)))


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is to do."""

    batch: int
    outputs: int
    inputs: int  # of each group
    elements: int  # of an image
    places: int  # of a window
    results: int  # of an image
