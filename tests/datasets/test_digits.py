"""The digits that ship with the package."""

from collections.abc import Callable

import chex
import jax
import numpy as np
import pytest

from relaxjax.datasets import digits
from relaxjax.datasets.digits import _enlarge


def test_shapes_and_types_as_stored() -> None:
    data = digits(flatten=False)
    chex.assert_shape(data.train_images, (1442, 8, 8))
    chex.assert_shape(data.test_images, (355, 8, 8))
    chex.assert_shape([data.train_labels, data.test_labels], [(1442,), (355,)])
    chex.assert_type([data.train_images, data.test_images], np.float32)
    chex.assert_type([data.train_labels, data.test_labels], np.int32)
    assert data.class_names == tuple("0123456789")


def test_pixels_use_the_range_from_zero_to_one() -> None:
    data = digits()
    for images in (data.train_images, data.test_images):
        assert images.min() == 0
        assert images.max() == 1
    assert len(np.unique(data.train_images)) == 17, "the source knows 17 shades of grey"


def test_every_class_is_in_both_parts_in_like_measure() -> None:
    data = digits()
    for labels in (data.train_labels, data.test_labels):
        counts = np.bincount(labels, minlength=10)
        assert len(counts) == 10
        assert counts.max() - counts.min() <= 8


def test_no_image_is_in_both_parts() -> None:
    data = digits()
    seen = {image.tobytes() for image in data.train_images}
    assert not [image for image in data.test_images if image.tobytes() in seen]


def test_labels_belong_to_their_images() -> None:
    """The nearest mean image of a class names most test images rightly; shuffled labels cannot."""
    data = digits()
    means = np.stack([data.train_images[data.train_labels == c].mean(0) for c in range(10)])
    distances = ((data.test_images[:, None] - means[None]) ** 2).sum(-1)
    assert (distances.argmin(-1) == data.test_labels).mean() > 0.85


def test_enlarged_and_flattened_for_the_tutorial() -> None:
    data = digits(size=28)
    chex.assert_shape([data.train_images, data.test_images], [(1442, 784), (355, 784)])
    square = digits(size=28, flatten=False)
    chex.assert_shape(square.test_images, (355, 28, 28))
    np.testing.assert_array_equal(square.test_images.reshape(355, 784), data.test_images)


def test_one_hot_labels() -> None:
    rows = digits(one_hot=True).test_labels
    chex.assert_shape(rows, (355, 10))
    chex.assert_type(rows, np.float32)
    np.testing.assert_array_equal(rows.argmax(-1), digits().test_labels)
    np.testing.assert_array_equal(rows.sum(-1), 1)


@pytest.mark.parametrize("size", [7, 0, -28])
def test_digits_cannot_shrink(size: int) -> None:
    with pytest.raises(ValueError, match=f"can only be enlarged, but `size` is {size}"):
        digits(size=size)


def test_each_call_gives_arrays_of_its_own() -> None:
    digits().test_images[:] = 0.5
    assert digits().test_images.max() == 1


@pytest.mark.parametrize("size", [8, 13, 16, 28])
def test_enlarging_agrees_with_jax(size: int) -> None:
    images = np.random.default_rng(0).random((3, 8, 8), np.float32)
    resize: Callable[..., jax.Array] = jax.image.resize
    expected = resize(images, (3, size, size), "bilinear")
    chex.assert_trees_all_close(_enlarge(images, size), np.asarray(expected), atol=1e-6)


def test_enlarging_to_the_same_size_changes_nothing() -> None:
    images = np.random.default_rng(0).random((3, 8, 8), np.float32)
    np.testing.assert_array_equal(_enlarge(images, 8), images)


def test_a_size_that_is_no_number_of_pixels() -> None:
    with pytest.raises(TypeError, match=r"`size` must be a number of pixels, but it is 28\.5"):
        digits(28.5)  # type: ignore[arg-type]  # what the test is about
