"""Losses of the tutorials of flax's `nnx` and the JAX AI Stack, at sizes for a CPU."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax_losses import Case, Draws

nnx: Any = import_module("flax.nnx")  # it need not be installed where types are checked


def case(model: Any, loss: Callable[..., Any], inputs: tuple[Any, ...]) -> Case:
    """A loss of a model: what is no parameter of it, its counters and statistics, is an input."""
    graph, params, rest = nnx.split(model, nnx.Param, ...)

    def of_params(params: Any, rest: Any, *inputs: Any) -> Any:
        model = nnx.merge(graph, params, rest, copy=True)
        value, aux = loss(model, *inputs)
        return value, (aux, nnx.state(model, nnx.Not(nnx.Param)))

    return Case(of_params, params, (rest, *inputs), has_aux=True)


def _of_classes(model: Any, inputs: Any, labels: Any) -> Any:
    """The cross entropy of a model's scores, and these."""
    logits = model(inputs)
    value = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
    return value, logits


class Digits(nnx.Module):
    def __init__(self, rngs: Any) -> None:
        self.conv1 = nnx.Conv(1, 32, kernel_size=(3, 3), rngs=rngs)
        self.batch_norm1 = nnx.BatchNorm(32, rngs=rngs)
        self.dropout1 = nnx.Dropout(rate=0.025, rngs=rngs)
        self.conv2 = nnx.Conv(32, 64, kernel_size=(3, 3), rngs=rngs)
        self.batch_norm2 = nnx.BatchNorm(64, rngs=rngs)
        self.avg_pool = partial(nnx.avg_pool, window_shape=(2, 2), strides=(2, 2))
        self.linear1 = nnx.Linear(3136, 256, rngs=rngs)
        self.dropout2 = nnx.Dropout(rate=0.025, rngs=rngs)
        self.linear2 = nnx.Linear(256, 10, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = self.avg_pool(nnx.relu(self.batch_norm1(self.dropout1(self.conv1(x)))))
        x = self.avg_pool(nnx.relu(self.batch_norm2(self.conv2(x))))
        x = nnx.relu(self.dropout2(self.linear1(x.reshape(x.shape[0], -1))))
        return self.linear2(x)


def digits(draw: Draws) -> Case:
    """The MNIST tutorial: convolutions, batch norm and dropout; batches of 32."""

    inputs = (draw.normal(32, 28, 28, 1), draw.ids(10, 32))
    return case(Digits(nnx.Rngs(0)), _of_classes, inputs)


class TextBlock(nnx.Module):
    def __init__(self, width: int, heads: int, inner: int, rngs: Any) -> None:
        self.attention = nnx.MultiHeadAttention(
            num_heads=heads, in_features=width, decode=False, rngs=rngs
        )
        self.dropout1 = nnx.Dropout(rate=0.1, rngs=rngs)
        self.norm1 = nnx.LayerNorm(epsilon=1e-6, num_features=width, rngs=rngs)
        self.linear1 = nnx.Linear(width, inner, rngs=rngs)
        self.linear2 = nnx.Linear(inner, width, rngs=rngs)
        self.dropout2 = nnx.Dropout(rate=0.1, rngs=rngs)
        self.norm2 = nnx.LayerNorm(epsilon=1e-6, num_features=width, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        length = x.shape[1]
        mask = jnp.tril(jnp.ones((length, length)))
        x = self.norm1(x + self.dropout1(self.attention(inputs_q=x, mask=mask)))
        y = self.linear2(nnx.relu(self.linear1(x)))
        return self.norm2(x + self.dropout2(y))


class MiniGPT(nnx.Module):
    def __init__(self, words: int, length: int, width: int, layers: int, rngs: Any) -> None:
        self.words = nnx.Embed(words, width, rngs=rngs)
        self.places = nnx.Embed(length, width, rngs=rngs)
        self.blocks = nnx.List([TextBlock(width, 8, width, rngs) for _ in range(layers)])
        self.head = nnx.Linear(width, words, rngs=rngs)

    def __call__(self, words: Any) -> Any:
        x = self.words(words) + self.places(jnp.arange(words.shape[1])[None, :])
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def mini_gpt(draw: Draws) -> Case:
    """JAX for LLM training, miniGPT: width 256, 8 heads; two blocks, 4 texts of 256 words."""

    model = MiniGPT(4096, 256, 256, 2, nnx.Rngs(0))
    return case(model, _of_classes, (draw.ids(4096, 4, 256), draw.ids(4096, 4, 256)))


class ImageBlock(nnx.Module):
    def __init__(self, width: int, inner: int, heads: int, rngs: Any) -> None:
        self.norm1 = nnx.LayerNorm(width, rngs=rngs)
        self.attn = nnx.MultiHeadAttention(
            num_heads=heads,
            in_features=width,
            dropout_rate=0.1,
            broadcast_dropout=False,
            decode=False,
            deterministic=False,
            rngs=rngs,
        )
        self.norm2 = nnx.LayerNorm(width, rngs=rngs)
        self.mlp = nnx.Sequential(
            nnx.Linear(width, inner, rngs=rngs),
            nnx.gelu,
            nnx.Dropout(0.1, rngs=rngs),
            nnx.Linear(inner, width, rngs=rngs),
            nnx.Dropout(0.1, rngs=rngs),
        )

    def __call__(self, x: Any) -> Any:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nnx.Module):
    def __init__(self, size: int, patch: int, width: int, layers: int, rngs: Any) -> None:
        count = (size // patch) ** 2
        self.patches = nnx.Conv(
            3, width, kernel_size=(patch, patch), strides=(patch, patch), rngs=rngs
        )
        init = jax.nn.initializers.truncated_normal(stddev=0.02)
        self.places = nnx.Param(init(rngs.params(), (1, count + 1, width), jnp.float32))
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.first = nnx.Param(jnp.zeros((1, 1, width)))
        self.encoder = nnx.Sequential(
            *(ImageBlock(width, 4 * width, 6, rngs) for _ in range(layers))
        )
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.classifier = nnx.Linear(width, 102, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        patches = self.patches(x)
        x = patches.reshape(patches.shape[0], -1, patches.shape[-1])
        first = jnp.tile(self.first[...], [x.shape[0], 1, 1])
        x = self.dropout(jnp.concat([first, x], axis=1) + self.places[...])
        return self.classifier(self.norm(self.encoder(x))[:, 0])


def vision_transformer(draw: Draws) -> Case:
    """Vision transformer of the JAX AI Stack: width 192 and 4 blocks instead of 768 and 12."""

    model = VisionTransformer(64, 8, 192, 4, nnx.Rngs(0))
    return case(model, _of_classes, (draw.normal(16, 64, 64, 3), draw.ids(102, 16)))


class UNetBlock(nnx.Module):
    def __init__(self, before: int, after: int, timed: int, rngs: Any) -> None:
        self.conv1 = nnx.Conv(before, after, kernel_size=(3, 3), rngs=rngs)
        self.conv2 = nnx.Conv(after, after, kernel_size=(3, 3), rngs=rngs)
        self.norm1 = nnx.GroupNorm(after, num_groups=8, rngs=rngs)
        self.norm2 = nnx.GroupNorm(after, num_groups=8, rngs=rngs)
        self.timed = nnx.Linear(timed, after, rngs=rngs)

    def __call__(self, x: Any, time: Any) -> Any:
        x = nnx.silu(self.norm1(self.conv1(x)) + self.timed(time)[:, None, None, :])
        return nnx.silu(self.norm2(self.conv2(x)))


class UNet(nnx.Module):
    def __init__(self, widths: tuple[int, ...], rngs: Any) -> None:
        timed = 4 * widths[0]
        self.times = nnx.Sequential(
            nnx.Linear(1, timed, rngs=rngs), nnx.gelu, nnx.Linear(timed, timed, rngs=rngs)
        )
        ends = list(zip((1, *widths), widths))  # noqa: B905  # the last width has nothing behind it
        self.down = nnx.List([UNetBlock(*pair, timed, rngs) for pair in ends])
        self.middle = UNetBlock(widths[-1], widths[-1], timed, rngs)
        around = [(2 * after, max(before, widths[0])) for before, after in reversed(ends)]
        self.up = nnx.List([UNetBlock(*pair, timed, rngs) for pair in around])
        self.out = nnx.Conv(widths[0], 1, kernel_size=(1, 1), rngs=rngs)

    def __call__(self, x: Any, time: Any) -> Any:
        time, kept = self.times(time[:, None]), []
        for block in self.down:
            x = block(x, time)
            kept.append(x)
            x = nnx.max_pool(x, window_shape=(2, 2), strides=(2, 2), padding="SAME")
        x = self.middle(x, time)
        for block in self.up:
            skip = kept.pop()
            x = jax.image.resize(x, (*skip.shape[:3], x.shape[-1]), "nearest")
            x = block(jnp.concatenate([x, skip], -1), time)
        return self.out(x)


def diffusion(draw: Draws) -> Case:
    """Diffusion of digits in the JAX AI Stack: noise found by a U-Net, 16 images of 32x32."""

    def loss(model: Any, images: Any, key: Any) -> Any:
        for_times, for_noise = jax.random.split(key)
        times = jax.random.randint(for_times, (len(images),), 0, 1000)
        left = jnp.cumprod(1 - jnp.linspace(1e-4, 0.02, 1000))[times][:, None, None, None]
        noise = jax.random.normal(for_noise, images.shape)
        noisy = jnp.sqrt(left) * images + jnp.sqrt(1 - left) * noise
        return jnp.mean((model(noisy, times / 1000.0) - noise) ** 2), None

    inputs = (draw.normal(16, 32, 32, 1), jax.random.key(1))
    return case(UNet((32, 64, 128), nnx.Rngs(0)), loss, inputs)


class GemmaBlock(nnx.Module):
    def __init__(self, width: int, heads: int, shared: int, size: int, rngs: Any) -> None:
        self.size, self.shared = size, shared
        self.norm1, self.norm2 = (nnx.RMSNorm(width, rngs=rngs) for _ in range(2))
        self.q = nnx.Einsum("BTD,NDH->BTNH", (heads, width, size), rngs=rngs)
        self.kv = nnx.Einsum("BSD,CKDH->CBSKH", (2, shared, width, size), rngs=rngs)
        self.out = nnx.Einsum("BTNH,NHD->BTD", (heads, size, width), rngs=rngs)
        self.gate, self.up = (
            nnx.Linear(width, 4 * width, use_bias=False, rngs=rngs) for _ in range(2)
        )
        self.down = nnx.Linear(4 * width, width, use_bias=False, rngs=rngs)

    def rotated(self, x: Any, places: Any) -> Any:
        steps = 10_000 ** (2 * jnp.arange(0, self.size // 2) / self.size)
        angles = (places[..., None] / steps[None, None, :])[..., None, :]
        first, second = jnp.split(x, 2, axis=-1)
        sine, cosine = jnp.sin(angles), jnp.cos(angles)
        parts = [first * cosine - second * sine, second * cosine + first * sine]
        return jnp.concatenate(parts, axis=-1)

    def __call__(self, x: Any, places: Any, mask: Any) -> Any:
        y = self.norm1(x)
        q, (k, v) = self.q(y), self.kv(y)
        q, k = self.rotated(q, places) * self.size**-0.5, self.rotated(k, places)
        batch, length, heads, _ = q.shape
        q = q.reshape(batch, length, self.shared, heads // self.shared, self.size)
        logits = jnp.einsum("BTKGH,BSKH->BTKGS", q, k).reshape(batch, length, heads, -1)
        logits = jnp.where(jnp.expand_dims(mask, -2), logits, -2.3819763e38)
        weights = jax.nn.softmax(logits, axis=-1).reshape(batch, length, self.shared, -1, length)
        mixed = jnp.einsum("BTKGS,BSKH->BTKGH", weights, v).reshape(batch, length, heads, -1)
        x = x + self.out(mixed)
        y = self.norm2(x)
        return x + self.down(nnx.gelu(self.gate(y)) * self.up(y))


class Gemma(nnx.Module):
    def __init__(self, words: int, width: int, layers: int, rngs: Any) -> None:
        self.words = nnx.Embed(words, width, rngs=rngs)
        self.blocks = nnx.List([GemmaBlock(width, 8, 2, 32, rngs) for _ in range(layers)])
        self.norm = nnx.RMSNorm(width, rngs=rngs)

    def __call__(self, words: Any, places: Any, mask: Any) -> Any:
        x = self.words(words) * jnp.sqrt(self.words.features)
        for block in self.blocks:
            x = block(x, places, mask)
        return self.words.attend(self.norm(x))


def gemma(draw: Draws) -> Case:
    """examples/gemma: shared keys and values, rotary places, a mask from outside, gated MLPs.

    Three layers of width 256 instead of 18 of 2048, and 2,048 words.
    """

    def loss(model: Any, words: Any, shown: Any) -> Any:
        length = words.shape[1]
        places = jnp.cumsum(shown, axis=-1) - 1
        causal = jnp.tril(jnp.ones((length, length), bool))
        mask = shown[:, None, :] & causal[None]
        logits = model(words, places, mask)[:, :-1]
        one_hot = jax.nn.one_hot(words[:, 1:], logits.shape[-1])
        weights = shown[:, 1:].astype(jnp.float32)
        one_hot = one_hot * weights[..., None]
        return -jnp.sum(jax.nn.log_softmax(logits) * one_hot) / jnp.sum(weights), None

    model = Gemma(2048, 256, 3, nnx.Rngs(0))
    words = draw.ids(2048, 4, 128)
    return case(model, loss, (words, words > 20))


NNX: dict[str, Callable[[Draws], Case]] = {
    "nnx: digits": digits,
    "nnx: miniGPT": mini_gpt,
    "nnx: vision transformer": vision_transformer,
    "nnx: diffusion U-Net": diffusion,
    "nnx: Gemma": gemma,
}
