"""What windows cover, copied and put back by numbers, is what slices and padding give."""

from functools import reduce
from typing import TypeAlias

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from relaxjax.ops.nn.cpu.window_numbers import beside, can_be_put_back, put_back
from relaxjax.ops.nn.windows import Windows

# Size, strides, pads and dilation.
Pair: TypeAlias = tuple[int, int]
Window: TypeAlias = tuple[Pair, Pair, tuple[Pair, Pair], Pair]
WINDOWS: list[Window] = [
    ((3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    ((2, 3), (2, 1), ((0, 1), (2, 0)), (1, 1)),
    ((3, 2), (1, 2), ((1, 1), (0, 0)), (2, 3)),
    ((2, 2), (3, 2), ((-1, 0), (1, -1)), (1, 1)),
    ((1, 4), (1, 1), ((0, 0), (1, 2)), (1, 1)),
]
DATA = np.random.default_rng(0).normal(size=(2, 7, 6, 3)).astype("float32")


def windows_of(window: Window) -> Windows:
    size, strides, pads, dilation = window
    counts = [
        (length + low + high - (places - 1) * apart - 1) // stride + 1
        for length, places, stride, (low, high), apart in zip(
            DATA.shape[1:3], size, strides, pads, dilation, strict=True
        )
    ]
    return Windows((1, 2), size, strides, pads, dilation, tuple(counts))


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("channels_last", [True, False])
def test_what_windows_cover_stands_side_by_side(window: Window, channels_last: bool) -> None:
    windows = windows_of(window)
    padded = windows.padded(jnp.asarray(DATA), 0)
    slices = [windows.at(padded, place).reshape(2, -1, 3) for place in windows.places()]
    covered = beside(windows, padded, channels_last)
    chex.assert_trees_all_equal(covered, jnp.stack(slices, 2 if channels_last else 3))


@pytest.mark.parametrize("window", WINDOWS)
def test_what_lies_at_each_place_is_put_back_where_windows_cover_it(window: Window) -> None:
    windows, lengths = windows_of(window), DATA.shape[1:3]
    rng = np.random.default_rng(1)
    shape = (2, *windows.counts, 3)
    parts = {p: jnp.asarray(rng.normal(size=shape).astype("float32")) for p in windows.places()}
    whole = windows.padded_shape(DATA.shape)
    by_padding = reduce(jnp.add, (windows.back(part, p, whole) for p, part in parts.items()))
    assert can_be_put_back(windows, lengths)
    chex.assert_trees_all_equal(put_back(windows, parts, lengths), windows.unpadded(by_padding))


def test_a_row_of_windows_is_one_gather_and_many_windows_are_slices() -> None:
    """A program that held the numbers of many would be large."""

    def primitives(side: int) -> list[str]:
        windows = Windows((1, 2), (3, 3), (1, 1), ((0, 0),) * 2, (1, 1), (side - 2,) * 2)
        made = jax.make_jaxpr(lambda x: beside(windows, x, True))(jnp.zeros((1, side, side, 2)))
        return [equation.primitive.name for equation in made.eqns]

    assert (primitives(8).count("gather"), primitives(8).count("slice")) == (3, 0)
    assert (primitives(32).count("gather"), primitives(32).count("slice")) == (0, 9)


@pytest.mark.parametrize(("size", "side"), [((1, 1), 4), ((3, 3), 32)])
def test_one_place_and_long_axes_are_not_put_back_by_numbers(size: Pair, side: int) -> None:
    windows = Windows((1, 2), size, (1, 1), ((0, 0),) * 2, (1, 1), (side, side))
    assert not can_be_put_back(windows, (side, side))
