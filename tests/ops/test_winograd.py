"""Gradients of 3x3 kernels by sums of tiles on a CPU: where they are chosen, and how exact."""

from collections.abc import Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from relaxjax import Call, IRModule, TensorType, Var, to_jax
from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.op import get_op
from relaxjax.ir.walk import post_order
from relaxjax.passes import Gradient, LegalizeOps, SimplifyGradient

LAST = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
IMAGES, KERNEL = (4, 8, 8, 128), (3, 3, 128, 136)


def adjoint(
    images: Sequence[int] = IMAGES,
    kernel: Sequence[int] = KERNEL,
    target: str = "cpu",
    dtype: str = "float32",
    **attrs: Any,
) -> IRModule:
    """The gradient of a kernel, legalised."""
    x, w = (Var(n, TensorType(s, dtype)) for n, s in (("x", images), ("w", kernel)))
    builder = BlockBuilder()
    with builder.scope(["x", "w"]):
        body = builder.sequence(
            builder.emit(get_op("relax.nn.conv2d")(x, w, **{"padding": 1, **LAST, **attrs}))
        )
    module = IRModule({"main": make_function([x, w], body)})
    return LegalizeOps(target)(SimplifyGradient()(Gradient("main", ["w"], cotangent=True)(module)))


def is_by_tiles(module: IRModule) -> bool:
    """Whether 16 matrices are multiplied at a time."""
    product = get_op("lax.dot_general")
    calls = (expr for expr in post_order(module["main_adjoint"]) if isinstance(expr, Call))
    types = (call.ty for call in calls if call.op is product)
    return any(isinstance(ty, TensorType) and (ty.dims or [0])[0] == 16 for ty in types)


@pytest.mark.parametrize("layout", ["HWIO", "OIHW"])
@pytest.mark.parametrize("padding", [[1, 1, 1, 1], [0, 2, 2, 0]])
def test_the_gradient_is_exact_to_few_roundings(layout: str, padding: list[int]) -> None:
    """Of its largest number: 4e-6 apart from sums in float64, and from what JAX computes."""
    kernel = [{"O": 136, "I": 128}.get(letter, 3) for letter in layout]
    module = adjoint(kernel=kernel, kernel_layout=layout, padding=padding)
    assert is_by_tiles(module)
    random = np.random.default_rng(0)
    x, w, g = (
        random.normal(size=shape).astype("float32")
        for shape in (IMAGES, kernel, (*IMAGES[:3], 136))
    )
    (found,) = jax.jit(to_jax(module, "main_adjoint"))(x, w, g)[1]
    top, left, bottom, right = padding
    padded = np.pad(x.astype("float64"), [(0, 0), (top, bottom), (left, right), (0, 0)])
    wanted = np.zeros((3, 3, 128, 136))
    for i, j in np.ndindex(3, 3):
        rows = padded[:, i : i + 8, j : j + 8].reshape(-1, 128)
        wanted[i, j] = rows.T @ g.reshape(-1, 136)

    def loss(w: Any) -> Any:
        sides, names = [(top, bottom), (left, right)], ("NHWC", layout, "NHWC")
        return jnp.vdot(
            lax.conv_general_dilated(jnp.asarray(x), w, (1, 1), sides, dimension_numbers=names), g
        )

    order = ["HWIO".index(letter) for letter in layout]
    largest = np.abs(wanted).max()
    chex.assert_trees_all_close(found, wanted.transpose(order), rtol=0, atol=4e-6 * largest)
    chex.assert_trees_all_close(found, jax.jit(jax.grad(loss))(w), rtol=0, atol=4e-6 * largest)


ELSEWHERE: dict[str, dict[str, Any]] = {
    "on a GPU": {"target": "cuda"},
    "channels first": {
        "images": (4, 128, 8, 8),
        "kernel": (128, 128, 3, 3),
        "data_layout": "NCHW",
        "kernel_layout": "OIHW",
    },
    "64 channels, where the sums take more memory": {
        "images": (8, 8, 8, 64),
        "kernel": (3, 3, 64, 64),
    },
    "an odd length": {"images": (8, 8, 9, 128)},
    "few tiles": {"images": (3, 8, 8, 128)},
    "many tiles": {"images": (8, 32, 32, 128)},
    "strides": {"strides": 2, "images": (16, 8, 8, 128)},
    "dilation": {"dilation": 2, "padding": 2},
    "another kernel": {"kernel": (5, 5, 128, 128), "padding": 2},
    "half precision": {"dtype": "bfloat16"},
}


@pytest.mark.parametrize("case", ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_has_another_form(case: dict[str, Any]) -> None:
    assert not is_by_tiles(adjoint(**case))
