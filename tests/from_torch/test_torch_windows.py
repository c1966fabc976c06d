"""Windows of PyTorch: where their largest elements stand, of different lengths, with a divisor."""

from typing import Any

import numpy as np
import pytest
from aten_results import slopes, value

from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Constant, Var
from relaxjax.ir.types import TensorType
from relaxjax.torch.aten import TABLE

RANDOM = np.random.default_rng(0)
IMAGE = RANDOM.normal(size=(2, 3, 5, 6)).astype("float32")
TIES = np.zeros((1, 1, 2, 4), "float32")


def _windows(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """The largest element of each window, and its place, by loops."""
    height, width = x.shape[-2:]
    rows, columns = (
        (size + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i, size in enumerate((height, width))
    )
    places = np.zeros((*x.shape[:2], rows, columns), "int64")
    for n, c, i, j in np.ndindex(*places.shape):
        spots = [
            (
                i * stride[0] - padding[0] + a * dilation[0],
                j * stride[1] - padding[1] + b * dilation[1],
            )
            for a in range(kernel[0])
            for b in range(kernel[1])
        ]
        inside = [(p, q) for p, q in spots if 0 <= p < height and 0 <= q < width]
        largest = np.argmax([x[n, c, p, q] for p, q in inside])
        places[n, c, i, j] = inside[largest][0] * width + inside[largest][1]
    return places


@pytest.mark.parametrize(
    "windows",
    [
        ([2, 2], [2, 2], [0, 0], [1, 1]),
        ([3, 2], [1, 2], [1, 0], [1, 1]),
        ([2, 3], [2, 1], [1, 1], [2, 2]),
    ],
)
@pytest.mark.parametrize("image", [IMAGE, TIES + 0 * IMAGE[:1, :1, :2, :4]], ids=["any", "ties"])
def test_where_the_largest_elements_stand(image: Any, windows: Any) -> None:
    kernel, stride, padding, dilation = windows
    image = image if image.shape[-1] == 6 else np.tile(image, (1, 1, 2, 1))
    given = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    rule = TABLE["aten.max_pool2d_with_indices.default"].rule
    wanted = _windows(image, *windows)
    np.testing.assert_array_equal(value(lambda x: rule(x, **given)[1], image), wanted)
    flat = image.reshape(*image.shape[:2], -1)
    largest = np.take_along_axis(flat, wanted.reshape(*flat.shape[:2], -1), 2)
    np.testing.assert_array_equal(
        value(lambda x: rule(x, **given)[0], image).ravel(), largest.ravel()
    )


def test_places_of_rows_and_of_volumes() -> None:
    row = value(lambda x: TABLE["aten.max_pool1d_with_indices.default"].rule(x, [3])[1], IMAGE[0])
    np.testing.assert_array_equal(row, IMAGE[0].reshape(3, 5, 2, 3).argmax(-1) + np.array([0, 3]))
    volume = IMAGE[None, :, :2, :4, :4]
    rule = TABLE["aten.max_pool3d_with_indices.default"].rule
    found = value(lambda x: rule(x, [2, 2, 2])[1], volume)
    flat = volume.reshape(1, 2, -1)
    np.testing.assert_array_equal(
        np.take_along_axis(flat, found.reshape(1, 2, -1), 2).ravel(),
        volume.reshape(1, 2, 1, 2, 2, 2, 2, 2).max((3, 5, 7)).ravel(),
    )


def test_no_places_where_the_sizes_are_not_known() -> None:
    x = Var("x", TensorType((2, 3, SymbolicVar("h"), 6), "float32"))
    assert len(TABLE["aten.max_pool2d_with_indices.default"].rule(x, [2, 2])) == 1


def test_what_is_put_back_to_its_places() -> None:
    places = Constant(np.array([[[[0, 5], [5, 3]]]]))
    rule = TABLE["aten.max_unpool2d.default"].rule

    def unpooled(x: Any) -> Any:
        return rule(x, places, [2, 3]) * Constant(np.arange(1, 7, dtype="float32").reshape(2, 3))

    given = np.array([[[[2, 7], [7, 4]]]], "float32")
    np.testing.assert_array_equal(value(unpooled, given), [[[[2, 0, 0], [16, 0, 42]]]])
    np.testing.assert_array_equal(slopes(unpooled, given)[0], [[[[1, 6], [6, 4]]]])


def test_windows_of_different_lengths() -> None:
    """Of equal elements, the first one of the window has the adjoint, as in PyTorch."""
    found = value("adaptive_max_pool2d.default", IMAGE, output_size=[3, 4])
    rows, columns = [(0, 2), (1, 4), (3, 5)], [(0, 2), (1, 3), (3, 5), (4, 6)]
    wanted = [[IMAGE[:, :, a:b, c:d].max((2, 3)) for c, d in columns] for a, b in rows]
    np.testing.assert_array_equal(found, np.transpose(np.array(wanted), (2, 3, 0, 1)))
    kept = value("adaptive_max_pool1d.default", IMAGE[0], output_size=[None])
    np.testing.assert_array_equal(kept, IMAGE[0])
    slope = slopes(
        "adaptive_max_pool2d.default", np.zeros((1, 1, 3, 3), "float32"), output_size=[2, 2]
    )
    np.testing.assert_array_equal(slope[0], [[[[1, 1, 0], [1, 1, 0], [0, 0, 0]]]])


def test_means_by_another_divisor() -> None:
    given = {"kernel_size": [2, 3], "stride": [2, 3], "divisor_override": 5}
    found = value("avg_pool2d.default", IMAGE[:, :, :4], **given)
    wanted = IMAGE[:, :, :4].reshape(2, 3, 2, 2, 2, 3).sum((3, 5)) / 5
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    padded = {**given, "padding": [1, 0], "count_include_pad": False}
    assert value("avg_pool2d.default", IMAGE[:, :, :4], **padded).shape == (2, 3, 3, 2)
