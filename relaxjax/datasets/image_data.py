"""What the sets of images have in common: their arrays, made of stored pixels and classes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relaxjax.ir.arguments import check_flags

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Images as float32 from 0 to 1 and labels, each split into a training and a test part."""

    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array
    class_names: tuple[str, ...]


def as_images(pixels: Array, flatten: bool) -> Array:
    """Pixels from 0 to 1, each image as one row where it is to be flat."""
    check_flags(flatten=flatten)
    return pixels.reshape(len(pixels), -1) if flatten else pixels


def as_labels(classes: Array, count: int, one_hot: bool) -> Array:
    """Classes as int32, or as rows of float32."""
    check_flags(one_hot=one_hot)
    ids = classes.astype(np.int32)
    return np.eye(count, dtype=np.float32)[ids] if one_hot else ids
