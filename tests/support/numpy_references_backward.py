"""What the backward operators compute: slopes of the forward references, by central differences.

So nothing of a rule for an adjoint is known here. Where a function is linear in an argument the
differences are exact but for rounding.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy_references_attention import ATTENTION
from numpy_references_image import IMAGE
from numpy_references_indexing import sparse_dense, take
from numpy_references_nn import NETWORK
from numpy_references_vision import VISION
from numpy_references_windows import pooling

STEP = 1e-5


def adjoints(forward: Callable[..., Any], *places: int) -> Callable[..., Any]:
    """The adjoints of the arguments at `places`, of one of them no tuple."""

    def run(g: Any, *args: Any, **attrs: Any) -> Any:
        found = [_adjoint(forward, g, list(args), place, attrs) for place in places]
        return tuple(found) if len(places) > 1 else found[0]

    return run


def product_nll_loss_backward(g: Any, *args: Any, **attrs: Any) -> Any:
    """The loss too, and the adjoint of a bias where there is one."""
    forward = NETWORK["relax.nn.product_nll_loss"]
    places = (0, 1, 3) if len(args) > 3 and args[3] is not None else (0, 1)
    return (forward(*args, **attrs), *adjoints(forward, *places)(g, *args, **attrs))


def _adjoint(
    forward: Callable[..., Any], g: Any, args: list[Any], place: int, attrs: dict[str, Any]
) -> Any:
    x = np.asarray(args[place], "float64")
    slopes = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        ends = []
        for step in (STEP, -STEP):
            moved = x.copy()
            moved[at] += step
            ends.append(forward(*args[:place], moved, *args[place + 1 :], **attrs))
        slopes[at] = np.sum((ends[0] - ends[1]) * g) / (2 * STEP)
    return slopes


def rows(values: Any, places: Any, shape: Any) -> Any:
    return put_rows(np.zeros(shape, values.dtype), values, places, accumulate=True)


def put_rows(data: Any, values: Any, places: Any, accumulate: bool = False) -> Any:
    y = data.copy()
    for at in np.ndindex(places.shape):
        if 0 <= places[at] < len(y):
            y[places[at]] = y[places[at]] * accumulate + values[at]
    return y


def summed_rows(values: Any, places: Any, shape: Any) -> Any:
    found = sorted({int(place) for place in places.flat if 0 <= place < shape[0]})
    summed = np.zeros((places.size, *shape[1:]), values.dtype)
    for slot, place in enumerate(found):
        summed[slot] = values[places == place].sum(0, dtype=values.dtype)
    dtype = places.dtype if places.dtype.itemsize >= 4 else np.int32
    return summed, np.array(found + [shape[0]] * (places.size - len(found)), dtype)


BACKWARD: dict[str, Callable[..., Any]] = {
    "relax.grad.attention_backward": adjoints(ATTENTION["relax.nn.attention"], 0, 1, 2),
    "relax.grad.attention_bias_backward": adjoints(ATTENTION["relax.nn.attention"], 0, 1, 2, 3),
    "relax.grad.attention_var_len_backward": adjoints(
        ATTENTION["relax.nn.attention_var_len"], 0, 1, 2
    ),
    "relax.grad.grid_sample_backward": adjoints(IMAGE["relax.image.grid_sample"], 0, 1),
    "relax.grad.masked_attention_backward": adjoints(
        ATTENTION["relax.nn.masked_attention"], 0, 1, 2
    ),
    "relax.grad.nll_loss_backward": adjoints(NETWORK["relax.nn.nll_loss"], 0),
    "relax.grad.product_nll_loss_backward": product_nll_loss_backward,
    "relax.grad.resize2d_backward": adjoints(IMAGE["relax.image.resize2d"], 0),
    "relax.grad.resize3d_backward": adjoints(IMAGE["relax.image.resize3d"], 0),
    "relax.grad.roi_align_backward": adjoints(VISION["relax.vision.roi_align"], 0, 1),
    "relax.grad.roi_pool_backward": adjoints(VISION["relax.vision.roi_pool"], 0),
    "relax.grad.softmax_nll_loss_backward": adjoints(NETWORK["relax.nn.softmax_nll_loss"], 0),
    "relax.grad.rows": rows,
    "relax.grad.summed_rows": summed_rows,
    "relax.grad.put_rows": put_rows,
    "relax.grad.sparse_dense_backward": adjoints(sparse_dense, 0, 1),
    "relax.grad.take_backward": adjoints(take, 0),
    **{
        f"relax.grad.{kind}_pool{n}d_backward": adjoints(pooling(kind, n, False), 0)
        for kind in ("max", "avg")
        for n in (1, 2, 3)
    },
}
