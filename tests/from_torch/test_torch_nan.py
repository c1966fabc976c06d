"""What PyTorch makes of NaN, element by element, and how it rounds half precision."""

from typing import Any

import jax
import numpy as np
import pytest
from aten_results import program, slopes, value

from relaxjax import to_jax
from relaxjax.passes import Gradient

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("name", "given", "wanted", "slope"),
    [
        ("hardswish.default", [NAN, INF, -4.0], [NAN, INF, 0], [NAN, 1, 0]),
        ("softshrink.default", [NAN, INF, -0.25], [NAN, INF, 0], [0, 1, 0]),
        ("sign.default", [NAN, INF, -0.0, -2.0], [0, 1, 0, -1], [0, 0, 0, 0]),
        ("sgn.default", [NAN, -INF], [0, -1], [0, 0]),
        ("relu.default", [NAN, -INF], [NAN, 0], None),
        ("hardtanh.default", [NAN, -INF], [NAN, -1], None),
        ("leaky_relu.default", [NAN, 2.0], [NAN, 2], None),
    ],
)
def test_what_is_no_number_stays_so(name: str, given: Any, wanted: Any, slope: Any) -> None:
    np.testing.assert_array_equal(value(name, given), wanted)
    if slope is not None:
        np.testing.assert_array_equal(slopes(name, given)[0], slope)


def test_a_threshold_lets_through_what_is_no_number() -> None:
    options = {"threshold": 0.5, "value": -2.0}
    np.testing.assert_array_equal(
        value("threshold.default", [NAN, 0.5, 1], **options), [NAN, -2, 1]
    )
    np.testing.assert_array_equal(
        slopes("threshold.default", [NAN, 0.5, 1], **options)[0], [1, 0, 1]
    )


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_of_half_precision_is_rounded_once(approximate: str) -> None:
    x = np.linspace(-4, 4, 64, dtype="float32").astype("bfloat16")
    mod = Gradient("main", cotangent=True)(
        program("gelu.default", [x], {"approximate": approximate})
    )
    found, (slope,) = to_jax(mod, "main_adjoint")(x, np.ones_like(x))

    def by_jax(x: Any) -> Any:
        return jax.nn.gelu(x, approximate=approximate == "tanh")

    wide = x.astype("float32")
    np.testing.assert_array_equal(found, by_jax(wide).astype("bfloat16"))
    np.testing.assert_array_equal(slope, jax.vmap(jax.grad(by_jax))(wide).astype("bfloat16"))
