"""Convolutions whose kernel has its spatial axes in another order than strides and padding."""

from typing import Any

import chex
import jax.numpy as jnp
import numpy as np
import pytest

from relaxjax.ops.nn.array_convolution import Convolution, TransposedConvolution
from relaxjax.ops.nn.layouts import permutation

STRIDES, PADS, DILATION = (2, 1), ((0, 1), (2, 0)), (1, 2)


def computed(layouts: tuple[str, str, str], transpose: bool, data: Any, weight: Any) -> Any:
    form = Convolution(STRIDES, PADS, DILATION, 1, *layouts)
    given: Any = TransposedConvolution(form, (1, 0)) if transpose else form
    return given.by_xla(data, weight, jnp.float32)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("layouts", [("NCHW", "WIHO", "NCHW"), ("WCHN", "OWHI", "CNWH")])
def test_strides_and_padding_are_those_of_height_and_width(
    layouts: tuple[str, str, str], transpose: bool
) -> None:
    random = np.random.default_rng(0)
    data = random.normal(size=(2, 3, 5, 6)).astype("float32")
    weight = random.normal(size=(3, 4, 3, 2) if transpose else (4, 3, 3, 2)).astype("float32")
    # The kernel of a transpose has the letters of the convolution that it is the transpose of.
    letters = ("NCHW", "OIHW", "NCHW")
    expected = computed(letters, transpose, data, weight)
    moved = [
        jnp.transpose(x, permutation(order, layout))
        for x, order, layout in zip((data, weight), letters, layouts, strict=False)
    ]
    found = computed(layouts, transpose, *moved)
    wanted = jnp.transpose(expected, permutation("NCHW", layouts[2]))
    chex.assert_trees_all_close(found, wanted, rtol=1e-4, atol=1e-5)
