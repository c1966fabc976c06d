"""Functions written in JAX: what is raised of them, and that values and gradients stay JAX's."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from same_results import calls_of

import relaxjax
from relaxjax.ir.module import IRModule
from relaxjax.passes import EliminateCommonSubexpr, FoldConstant, RaiseOps

QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
NHWC = ("NHWC", "HWIO", "NHWC")


def drawn(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype("float32")


IMAGE, LABELS = drawn(2, 6, 5, 4), np.asarray([2, 0, 4], "int32")
VOLUME = drawn(2, 4, 4, 3, 2)
ROWS, GAMMA, BETA = drawn(3, 5), drawn(5), drawn(5) * 2
SEQUENCE = drawn(2, 6, 3, 4)


def conv(x: Any, w: Any, **options: Any) -> Any:
    given = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": NHWC, **options}
    return lax.conv_general_dilated(x, w, **given)


def conv_in_3d(x: Any, w: Any) -> Any:
    names = ("NDHWC", "DHWIO", "NDHWC")
    return lax.conv_general_dilated(x, w, (2, 1, 1), "SAME", dimension_numbers=names)


def pooled(x: Any, start: float, combine: Any, padding: Any = "VALID", size: int = 2) -> Any:
    return lax.reduce_window(x, start, combine, (1, size, size, 1), (1, 2, 2, 1), padding)


def batch_norm(x: Any, gamma: Any, beta: Any) -> Any:
    mean, var = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
    return (x - mean) * lax.rsqrt(var + 1e-3) * gamma + beta


def folded_norm(x: Any, gamma: Any, beta: Any) -> Any:
    """The scale is multiplied to the deviation, and the variance is E[x^2] - E[x]^2."""
    mean = jnp.mean(x, -1, keepdims=True)
    var = jnp.maximum(0.0, jnp.mean(jnp.square(x), -1, keepdims=True) - mean * mean)
    return beta + (x - mean) * (lax.rsqrt(var + 1e-3) * gamma.reshape(1, -1))


def divided_norm(x: Any, gamma: Any, beta: Any) -> Any:
    mean = jnp.mean(x, -1, keepdims=True)
    return (x - mean) / jnp.sqrt(jnp.var(x, -1, keepdims=True) + 1e-3) * gamma + beta


def instance_norm(x: Any, gamma: Any, beta: Any) -> Any:
    mean, var = (f(x, (1, 2), keepdims=True) for f in (jnp.mean, jnp.var))
    return (x - mean) * lax.rsqrt(var + 1e-3) * gamma + beta


def group_norm(x: Any) -> Any:
    """As far as it is one of groups: scale and shift follow when channels are together again."""
    apart = x.reshape(2, 6, 5, 2, 2)
    mean, var = (f(apart, (1, 2, 4), keepdims=True) for f in (jnp.mean, jnp.var))
    return ((apart - mean) * lax.rsqrt(var + 1e-3)).reshape(x.shape)


def rms_norm(x: Any, gamma: Any) -> Any:
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-3) * gamma


def guarded_norm(x: Any, gamma: Any, beta: Any) -> Any:
    """As equinox has it, one vector at a time: the variance is kept from falling below 0."""

    def one(x: Any) -> Any:
        mean = jnp.mean(x, keepdims=True)
        variance = jnp.maximum(0.0, jnp.var(x, keepdims=True))
        return (x - mean) * lax.rsqrt(variance + 1e-3) * gamma + beta

    return jax.vmap(one)(x)


def rms_norm_about_nothing(x: Any, gamma: Any) -> Any:
    """As flax has it: a mean of 0 is taken off, and the scale multiplied to the deviation."""
    mean, var = jnp.zeros(3), jnp.mean(lax.square(x), -1)
    apart = x - jnp.expand_dims(mean, -1)
    return apart * (lax.rsqrt(jnp.expand_dims(var, -1) + 1e-3) * gamma.reshape(1, -1))


def old_gelu(x: Any) -> Any:
    return x * (lax.erf(x / np.float32(np.sqrt(2))) + 1) / 2


def by_integers(x: Any) -> Any:
    """The cross entropy that optax has."""
    picked = jnp.take_along_axis(x, jnp.asarray(LABELS)[:, None], -1)[..., 0]
    return jax.nn.logsumexp(x, -1) - picked


def by_steps(x: Any) -> Any:
    """For each place of a text, with the labels one place on."""
    labels = jnp.asarray([[1, 4, 0], [3, 3, 2]])
    picked = jnp.take_along_axis(jax.nn.log_softmax(x), labels[..., None], -1)
    return -picked


def by_places(x: Any) -> Any:
    return -jax.nn.log_softmax(x)[jnp.arange(3), jnp.asarray(LABELS)]


def attended(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf))
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def attended_by_heads(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("hbqd,hbkd->hbqk", q, k * 0.3)
    place = jnp.arange(q.shape[2])
    hidden = jnp.where(place[None, :] <= place[:, None], scores * 2, -1e38)
    return jnp.einsum("hbqk,bkhd->qbhd", jax.nn.softmax(hidden), v)


def attended_to_all(q: Any, k: Any, v: Any) -> Any:
    weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q / 2, k))
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


SHOWN = np.random.default_rng(7).random((2, 1, 6, 6)) > 0.4
SHOWN[0, 0, 2] = False  # a query to which all is hidden


def attended_under_mask(q: Any, k: Any, v: Any) -> Any:
    """As flax and haiku have it, with a mask from outside."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    weights = jax.nn.softmax(jnp.where(SHOWN, scores, np.finfo("float32").min))
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def attended_in_groups(q: Any, k: Any, v: Any) -> Any:
    """As Gemma has it: heads in groups that share keys, the mask over all heads at once."""
    batch, length, heads, width = q.shape
    apart = q.reshape(batch, length, k.shape[2], -1, width)
    logits = jnp.einsum("btkgh,bskh->btkgs", apart, k).reshape(batch, length, heads, -1)
    seen = jnp.asarray(SHOWN)[:, 0, :, None]
    weights = jax.nn.softmax(jnp.where(seen, logits, -2.3e38))
    weights = weights.reshape(batch, length, k.shape[2], -1, length)
    return jnp.einsum("btkgs,bskh->btkgh", weights, v).reshape(q.shape)


