"""Functions written in JAX: what is raised of them, and that values and gradients stay JAX's."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from layers_in_jax import (
    BETA,
    GAMMA,
    IMAGE,
    NHWC,
    ROWS,
    SEQUENCE,
    VOLUME,
    assert_gradients_are_those_of_jax,
    attended,
    attended_by_heads,
    attended_by_jax,
    attended_by_jax_under_mask,
    attended_by_jax_under_numbers,
    attended_in_groups,
    attended_one_by_one,
    attended_to_all,
    attended_under_mask,
    batch_norm,
    by_both,
    by_integers,
    by_places,
    by_steps,
    conv,
    conv_in_3d,
    divided_norm,
    drawn,
    folded_norm,
    group_norm,
    guarded_norm,
    instance_norm,
    old_gelu,
    pooled,
    raised,
    rms_norm,
    rms_norm_about_nothing,
)
from same_results import calls_of

import relaxjax
from relaxjax.passes import RaiseOps

pytestmark = pytest.mark.usefixtures("ranks_promote")

MASKED = "nn.masked_attention"
HEADS = (SEQUENCE, SEQUENCE + 1, SEQUENCE * 2)
# What is computed, of what, and the operators of `relax` that are in the program then.
RAISED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[str]]] = {
    "strided": (
        lambda x, w: conv(x, w, window_strides=(2, 1)),
        (IMAGE, drawn(3, 2, 4, 3)),
        ["nn.conv2d"],
    ),
    "dilated": (
        lambda x, w: conv(x, w, rhs_dilation=(1, 2)),
        (IMAGE, drawn(2, 2, 4, 3)),
        ["nn.conv2d"],
    ),
    "sorted": (lambda x: jnp.sort(x, axis=0) ** 2, (ROWS,), ["sort"]),
    "depthwise": (
        lambda x, w: conv(x, w, feature_group_count=4, padding=((0, 1), (1, 0))),
        (IMAGE, drawn(2, 3, 1, 4)),
        ["nn.conv2d"],
    ),
    "in one dimension": (
        lambda x, w: lax.conv_general_dilated(x, w, (2,), [(1, 1)]),
        (drawn(2, 3, 7), drawn(4, 3, 3)),
        ["nn.conv1d"],
    ),
    "in three dimensions": (conv_in_3d, (VOLUME, drawn(2, 2, 2, 2, 3)), ["nn.conv3d"]),
    "transposed": (
        lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME", None, NHWC, transpose_kernel=True),
        (IMAGE, drawn(3, 3, 3, 4)),
        ["nn.conv2d_transpose"],
    ),
    "transposed, kernel as it is": (
        lambda x, w: lax.conv_transpose(x, w, (2, 3), "VALID", None, NHWC),
        (IMAGE, drawn(3, 2, 4, 3)),
        ["nn.conv2d_transpose", "flip", "flip"],
    ),
    "largest, padded": (
        lambda x: pooled(x, -jnp.inf, lax.max, "SAME", 3),
        (IMAGE,),
        ["nn.max_pool2d"],
    ),
    "mean": (lambda x: pooled(x, 0.0, lax.add, "SAME", 3) / 9, (IMAGE,), ["nn.avg_pool2d"]),
    "sum": (lambda x: pooled(x, 0.0, lax.add), (IMAGE,), ["nn.avg_pool2d", "multiply"]),
    "along columns": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 1, 1), (1, 1, 1), "VALID"),
        (VOLUME[0, 0],),
        ["nn.avg_pool1d", "multiply"],
    ),
    "matmul": (lambda x, w: x @ w, (SEQUENCE, drawn(4, 3)), ["matmul"]),
    "transposed matrix": (lambda x, w: x @ w.T, (ROWS, drawn(4, 5)), ["matmul", "permute_dims"]),
    "product with heads": (
        lambda x, w: jnp.einsum("btc,chd->bthd", x, w),
        (drawn(2, 3, 4), drawn(4, 5, 2)),
        ["matmul"],
    ),
    "product over heads": (
        lambda x, w: jnp.einsum("bthd,hdc->btc", x, w),
        (drawn(2, 3, 4, 2), drawn(4, 2, 5)),
        ["matmul"],
    ),
    "product of vectors, one by one": (
        lambda w, x: jax.vmap(jax.vmap(lambda x: w @ x))(x),
        (drawn(3, 4), SEQUENCE[0]),
        ["matmul"],
    ),
    "softmax": (lambda x: jax.nn.softmax(x, 0), (ROWS,), ["nn.softmax"]),
    "log_softmax": (jax.nn.log_softmax, (SEQUENCE,), ["nn.log_softmax"]),
    "cross entropy": (by_integers, (ROWS,), ["nn.softmax_nll_loss"]),
    "cross entropy of texts": (by_steps, (drawn(2, 3, 5),), ["nn.softmax_nll_loss"]),
    "cross entropy by places": (by_places, (ROWS,), ["nn.softmax_nll_loss"]),
    "relu": (jax.nn.relu, (ROWS,), ["nn.relu"]),
    "gelu": (lambda x: jax.nn.gelu(x, approximate=False), (ROWS,), ["nn.gelu"]),
    "gelu by erf": (old_gelu, (ROWS,), ["nn.gelu"]),
    "gelu by tanh": (jax.nn.gelu, (ROWS,), ["nn.gelu_tanh"]),
    "silu": (jax.nn.silu, (ROWS,), ["nn.silu"]),
    "batch norm": (batch_norm, (IMAGE, GAMMA[:4], BETA[:4]), ["nn.batch_norm"]),
    "layer norm": (divided_norm, (drawn(2, 3, 5), GAMMA, BETA), ["nn.layer_norm"]),
    "folded layer norm": (folded_norm, (ROWS, GAMMA, BETA), ["nn.layer_norm"]),
    "instance norm": (instance_norm, (IMAGE, GAMMA[:4], BETA[:4]), ["nn.instance_norm"]),
    "group norm": (group_norm, (IMAGE,), ["nn.layer_norm"]),
    "guarded layer norm": (guarded_norm, (ROWS, GAMMA, BETA), ["nn.layer_norm"]),
    "rms norm": (rms_norm, (ROWS, GAMMA), ["nn.rms_norm"]),
    "rms norm about 0": (rms_norm_about_nothing, (ROWS, GAMMA), ["nn.rms_norm"]),
    "attention": (attended, HEADS, ["nn.attention"]),
    "attention by heads": (
        attended_by_heads,
        (SEQUENCE, SEQUENCE + 1, drawn(6, 3, 2, 5)),
        ["nn.attention"],
    ),
    "attention of jax.nn": (attended_by_jax, HEADS, ["nn.attention"]),
    "attention of jax.nn to all": (jax.nn.dot_product_attention, HEADS, ["nn.attention"]),
    "softmax, one by one": (
        lambda x: jax.vmap(jax.nn.softmax, 1, 1)(x),
        (ROWS,),
        ["nn.softmax", "permute_dims", "permute_dims"],
    ),
    "attention to all": (attended_to_all, HEADS, ["nn.attention"]),
    "attention, one by one": (attended_one_by_one, HEADS, ["nn.attention"]),
    "attention under a mask": (attended_under_mask, HEADS, [MASKED]),
    "attention in groups": (
        attended_in_groups,
        (drawn(2, 6, 4, 3), drawn(2, 6, 2, 3) + 1, drawn(2, 6, 2, 3)),
        [MASKED],
    ),
    "attention of jax.nn under a mask": (attended_by_jax_under_mask, HEADS, [MASKED]),
    "attention of jax.nn under numbers": (attended_by_jax_under_numbers, HEADS, ["nn.attention"]),
}


@pytest.mark.parametrize("name", RAISED)
def test_it_is_raised_and_computes_the_same(name: str) -> None:
    function, args, operators = RAISED[name]
    module = raised(function, *args)
    for operator in set(operators):
        assert len(calls_of(module, operator)) == operators.count(operator)
    assert RaiseOps()(module) is module
    assert_gradients_are_those_of_jax(function, args)


def test_the_adjoint_of_equal_elements_goes_to_the_first_as_in_jax() -> None:
    image = np.ones((1, 4, 4, 1), "float32")
    assert_gradients_are_those_of_jax(lambda x: pooled(x, -jnp.inf, lax.max), (image,))


@pytest.mark.parametrize("labels", [[-1, -5, 2], [5, -6, 1]])
@pytest.mark.parametrize("picks_last", [False, True])
def test_labels_count_from_the_end_or_give_nan_as_in_jax(
    labels: list[int], picks_last: bool
) -> None:
    def losses(x: Any) -> Any:
        places = jnp.asarray(labels)[:, None]
        if picks_last:
            return -jnp.take_along_axis(jax.nn.log_softmax(x), places, -1)
        return jax.nn.logsumexp(x, -1, keepdims=True) - jnp.take_along_axis(x, places, -1)

    module = raised(losses, ROWS)
    assert calls_of(module, "nn.softmax_nll_loss")
    found, expected = by_both(lambda x: losses(x).sum(), (ROWS,))
    assert np.isnan(expected[0]) == any(not -5 <= label < 5 for label in labels)
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["int32", "int8"])
@pytest.mark.parametrize("picks_last", [True, False])
def test_labels_outside_that_are_promised_not_to_be_are_as_in_jax(
    picks_last: bool, dtype: str
) -> None:
    """Those of the nearest class, and no gradient goes back through what is picked."""

    def losses(x: Any, labels: Any) -> Any:
        rows = jnp.arange(6)
        if picks_last:
            return -jax.nn.log_softmax(x)[rows, labels]
        return jax.nn.logsumexp(x, -1) - x[rows, labels]

    def loss(x: Any, labels: Any) -> Any:
        return jnp.sum(losses(x, labels) * jnp.arange(6.0))

    args = drawn(6, 5), np.array([0, 5, -6, 100, -100, -1], dtype)
    assert calls_of(raised(losses, *args), "nn.softmax_nll_loss")
    found, expected = relaxjax.value_and_grad(loss)(*args), jax.value_and_grad(loss)(*args)
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-6)


def test_scores_of_classes_that_are_ruled_out() -> None:
    scores = np.where(np.arange(5) == 1, -np.inf, ROWS).astype("float32")
    found, expected = by_both(lambda x: by_integers(x).sum(), (scores,))
    assert np.isfinite(expected[0])
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-6)


def test_half_precision_is_raised_where_sums_are_as_in_jax() -> None:
    def product(x: Any, w: Any, dtype: Any = None) -> Any:
        return lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type=dtype)

    x, w = (jnp.asarray(array, "bfloat16") for array in (ROWS, drawn(5, 2)))
    assert calls_of(raised(product, x, w), "matmul")
    wider = raised(lambda x, w: product(x, w, jnp.float32), x, w)
    assert not calls_of(wider, "matmul")
    found = relaxjax.to_jax(raised(product, x, w), "main")(x, w)
    assert found.dtype == "bfloat16"
    chex.assert_trees_all_close(found, product(x, w))


def test_gelu_of_half_precision_keeps_the_places_of_small_results() -> None:
    x = jnp.asarray(ROWS, "bfloat16")
    assert not calls_of(raised(lambda x: jax.nn.gelu(x, approximate=False), x), "nn.gelu")
    assert calls_of(raised(jax.nn.gelu, x), "nn.gelu_tanh")
