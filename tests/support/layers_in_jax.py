"""Layers and losses as people write them in JAX, and what is raised of them."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from quickly_compiled_programs import QUICK

import relaxjax
from relaxjax.ir.module import IRModule
from relaxjax.passes import EliminateCommonSubexpr, FoldConstant, RaiseOps

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
