"""Images and poolings whose sizes are rounded: what PyTorch gave for them, in float64."""

import re
from typing import Any

import numpy as np
import pytest
from aten_results import slopes, value
from refusals import t as tensor

from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Constant
from relaxjax.torch.aten import TABLE

IMAGE = np.arange(20.0).reshape(1, 1, 4, 5) ** 2 / 50
VOLUME = np.arange(12.0).reshape(1, 1, 2, 2, 3) ** 2
ROW = np.arange(1.0, 6.0).reshape(1, 1, 5)
COLUMNS = np.repeat(ROW[..., None], 2, axis=3)
SMALLER = {
    "upsample_nearest2d": [0.0, 0.02, 0.08, 0.5, 0.72, 0.98],
    "_upsample_nearest_exact2d": [0.0, 0.08, 0.18, 2.0, 2.88, 3.38],
    "upsample_bilinear2d": [0.1852381, 0.3347619, 0.5614286, 2.09, 2.7157143, 3.4185714],
    "upsample_bicubic2d": [0.0847161, 0.2072743, 0.4276209, 2.0674508, 2.6937391, 3.4339923],
}
# The first two rows of an image of six rows, whose width stays; the sum of elements times 1, 2, ...
LARGER: dict[str, tuple[list[float], float, list[float]]] = {
    "_upsample_nearest_exact2d": ([0, 0.02, 0.08, 0.18, 0.32] * 2, 1507.1, [7, 13, 43]),
    "upsample_bilinear2d": (
        [0, 0.02, 0.08, 0.18, 0.32, 0.1911765, 0.2876471, 0.4241176, 0.6005882, 0.8170588],
        1384.8647059, [5.0294118, 23.6176471, 38.7647059],
    ),
    "upsample_bicubic2d": (
        [-0.0486967, -0.0500649, -0.0172277, 0.0515714, 0.1726628,
         0.0812836, 0.1526597, 0.2606933, 0.4048187, 0.6094974],
        1356.4880521, [4.1438327, 24.0921614, 47.3137464],
    ),
}  # fmt: skip
pytestmark = pytest.mark.usefixtures("in_64_bits")


@pytest.mark.parametrize("name", SMALLER)
def test_an_image_by_scales(name: str) -> None:
    """A scale says what a new element stands for, also where it is not the one of the sizes."""
    given: list[tuple[str, dict[str, Any]]] = [
        ("vec", {"output_size": None, "scale_factors": [0.6, 0.7]}),
        ("default", {"output_size": [2, 3], "scales_h": 0.6, "scales_w": 0.7}),
    ]
    for overload, options in given:
        found = value(f"{name}.{overload}", IMAGE, **options)
        assert found.shape == (1, 1, 2, 3)
        np.testing.assert_allclose(found.ravel(), SMALLER[name], atol=1e-7)


@pytest.mark.parametrize("name", LARGER)
def test_a_larger_image_by_scales(name: str) -> None:
    rows, total, slope = LARGER[name]

    def weighted(image: Any) -> Any:
        found = TABLE[f"aten.{name}.vec"].rule(image, scale_factors=[1.7, 1.05])
        return found * Constant(np.arange(1.0, 31.0).reshape(1, 1, 6, 5))

    found = value(f"{name}.vec", IMAGE, scale_factors=[1.7, 1.05])
    np.testing.assert_allclose(found.ravel()[:10], rows, atol=1e-7)
    np.testing.assert_allclose(value(weighted, IMAGE).sum(), total, rtol=1e-9)
    np.testing.assert_allclose(slopes(weighted, IMAGE)[0].ravel()[[0, 7, 13]], slope, rtol=1e-7)


def test_one_axis_and_three_by_scales() -> None:
    found = value("upsample_linear1d.vec", ROW**2, scale_factors=[1.5])
    wanted = [1.0, 2.5, 4.8333333, 8.1666667, 12.5, 17.5, 23.5]
    np.testing.assert_allclose(found.ravel(), wanted, rtol=1e-7)
    scales = [1.6, 1.6, 0.7]
    found = value("upsample_trilinear3d.vec", VOLUME, scale_factors=scales)
    wanted = [0.2142857, 2.9285714, 4.7142857, 11.1785714, 10.5, 21.7857143]
    np.testing.assert_allclose(found.ravel()[:6], wanted, rtol=1e-6)
    found = value("upsample_nearest3d.vec", VOLUME.astype("int64"), scale_factors=scales)
    np.testing.assert_array_equal(found.ravel()[:6], [0, 1, 0, 1, 9, 16])


def test_an_image_of_half_precision_is_rounded_once() -> None:
    found = value("upsample_bicubic2d.vec", IMAGE.astype("float16"), scale_factors=[0.6, 0.7])
    assert found.dtype == "float16"
    np.testing.assert_allclose(found.ravel(), SMALLER["upsample_bicubic2d"], atol=2e-3)


