"""Handwritten digits that ship with the package: data/ATTRIBUTION.md says whose they are."""

from pathlib import Path

import numpy as np

from . import idx
from .image_data import Array, Dataset, as_images, as_labels

DATA = Path(__file__).parent / "data"
SIDE = 8
CLASS_NAMES = tuple("0123456789")


def digits(size: int | None = None, *, flatten: bool = True, one_hot: bool = False) -> Dataset:
    """The UCI handwritten digits: 1442 training and 355 test images of 8x8 grey pixels.

    `size` enlarges the images to `size` x `size`, such as the 28x28 of Fashion-MNIST. `flatten`
    gives each image as one row of pixels. Labels are int32, or with `one_hot` rows of float32.
    """
    if size is not None and not hasattr(size, "__index__"):
        raise TypeError(f"`size` must be a number of pixels, but it is {size!r}")
    if size is not None and size < SIDE:
        raise ValueError(
            f"digits are {SIDE}x{SIDE} images and can only be enlarged, but `size` is {size}"
        )

    def images(part: str) -> Array:
        pixels = idx.read(DATA / f"{part}-images-idx3-ubyte.gz").astype(np.float32) / 255
        return as_images(_enlarge(pixels, size or SIDE), flatten)

    def labels(part: str) -> Array:
        classes = idx.read(DATA / f"{part}-labels-idx1-ubyte.gz")
        return as_labels(classes, len(CLASS_NAMES), one_hot)

    return Dataset(images("train"), labels("train"), images("t10k"), labels("t10k"), CLASS_NAMES)


def _enlarge(images: Array, size: int) -> Array:
    """Square images `(count, side, side)` made `size` pixels wide by bilinear interpolation."""
    weights = _weights(images.shape[-1], size).astype(images.dtype)
    enlarged: Array = weights @ images @ weights.T
    return enlarged


def _weights(side: int, size: int) -> Array:
    """The matrix that interpolates linearly from `side` samples to `size`.

    Samples stand at the centres of their pixels; beyond the outermost centres the edge goes on.
    """
    centres = (np.arange(size) + 0.5) * side / size - 0.5
    centres = np.clip(centres, 0, side - 1)
    distance = np.abs(centres[:, None] - np.arange(side)[None, :])
    weights: Array = np.maximum(0, 1 - distance)
    return weights