def attended_by_jax_under_mask(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, mask=jnp.asarray(SHOWN))


def attended_by_jax_under_numbers(q: Any, k: Any, v: Any) -> Any:
    """nnx hands over numbers of a triangle as a mask."""
    mask = jnp.tril(jnp.ones((6, 6)))[None, None].astype(bool)
    return jax.nn.dot_product_attention(q, k, v, mask=mask)


def attended_one_by_one(q: Any, k: Any, v: Any) -> Any:
    """As equinox has it: one text and one head at a time."""

    def one(q: Any, k: Any, v: Any) -> Any:
        weights = jax.nn.softmax(jnp.einsum("sd,Sd->sS", q / 2, k))
        return jnp.einsum("sS,Sd->sd", weights, v)

    return jax.vmap(jax.vmap(one, in_axes=1, out_axes=1))(q, k, v)


def attended_by_jax(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


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
    "attention": (attended, (SEQUENCE, SEQUENCE + 1, SEQUENCE * 2), ["nn.attention"]),
    "attention by heads": (
        attended_by_heads,
        (SEQUENCE, SEQUENCE + 1, drawn(6, 3, 2, 5)),
        ["nn.attention"],
    ),
    "attention of jax.nn": (
        attended_by_jax,
        (SEQUENCE, SEQUENCE + 1, SEQUENCE * 2),
        ["nn.attention"],
    ),
    "attention to all": (
        attended_to_all,
        (SEQUENCE, SEQUENCE + 1, SEQUENCE * 2),
        ["nn.attention"],
    ),
    "attention, one by one": (
        attended_one_by_one,
        (SEQUENCE, SEQUENCE + 1, SEQUENCE * 2),
        ["nn.attention"],
    ),
    "attention under a mask": (
        attended_under_mask,
        (SEQUENCE, SEQUENCE + 1, SEQUENCE * 2),
        ["nn.masked_attention"],
    ),
    "attention in groups": (
        attended_in_groups,
        (drawn(2, 6, 4, 3), drawn(2, 6, 2, 3) + 1, drawn(2, 6, 2, 3)),
        ["nn.masked_attention"],
    ),
    "attention of jax.nn under a mask": (
        attended_by_jax_under_mask,
        (SEQUENCE, SEQUENCE + 1, SEQUENCE * 2),
        ["nn.masked_attention"],
    ),
    "attention of jax.nn under numbers": (
        attended_by_jax_under_numbers,
        (SEQUENCE, SEQUENCE + 1, SEQUENCE * 2),
        ["nn.attention"],
    ),
}


@pytest.fixture(autouse=True)
def _ranks_promote() -> Any:
    """As most JAX is written."""
    with jax.numpy_rank_promotion("allow"):
        yield


