"""Handwritten digits that ship with the package: data/ATTRIBUTION.md says whose they are."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import idx
from .resize import enlarge

Array = np.ndarray[Any, np.dtype[Any]]

DATA = Path(__file__).parent / "data"
SIDE = 8
CLASS_NAMES = tuple("0123456789")


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Images as float32 from 0 to 1 and labels, each split into a training and a test part."""

    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array
    class_names: tuple[str, ...]


def digits(size: int | None = None, *, flatten: bool = True, one_hot: bool = False) -> Dataset:
    """The UCI handwritten digits: 1442 training and 355 test images of 8x8 grey pixels.

    `size` enlarges the images to `size` x `size`, such as the 28x28 of Fashion-MNIST. `flatten`
    gives each image as one row of pixels. Labels are int32, or with `one_hot` rows of float32.
    """
    if size is not None and size < SIDE:
        raise ValueError(
            f"digits are {SIDE}x{SIDE} images and can only be enlarged, but `size` is {size}"
        )

    def images(part: str) -> Array:
        pixels = idx.read(DATA / f"{part}-images-idx3-ubyte.gz").astype(np.float32) / 255
        pixels = enlarge(pixels, size or SIDE)
        return pixels.reshape(len(pixels), -1) if flatten else pixels

    def labels(part: str) -> Array:
        classes = idx.read(DATA / f"{part}-labels-idx1-ubyte.gz").astype(np.int32)
        return np.eye(len(CLASS_NAMES), dtype=np.float32)[classes] if one_hot else classes

    return Dataset(images("train"), labels("train"), images("t10k"), labels("t10k"), CLASS_NAMES)
