"""Convolutions run with their channels last on a CPU: XLA is fast at no other order in a loop."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest
from jax import lax
from parsing import parse_main

import relaxjax
from relaxjax.frontends.from_jax import from_jax
from relaxjax.lowering import legalize, to_jax
from relaxjax.passes import LegalizeOps

LAYOUTS = [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC"), ("CHWN", "IHWO", "HWNC")]
IN_ORDER = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"


def drawn(seed: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


def convolved(data: Any, kernel: Any, layouts: tuple[str, str, str], **params: Any) -> Any:
    params = {"window_strides": (1, 1), "padding": "SAME", **params}
    return lax.conv_general_dilated(data, kernel, dimension_numbers=layouts, **params)


def orders(run: Callable[..., Any], *args: Any) -> set[str]:
    """The layouts of all convolutions that XLA is given for a CPU."""
    text = jax.jit(run).lower(*args).as_text()
    return {
        line.split("dim_numbers = ")[1].split(", window")[0]
        for line in text.splitlines()
        if "stablehlo.convolution(" in line
    }


def shaped(sizes: dict[str, int], layout: str) -> tuple[int, ...]:
    return tuple(sizes[letter] for letter in layout)


@pytest.mark.parametrize("layouts", LAYOUTS, ids="-".join)
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"window_strides": (2, 1), "padding": ((1, 2), (0, 1))},
        {"padding": ((2, 2), (1, 1)), "lhs_dilation": (2, 3), "rhs_dilation": (1, 2)},
        {"feature_group_count": 2},
        {"batch_group_count": 2},
        {"padding": ((-1, 0), (1, -1))},
    ],
    ids=lambda params: next(iter(params), "plain"),
)
def test_each_layout_gives_what_jax_gives(
    layouts: tuple[str, str, str], params: dict[str, Any]
) -> None:
    groups = params.get("feature_group_count", 1)
    image = {"N": 2, "C": 6, "H": 7, "W": 8}
    data = drawn(0, *shaped(image, layouts[0]))
    kernel = drawn(1, *shaped({"O": 4, "I": 6 // groups, "H": 3, "W": 2}, layouts[1]))

    def result(data: Any, kernel: Any) -> Any:
        return convolved(data, kernel, layouts, **params)

    run = to_jax(from_jax(result, data, kernel), "main")
    chex.assert_trees_all_close(run(data, kernel), result(data, kernel), atol=1e-5, rtol=1e-5)
    assert orders(run, data, kernel) == {IN_ORDER}


@pytest.mark.parametrize("layouts", LAYOUTS[:2], ids="-".join)
def test_the_gradient_of_a_loop_has_them_in_order(layouts: tuple[str, str, str]) -> None:
    sizes = {"N": 2, "C": 8, "O": 8, "I": 8, "H": 12, "W": 12}
    data = drawn(0, *shaped(sizes, layouts[0]))
    kernels = drawn(1, 3, *shaped({**sizes, "H": 3, "W": 3}, layouts[1])) / 8

    def loss(kernels: Any, data: Any) -> Any:
        def layer(x: Any, kernel: Any) -> tuple[Any, None]:
            return jnp.tanh(convolved(x, kernel, layouts)), None

        return jnp.sum(lax.scan(layer, data, kernels)[0] ** 2)

    ours = jax.jit(relaxjax.value_and_grad(loss, argnums=(0, 1)))
    wanted = jax.value_and_grad(loss, argnums=(0, 1))(kernels, data)
    chex.assert_trees_all_close(ours(kernels, data), wanted, atol=1e-4, rtol=1e-4)
    assert orders(ours, kernels, data) == {IN_ORDER}
    assert orders(jax.grad(loss), kernels, data) != {IN_ORDER}


@pytest.mark.parametrize("name", ["conv2d", "conv2d_transpose"])
def test_a_program_that_is_not_legalised_runs_as_one_that_is(name: str) -> None:
    mod = parse_main(
        f"return R.nn.{name}(x, w, padding=1)",
        'x: R.Tensor((2, 6, 5, 5), "float32"), w: R.Tensor((6, 6, 3, 3), "float32")',
    )
    data, kernel = drawn(0, 2, 6, 5, 5), drawn(1, 6, 6, 3, 3)
    run, legal = to_jax(mod, "main"), to_jax(legalize(mod), "main")
    chex.assert_trees_all_close(run(data, kernel), legal(data, kernel), atol=1e-5, rtol=1e-5)
    assert orders(run, data, kernel) == orders(legal, data, kernel) == {IN_ORDER}


def test_a_legalised_program_says_the_layouts_that_were_asked_for() -> None:
    """The order is a matter of how it runs: as IR, a convolution is one operator."""
    mod = parse_main(
        "return R.nn.conv2d(x, w)",
        'x: R.Tensor((2, 6, 5, 5), "float32"), w: R.Tensor((6, 6, 3, 3), "float32")',
    )
    names = [b.value.op.name for b in LegalizeOps("cpu")(mod)["main"].body.bindings()]
    assert names == ["lax.conv_general_dilated"]
