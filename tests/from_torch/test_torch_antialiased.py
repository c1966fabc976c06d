"""Images in other sizes without aliasing: what PyTorch gave for them, in float64."""

import re
from typing import Any

import numpy as np
import pytest
from aten_results import slopes, value

from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Var
from relaxjax.ir.types import TensorType
from relaxjax.torch.aten import TABLE

IMAGE = (np.arange(20, dtype="float32").reshape(1, 1, 4, 5) ** 2) / 50
WANTED = {
    ("bilinear", False): [0.5697959, 0.8746032, 1.2702041, 3.0616327, 3.8603175, 4.7497959],
    ("bilinear", True): [1.4485714, 2.015, 2.4725, 4.067619, 5.14, 5.9516667],
    ("bicubic", False): [0.3465633, 0.6202706, 0.9963179, 3.2154889, 4.0905185, 5.0678881],
    ("bicubic", True): [1.3728613, 2.0094692, 2.523726, 4.3407621, 5.6552003, 6.6352902],
}
BY_SCALES = {
    "bilinear": [0.295510, 0.568571, 2.527937, 3.362222],
    "bicubic": [0.131310, 0.410292, 2.542996, 3.522571],
}


@pytest.mark.parametrize(("mode", "by_corners"), WANTED)
def test_a_smaller_image(mode: str, by_corners: bool) -> None:
    name = f"_upsample_{mode}2d_aa.vec"
    options = {"output_size": [2, 3], "align_corners": by_corners}
    found = value(name, IMAGE, **options)
    assert found.shape == (1, 1, 2, 3)
    np.testing.assert_allclose(found.ravel(), WANTED[mode, by_corners], rtol=2e-6)
    spread = slopes(name, IMAGE, **options)[0]  # linear, so the slopes weigh the image as it does
    np.testing.assert_allclose(np.sum(spread * IMAGE), found.sum(), rtol=1e-5)


@pytest.mark.parametrize("mode", BY_SCALES)
def test_a_smaller_image_by_scales(mode: str) -> None:
    """A scale says what a new element stands for, also where it is not the one of the sizes."""
    given: list[tuple[str, dict[str, Any]]] = [
        ("vec", {"output_size": None, "scale_factors": [0.6, 0.5]}),
        ("default", {"output_size": [2, 2], "scales_h": 0.6, "scales_w": 0.5}),
    ]
    for overload, options in given:
        found = value(f"_upsample_{mode}2d_aa.{overload}", IMAGE, align_corners=False, **options)
        np.testing.assert_allclose(found.ravel(), BY_SCALES[mode], rtol=1e-5)


@pytest.mark.parametrize(
    ("ty", "message"),
    [
        (
            TensorType((1, 1, 4, 5), "uint8"),
            "an image of uint8 in another size, which PyTorch rounds",
        ),
        (
            TensorType((1, 1, SymbolicVar("n"), 5), "float32"),
            "an axis of n becomes one of 2 without aliasing, whose weights need both lengths",
        ),
    ],
)
def test_an_image_that_is_refused(ty: TensorType, message: str) -> None:
    rule = TABLE["aten._upsample_bilinear2d_aa.vec"].rule
    with pytest.raises(ValueError, match=re.escape(message)):
        rule(Var("x", ty), [2, 3], False, None)
