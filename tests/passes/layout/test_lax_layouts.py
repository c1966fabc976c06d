"""What the primitives of JAX do between convolutions whose layout is converted."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from same_results import assert_same_results, calls_of

from relaxjax import TensorType, from_jax
from relaxjax.passes import ConvertLayout, RaiseOps

NHWC = {"relax.nn.conv2d": ["NHWC", "OIHW"]}
NAMES = ("NCHW", "OIHW", "NCHW")
X, W = TensorType((2, 3, 5, 6), "float32"), TensorType((4, 3, 2, 3), "float32")
B = TensorType((4,), "float32")

# What becomes of y of shape (2, 4, 4, 4), with b of shape (4,); and how many tensors of four axes
# or more are rearranged, the image that goes in among them.
CASES: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "elementwise": (lambda y, b: jnp.where(y > 0, jnp.exp(y) * 2, lax.tanh(y)).sum(), 1),
    "a bias": (lambda y, b: (y + b[None, :, None, None]).mean((2, 3)), 1),
    "a bias of rows": (lambda y, b: (y * b[None, None, :, None]).max((1, 2)), 1),
    "a bias by its own axes": (lambda y, b: (y - b.reshape(1, 4, 1, 1)).sum((0, 2, 3)), 1),
    "a statistic": (lambda y, b: (y / y.mean((1, 3), keepdims=True)).sum((2, 3)), 1),
    "joined": (lambda y, b: jnp.concatenate([y, y * 2], 1).sum((0, 3)), 1),
    "joined with what comes in": (lambda y, b: lax.concatenate([y, jnp.ones_like(y)], 2).sum(), 1),
    "padded": (lambda y, b: lax.pad(y, 1.0, [(0, 0, 0), (1, 2, 0), (0, 1, 1), (0, -1, 0)]), 2),
    "cut out": (lambda y, b: (y[:, 1:3, ::2] ** 2)[:, :, 1:].prod((0, 1)), 1),
    "turned round": (lambda y, b: jnp.flip(y, (1, 3)).min((0, 2)), 1),
    "transposed": (lambda y, b: lax.transpose(y, (0, 2, 3, 1)) @ b, 1),
    "flattened": (lambda y, b: y.reshape(2, 4, 16).sum(2), 1),
    "added up along one axis": (lambda y, b: jnp.cumsum(y, 1), 2),
    "not differentiated": (lambda y, b: lax.stop_gradient(y) * y, 2),
    "repeated": (lambda y, b: jnp.broadcast_to(y[:, :, :1], (2, 4, 3, 4)).sum((0, 1)), 1),
    "relu": (lambda y, b: jax.nn.relu(y).sum((2, 3)), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_layouts_go_through_primitives(name: str) -> None:
    after, count = CASES[name]

    def program(x: Any, w: Any, b: Any) -> Any:
        y = lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=NAMES)
        return after(y, b)

    before = RaiseOps()(from_jax(program, X, W, B))
    converted = ConvertLayout(NHWC)(before)
    assert_same_results(before, converted)
    moved = [call for call in calls_of(converted, "permute_dims") if _is_large(call.ty)]
    assert len(moved) == count


def _is_large(ty: Any) -> bool:
    return isinstance(ty, TensorType) and sum(dim != 1 for dim in ty.dims or ()) >= 3