@pytest.mark.parametrize(
    ("name", "shape", "scales", "message"),
    [
        ("upsample_nearest1d", (1, 2, 5), [1.1], "an axis of 5 times 1.1 is 5, which is rounded, "),
        ("upsample_nearest1d", (1, 2, 5), [2.1], "an axis of 5 times 2.1 is 10, which is rounded"),
        ("upsample_bicubic2d", (1, 2, 5, 7), [1.0, 1.1], "an axis of 7 times 1.1 is 7, which is"),
    ],
)
def test_where_torch_itself_reads_different_elements(
    name: str, shape: Any, scales: list[float], message: str
) -> None:
    """PyTorch's own values and gradients, or those of two layouts, do not agree there."""
    with pytest.raises(ValueError, match=re.escape(message)):
        TABLE[f"aten.{name}.vec"].rule(tensor(*shape), scale_factors=scales)


def test_a_rounded_size_of_what_is_not_known() -> None:
    rule = TABLE["aten.upsample_nearest1d.default"].rule
    with pytest.raises(ValueError, match=r"needs a length that is known: give the sizes"):
        rule(tensor(1, 2, SymbolicVar("n")), output_size=[7], scales=1.5)


def test_integers_are_not_mixed() -> None:
    """PyTorch rounds them, images of several layouts in several ways."""
    image = tensor(1, 2, 5, 7, dtype="uint8")
    for options in ({"scale_factors": [1.5, 2]}, {"output_size": [10, 14]}):
        with pytest.raises(ValueError, match="an image of uint8 in another size, which PyTorch"):
            TABLE["aten.upsample_bilinear2d.vec"].rule(image, **options)
    with pytest.raises(ValueError, match="means of int64 by a divisor: give the numbers as floats"):
        TABLE["aten.avg_pool2d.default"].rule(
            tensor(1, 2, 5, 7, dtype="int64"), 3, divisor_override=2
        )


@pytest.mark.parametrize(
    ("given", "image", "wanted"),
    [
        (((3, 1), (3, 1), (1, 0), True), COLUMNS, [1, 1, 4, 4]),
        (((2, 1), (2, 1), 0, True), COLUMNS, [1.5, 1.5, 3.5, 3.5, 5, 5]),
        (((2, 1), (2, 1), 0, True, True, 3), COLUMNS, [1, 1, 7 / 3, 7 / 3, 5 / 3, 5 / 3]),
        (((3, 1), (2, 1), (1, 0), True, False, 4), COLUMNS, [0.75, 0.75, 2.25, 2.25, 2.25, 2.25]),
    ],
)
def test_means_of_windows_that_are_cut_off(given: Any, image: Any, wanted: list[float]) -> None:
    """No window begins in the padding behind."""

    def rule(x: Any) -> Any:
        return TABLE["aten.avg_pool2d.default"].rule(x, *given)

    np.testing.assert_allclose(value(rule, image).ravel(), wanted)
    np.testing.assert_allclose((slopes(rule, image)[0] * image).sum(), np.sum(wanted))


@pytest.mark.parametrize(
    ("stride", "padding", "more", "dilation", "wanted"),
    [
        (1, 0, 1, 2, [1.5, 2.5, 5.5, 8.5, 14.5, 14.5, 19.5, 12.5, 15.5, 0.5]),
        (1, 1, 2, 3, [2.5, 3.5, 6.5, 9.5, 6.5, 11.5, 16.5, 9.5, 12.5, 15.5, 0.5]),
        (2, 2, 2, 3, [2.5, 2.5, 3.5, 4.5, 7.5, 6.5, 11.5, 8.5, 9.5, 10.5, 12.5, 0.5, 15.5]),
    ],
)
def test_a_transposed_convolution_that_is_longer_by_more_than_its_stride(
    stride: int, padding: int, more: int, dilation: int, wanted: list[float]
) -> None:
    weight, bias = np.arange(1.0, 4.0).reshape(1, 1, 3), np.array([0.5])

    def rule(x: Any, weight: Any, bias: Any) -> Any:
        options = stride, padding, more, 1, dilation
        return TABLE["aten.conv_transpose1d.default"].rule(x, weight, bias, *options)

    np.testing.assert_allclose(value(rule, ROW, weight, bias).ravel(), wanted)
    found = slopes(rule, ROW, weight, bias)
    linear = np.sum(wanted) - 0.5 * len(wanted)
    for slope, given in zip(found, (ROW, weight), strict=False):
        np.testing.assert_allclose((slope * given).sum(), linear)
    np.testing.assert_allclose(found[2], [len(wanted)])
