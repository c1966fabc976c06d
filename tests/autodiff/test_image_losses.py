"""`value_and_grad` of losses with convolutions."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax
from relaxjax.ops.platform import lowering_for


@pytest.mark.parametrize(
    ("padding", "stride", "spread"),
    [(((4, 0), (1, 5)), 1, 3), (((4, 4), (4, 0)), 1, 1), (((-1, 0), (1, -2)), 2, 1)],
)
def test_padding_wider_than_a_kernel_or_negative(padding: Any, stride: int, spread: int) -> None:
    """Against JAX's forward mode, of cropped data: XLA reads beside what padding takes from."""
    random = np.random.default_rng(0)
    x, w, weights = (
        random.normal(size=shape).astype("float32")
        for shape in ((2, 5, 5, 2), (3, 2, 2, 3), (2, 1, 1, 3))
    )

    def weighed(x: jax.Array, w: jax.Array, padding: Any = padding) -> jax.Array:
        names = ("NHWC", "HWIO", "NHWC")
        result = jax.lax.conv_general_dilated(
            x, w, (stride, stride), padding, (spread, spread), dimension_numbers=names
        )
        return jnp.sum(jnp.sin(result) * weights)

    def cropped(x: jax.Array, w: jax.Array) -> jax.Array:
        rows, columns = (slice(max(-low, 0), 5 - max(-high, 0)) for low, high in padding)
        added = [(max(low, 0), max(high, 0)) for low, high in padding]
        return weighed(x[:, rows, columns], w, added)

    expected = jax.jit(jax.jacfwd(cropped, (0, 1)))(x, w)
    found = relaxjax.grad(weighed, (0, 1))(x, w)
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-5)


def test_images_are_computed_with_their_channels_last() -> None:
    """On a CPU; of what it takes and gives, no shape changes, and kernels are not rearranged."""

    def convolved(kernels: Any, x: jax.Array) -> jax.Array:
        names = ("NCHW", "OIHW", "NCHW")
        for kernel in kernels:
            y = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=names)
            x = jax.nn.relu(y) + x
        return jnp.sum(jnp.mean(x, (2, 3)) ** 2)

    random = np.random.default_rng(0)
    kernels = [random.normal(size=(16, 16, 3, 3)).astype("float32") / 12 for _ in range(2)]
    x = random.normal(size=(2, 16, 6, 6)).astype("float32")
    ours = relaxjax.value_and_grad(convolved)
    found, expected = (jax.jit(f)(kernels, x) for f in (ours, jax.value_and_grad(convolved)))
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-5)
    with lowering_for("cpu"):
        assert "(2, 6, 6, 16)" in ours.module(kernels, x).script()
    with lowering_for("cuda"):
        assert "(2, 6, 6, 16)" not in ours.module(kernels, x).script()


def test_a_convolution_with_a_rule_of_its_own_keeps_it() -> None:
    """Where layouts change, too."""
    backward = jax.custom_vjp(lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME"))
    backward.defvjp(lambda x, w: (backward(x, w), (x, w)), lambda kept, g: kept)

    def convolved(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.sum(backward(x, w))

    x, w = (np.full(shape, 0.5, "float32") for shape in ((2, 16, 6, 6), (16, 16, 3, 3)))
    with lowering_for("cpu"):
        chex.assert_trees_all_equal(relaxjax.grad(convolved, (0, 1))(x, w), (x, w))