def raised(function: Callable[..., Any], *args: Any) -> IRModule:
    module = relaxjax.from_jax(function, *args)
    for one in (FoldConstant(), EliminateCommonSubexpr(), RaiseOps()):
        module = one(module)
    return module


def by_both(loss: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Any]:
    """The value of a loss and its gradients by all arguments, by us and by JAX."""
    places = tuple(range(len(args)))
    ours, jaxs = relaxjax.value_and_grad(loss, places), jax.value_and_grad(loss, places)
    return (
        jax.jit(ours, compiler_options=QUICK)(*args),
        jax.jit(jaxs, compiler_options=QUICK)(*args),
    )


def assert_gradients_are_those_of_jax(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Those of its results, weighed so that none cancel."""

    def loss(*given: Any) -> jax.Array:
        result = function(*given)
        return jnp.sum(jnp.sin(result + jnp.linspace(0.0, 1.0, result.size).reshape(result.shape)))

    chex.assert_trees_all_close(*by_both(loss, args), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", RAISED)
def test_it_is_raised_and_computes_the_same(name: str) -> None:
    function, args, operators = RAISED[name]
    module = raised(function, *args)
    for operator in set(operators):
        assert len(calls_of(module, operator)) == operators.count(operator)
    assert RaiseOps()(module) is module
    assert_gradients_are_those_of_jax(function, args)


def by_row_maximum(x: Any) -> Any:
    """The largest element of each column is taken off, and the sum is of each row."""
    powers = jnp.exp(x - jnp.max(x, 0, keepdims=True))
    return powers / jnp.sum(powers, 1, keepdims=True)


def crossed_norm(x: Any) -> Any:
    """The mean is of rows and the variance of columns."""
    mean, var = jnp.mean(x, 1, keepdims=True), jnp.var(x, 0, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-3)


def turned_norm(x: Any) -> Any:
    """The statistics of columns are laid along rows."""
    mean, var = jnp.mean(x, 0)[:, None], jnp.var(x, 0)[:, None]
    return (x - mean) * lax.rsqrt(var + 1e-3)


def unbiased_norm(x: Any) -> Any:
    mean, var = jnp.mean(x, 1, keepdims=True), jnp.var(x, 1, keepdims=True, ddof=1)
    return (x - mean) * lax.rsqrt(var + 1e-3)


def seeing(mask: Any, hidden: float = -np.inf) -> Callable[..., Any]:
    def function(q: Any) -> Any:
        scores = jnp.where(mask, jnp.einsum("bqhd,bkhd->bhqk", q, q), hidden)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), q)

    return function


def clipped(x: Any) -> Any:
    picked = jnp.take_along_axis(x, jnp.asarray(LABELS)[:, None], -1, mode="clip")
    return jax.nn.logsumexp(x, -1, keepdims=True) - picked


def filled(x: Any) -> Any:
    places = jnp.asarray(LABELS)[:, None]
    return -jnp.take_along_axis(jax.nn.log_softmax(x), places, -1, mode="fill", fill_value=0.0)


def by_one_of_several(x: Any) -> Any:
    """What is taken off is one of three tensors, by their numbers."""
    powers = jnp.exp(x - lax.select_n(jnp.zeros(x.shape, jnp.int32), x * 2, x * 3, x))
    return powers / jnp.sum(powers, 1, keepdims=True)


@jax.custom_jvp
def leaking_backward(x: Any) -> Any:
    """A relu with the derivative of another function."""
    return jnp.maximum(x, 0)


@leaking_backward.defjvp
def _leaking_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (tangent,) = primals, tangents
    return leaking_backward(x), lax.select(x > 0, tangent, 0.1 * tangent)


def seeing_in_8_bits(q: Any) -> Any:
    """Numbers that begin again from below after 127."""
    shape = (q.shape[1], q.shape[1])
    rows, columns = (lax.broadcasted_iota(jnp.int8, shape, axis) for axis in (0, 1))
    return seeing(rows >= columns)(q)


def in_columns(x: Any) -> Any:
    """What is picked is taken off in another order."""
    scores = x.reshape(2, 2, 5)
    picked = jnp.take_along_axis(scores, np.array([[[0], [1]], [[2], [0]]]), -1)
    return jax.nn.logsumexp(scores, -1) - lax.reshape(picked, (2, 2), (1, 0, 2))


LOWER = np.tril(np.ones((6, 6), bool))
HIGHEST = lax.Precision.HIGHEST

# What looks alike but is something else, and the operators that must not be there.
KEPT: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[str]]] = {
    "precise convolution": (
        lambda x, w: conv(x, w, precision=HIGHEST),
        (IMAGE, drawn(2, 2, 4, 3)),
        ["nn.conv2d"],
    ),
    "cropping convolution": (
        lambda x, w: conv(x, w, padding=((-1, 0), (0, 0))),
        (IMAGE, drawn(2, 2, 4, 3)),
        ["nn.conv2d"],
    ),
    "kernel that does not fit": (
        lambda x, w: conv(x, w, padding="VALID"),
        (IMAGE, drawn(7, 2, 4, 3)),
        ["nn.conv2d"],
    ),
    "window that does not fit": (
        lambda x: pooled(x, 0.0, lax.add, size=7),
        (IMAGE,),
        ["nn.avg_pool2d"],
    ),
    "batches in groups": (
        lambda x, w: conv(x, w, batch_group_count=2),
        (IMAGE, drawn(2, 2, 4, 4)),
        ["nn.conv2d"],
    ),
    "windows along all axes": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "VALID"),
        (ROWS,),
        ["nn.avg_pool1d"],
    ),
    "spread windows": (
        lambda x: lax.reduce_window(
            x, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "VALID", base_dilation=(1, 2, 1, 1)
        ),
        (IMAGE,),
        ["nn.avg_pool2d"],
    ),
    "precise product": (
        lambda x, w: jnp.matmul(x, w, precision=HIGHEST),
        (ROWS, drawn(5, 2)),
        ["matmul"],
    ),
    "stack of products": (lambda x, y: x @ y, (VOLUME[0], VOLUME[1].swapaxes(-1, -2)), ["matmul"]),
    "maximum of columns": (by_row_maximum, (ROWS,), ["nn.softmax"]),
    "crossed statistics": (crossed_norm, (ROWS,), ["nn.layer_norm"]),
    "turned statistics": (turned_norm, (drawn(4, 4),), ["nn.layer_norm"]),
    "unbiased variance": (unbiased_norm, (ROWS,), ["nn.layer_norm"]),
    "labels filled": (filled, (ROWS,), ["nn.softmax_nll_loss"]),
    "labels of some rows": (
        lambda x: jax.nn.log_softmax(x)[jnp.arange(2), LABELS[:2]],
        (ROWS,),
        ["nn.softmax_nll_loss"],
    ),
    "one of several taken off": (by_one_of_several, (ROWS,), ["nn.softmax"]),
    "labels in columns": (in_columns, (drawn(4, 5),), ["nn.softmax_nll_loss"]),
    "labels clipped": (clipped, (ROWS,), ["nn.softmax_nll_loss"]),
    "other derivative": (leaking_backward, (ROWS,), ["nn.relu"]),
    "other gelu": (lambda x: 0.5 * x * lax.erfc(-x), (ROWS,), ["nn.gelu"]),
    "other tanh": (
        lambda x: 0.5 * x * (1 + jnp.tanh(0.8 * (x + 0.04 * x**3))),
        (ROWS,),
        ["nn.gelu_tanh"],
    ),
    "seeing all before": (
        seeing(np.tril(LOWER, -1) | np.eye(6, dtype=bool)[::-1]),
        (SEQUENCE,),
        ["nn.attention"],
    ),
    "seeing ahead": (seeing(LOWER.T), (SEQUENCE,), ["nn.attention"]),
    "counting in 8 bits": (seeing_in_8_bits, (drawn(2, 130, 1, 2),), ["nn.attention"]),
    "barely hidden": (seeing(LOWER, -3.0), (SEQUENCE,), ["nn.attention", "nn.masked_attention"]),
    "hidden so that nothing is left": (seeing(LOWER.T), (SEQUENCE,), ["nn.masked_attention"]),
}


@pytest.mark.parametrize("shape", [(), (5,), (2, 2), (2, 5), (5, 2, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_relu_of_any_size_is_raised_but_not_what_is_like_it(
    shape: tuple[int, ...], dtype: str
) -> None:
    """That of JAX is read once for each rank and dtype."""
    given = jax.ShapeDtypeStruct(shape, dtype)
    assert calls_of(raised(jax.nn.relu, given), "nn.relu")
    assert not calls_of(raised(leaking_backward, given), "nn.relu")


@pytest.mark.parametrize("name", KEPT)
def test_what_only_looks_alike_is_left(name: str) -> None:
    function, args, operators = KEPT[name]
    module = raised(function, *args)
    assert not [operator for operator in operators if calls_of(module, operator)]


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
