"""Losses of equinox's examples, at sizes for a CPU."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax_losses import Case, Draws

eqx: Any = import_module("equinox")  # it need not be installed where types are checked

KEY = jax.random.key(0)


def case(model: Any, loss: Callable[..., Any], inputs: tuple[Any, ...]) -> Case:
    """A loss of a model by its arrays of floats, as `eqx.filter_value_and_grad` has it."""
    params, rest = eqx.partition(model, eqx.is_inexact_array)

    def of_params(params: Any, *inputs: Any) -> Any:
        return loss(eqx.combine(params, rest), *inputs)

    return Case(of_params, params, inputs)


class Digits(eqx.Module):
    layers: list[Any]

    def __init__(self, key: Any) -> None:
        keys = jax.random.split(key, 4)
        self.layers = [
            eqx.nn.Conv2d(1, 3, kernel_size=4, key=keys[0]),
            eqx.nn.MaxPool2d(kernel_size=2),
            jax.nn.relu,
            jnp.ravel,
            eqx.nn.Linear(1728, 512, key=keys[1]),
            jax.nn.sigmoid,
            eqx.nn.Linear(512, 64, key=keys[2]),
            jax.nn.relu,
            eqx.nn.Linear(64, 10, key=keys[3]),
            jax.nn.log_softmax,
        ]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def digits(draw: Draws) -> Case:
    """Convolutional neural network on MNIST: images one by one under vmap, batches of 64."""

    def loss(model: Any, images: Any, labels: Any) -> Any:
        found = jax.vmap(model)(images)
        return -jnp.mean(jnp.take_along_axis(found, jnp.expand_dims(labels, 1), axis=1))

    return case(Digits(KEY), loss, (draw.normal(64, 1, 28, 28), draw.ids(10, 64)))


class Spirals(eqx.Module):
    cell: Any
    linear: Any
    bias: Any

    def __init__(self, inputs: int, hidden: int, key: Any) -> None:
        first, second = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(inputs, hidden, key=first)
        self.linear = eqx.nn.Linear(hidden, 1, use_bias=False, key=second)
        self.bias = jnp.zeros(1)

    def __call__(self, data: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            return self.cell(x, state), None

        last, _ = lax.scan(step, jnp.zeros((self.cell.hidden_size,)), data)
        return jax.nn.sigmoid(self.linear(last) + self.bias)


def spirals(draw: Draws) -> Case:
    """Training an RNN: which way a spiral turns, by a GRU; 128 units and 64 places a spiral."""

    def loss(model: Any, x: Any, y: Any) -> Any:
        found = jax.vmap(model)(x)[:, 0]
        return -jnp.mean(y * jnp.log(found) + (1 - y) * jnp.log(1 - found))

    inputs = (draw.normal(32, 64, 2), draw.ids(2, 32).astype("float32"))
    return case(Spirals(2, 128, KEY), loss, inputs)


def _of_classes(model: Any, inputs: Any, labels: Any, key: Any) -> Any:
    """The cross entropy of the scores of a model that draws for each of its inputs."""
    logits = jax.vmap(model)(inputs, jax.random.split(key, len(inputs)))
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))


class BertLayer(eqx.Module):
    attention: Any
    first_norm: Any
    up: Any
    down: Any
    second_norm: Any
    dropout: Any

    def __init__(self, width: int, inner: int, heads: int, key: Any) -> None:
        keys = jax.random.split(key, 3)
        self.attention = eqx.nn.MultiheadAttention(
            num_heads=heads,
            query_size=width,
            use_query_bias=True,
            use_key_bias=True,
            use_value_bias=True,
            use_output_bias=True,
            dropout_p=0.1,
            key=keys[0],
        )
        self.first_norm, self.second_norm = (eqx.nn.LayerNorm(width) for _ in range(2))
        self.up = eqx.nn.Linear(width, inner, key=keys[1])
        self.down = eqx.nn.Linear(inner, width, key=keys[2])
        self.dropout = eqx.nn.Dropout(0.1)

    def __call__(self, x: Any, shown: Any, key: Any) -> Any:
        first, second, third = jax.random.split(key, 3)
        rows, columns = jnp.expand_dims(shown, axis=-1), jnp.expand_dims(shown, axis=-2)
        mask = jnp.multiply(rows, columns)
        mixed = self.attention(x, x, x, mask=mask.astype(bool), key=first)
        x = jax.vmap(self.first_norm)(self.dropout(mixed, key=second) + x)

        def fed(one: Any, key: Any) -> Any:
            inner = self.down(jax.nn.gelu(self.up(one)))
            return self.second_norm(self.dropout(inner, key=key) + one)

        return jax.vmap(fed)(x, jax.random.split(third, x.shape[0]))


class Bert(eqx.Module):
    words: Any
    places: Any
    norm: Any
    layers: list[Any]
    pooler: Any
    classifier: Any

    def __init__(self, words: int, width: int, layers: int, heads: int, key: Any) -> None:
        keys = jax.random.split(key, 5)
        self.words = eqx.nn.Embedding(words, width, key=keys[0])
        self.places = eqx.nn.Embedding(512, width, key=keys[1])
        self.norm = eqx.nn.LayerNorm(width)
        self.layers = [
            BertLayer(width, 4 * width, heads, key) for key in jax.random.split(keys[2], layers)
        ]
        self.pooler = eqx.nn.Linear(width, width, key=keys[3])
        self.classifier = eqx.nn.Linear(width, 2, key=keys[4])

    def __call__(self, words: Any, key: Any) -> Any:
        places = jnp.arange(len(words))
        x = jax.vmap(self.words)(words) + jax.vmap(self.places)(places)
        x, shown = jax.vmap(self.norm)(x), jnp.asarray(words != 0, jnp.int32)
        for layer, own in zip(self.layers, jax.random.split(key, len(self.layers)), strict=True):
            x = layer(x, shown, own)
        return self.classifier(jnp.tanh(self.pooler(x[0])))


def bert(draw: Draws) -> Case:
    """BERT fine-tuning: the tiny one, two layers of 128, two heads, 16 texts of 128 words."""

    model = Bert(4000, 128, 2, 2, KEY)
    return case(model, _of_classes, (draw.ids(4000, 16, 128), draw.ids(2, 16), jax.random.key(1)))


class AttentionBlock(eqx.Module):
    norm1: Any
    norm2: Any
    attention: Any
    linear1: Any
    linear2: Any
    dropout1: Any
    dropout2: Any

    def __init__(self, width: int, inner: int, heads: int, key: Any) -> None:
        keys = jax.random.split(key, 3)
        self.norm1, self.norm2 = (eqx.nn.LayerNorm(width) for _ in range(2))
        self.attention = eqx.nn.MultiheadAttention(heads, width, key=keys[0])
        self.linear1 = eqx.nn.Linear(width, inner, key=keys[1])
        self.linear2 = eqx.nn.Linear(inner, width, key=keys[2])
        self.dropout1, self.dropout2 = (eqx.nn.Dropout(0.1) for _ in range(2))

    def __call__(self, x: Any, key: Any) -> Any:
        y = jax.vmap(self.norm1)(x)
        x = x + self.attention(y, y, y)
        y = jax.nn.gelu(jax.vmap(self.linear1)(jax.vmap(self.norm2)(x)))
        first, second = jax.random.split(key)
        y = jax.vmap(self.linear2)(self.dropout1(y, key=first))
        return x + self.dropout2(y, key=second)


class VisionTransformer(eqx.Module):
    patches: Any
    places: Any
    first: Any
    blocks: list[Any]
    head: Any

    def __init__(self, width: int, inner: int, heads: int, layers: int, key: Any) -> None:
        keys = jax.random.split(key, 5)
        self.patches = eqx.nn.Linear(4 * 4 * 3, width, key=keys[0])
        self.places = jax.random.normal(keys[1], (65, width))
        self.first = jax.random.normal(keys[2], (1, width))
        self.blocks = [
            AttentionBlock(width, inner, heads, key) for key in jax.random.split(keys[3], layers)
        ]
        self.head = eqx.nn.Sequential(
            [eqx.nn.LayerNorm(width), eqx.nn.Linear(width, 10, key=keys[4])]
        )

    def __call__(self, x: Any, key: Any) -> Any:
        apart = x.reshape(3, 8, 4, 8, 4).transpose(1, 3, 0, 2, 4).reshape(64, 48)
        x = jnp.concatenate([self.first, jax.vmap(self.patches)(apart)]) + self.places
        for block, own in zip(self.blocks, jax.random.split(key, len(self.blocks)), strict=True):
            x = block(x, own)
        return self.head(x[0])


def vision_transformer(draw: Draws) -> Case:
    """Vision Transformer on CIFAR-10: width 64, patches of 4; two blocks instead of six."""

    model = VisionTransformer(64, 128, 8, 2, KEY)
    return case(
        model, _of_classes, (draw.normal(64, 3, 32, 32), draw.ids(10, 64), jax.random.key(1))
    )


class MixerBlock(eqx.Module):
    patch_mixer: Any
    hidden_mixer: Any
    norm1: Any
    norm2: Any

    def __init__(self, patches: int, hidden: int, inner: int, key: Any) -> None:
        first, second = jax.random.split(key)
        self.patch_mixer = eqx.nn.MLP(patches, patches, inner, depth=1, key=first)
        self.hidden_mixer = eqx.nn.MLP(hidden, hidden, inner, depth=1, key=second)
        self.norm1, self.norm2 = (eqx.nn.LayerNorm((hidden, patches)) for _ in range(2))

    def __call__(self, y: Any) -> Any:
        y = y + jax.vmap(self.patch_mixer)(self.norm1(y))
        y = self.norm2(y).transpose()
        y = y + jax.vmap(self.hidden_mixer)(y)
        return y.transpose()


class Mixer(eqx.Module):
    into: Any
    out: Any
    blocks: list[Any]
    norm: Any

    def __init__(self, hidden: int, inner: int, blocks: int, key: Any) -> None:
        keys = jax.random.split(key, blocks + 2)
        self.into = eqx.nn.Conv2d(2, hidden, 4, stride=4, key=keys[0])
        self.out = eqx.nn.ConvTranspose2d(hidden, 1, 4, stride=4, key=keys[1])
        self.blocks = [MixerBlock(49, hidden, inner, key) for key in keys[2:]]
        self.norm = eqx.nn.LayerNorm((hidden, 49))

    def __call__(self, time: Any, y: Any) -> Any:
        t = jnp.broadcast_to(time / 10, (1, *y.shape[1:]))
        y = self.into(jnp.concatenate([y, t]))
        hidden, height, width = y.shape
        y = y.reshape(hidden, -1)
        for block in self.blocks:
            y = block(y)
        return self.out(self.norm(y).reshape(hidden, height, width))


def score(draw: Draws) -> Case:
    """Score-based diffusion: noise of digits by a mixer, hidden 64, mixed by 512; 32 images."""

    def one(model: Any, data: Any, time: Any, key: Any) -> Any:
        mean, variance = data * jnp.exp(-0.5 * time), jnp.maximum(1 - jnp.exp(-time), 1e-5)
        spread = jnp.sqrt(variance)
        noise = jax.random.normal(key, data.shape)
        found = model(time, mean + spread * noise)
        return (1 - jnp.exp(-time)) * jnp.mean((found + noise / spread) ** 2)

    def loss(model: Any, data: Any, key: Any) -> Any:
        count = data.shape[0]
        for_times, for_noise = jax.random.split(key)
        times = jax.random.uniform(for_times, (count,), minval=0, maxval=10 / count)
        times = times + (10 / count) * jnp.arange(count)
        each = jax.vmap(one, in_axes=(None, 0, 0, 0))
        return jnp.mean(each(model, data, times, jax.random.split(for_noise, count)))

    return case(Mixer(64, 512, 4, KEY), loss, (draw.normal(32, 1, 28, 28), jax.random.key(1)))


class SpectralConv(eqx.Module):
    real: Any
    imaginary: Any
    modes: int

    def __init__(self, channels: int, modes: int, key: Any) -> None:
        self.modes = modes
        shape = (channels, channels, modes)
        self.real, self.imaginary = (
            jax.random.uniform(one, shape, minval=-1 / channels**2, maxval=1 / channels**2)
            for one in jax.random.split(key)
        )

    def __call__(self, x: Any) -> Any:
        channels, places = x.shape
        waves = jnp.fft.rfft(x)
        weights = self.real + 1j * self.imaginary
        mixed = jnp.einsum("iM,ioM->oM", waves[:, : self.modes], weights)
        out = jnp.zeros((channels, waves.shape[-1]), dtype=waves.dtype)
        return jnp.fft.irfft(out.at[:, : self.modes].set(mixed), n=places)


class FourierOperator(eqx.Module):
    lift: Any
    spectral: list[Any]
    bypass: list[Any]
    project: Any

    def __init__(self, width: int, modes: int, blocks: int, key: Any) -> None:
        keys = jax.random.split(key, 2 * blocks + 2)
        self.lift = eqx.nn.Conv1d(2, width, 1, key=keys[0])
        self.spectral = [SpectralConv(width, modes, one) for one in keys[2 : 2 + blocks]]
        self.bypass = [eqx.nn.Conv1d(width, width, 1, key=one) for one in keys[2 + blocks :]]
        self.project = eqx.nn.Conv1d(width, 1, 1, key=keys[1])

    def __call__(self, x: Any) -> Any:
        x = self.lift(x)
        for spectral, bypass in zip(self.spectral, self.bypass, strict=True):
            x = jax.nn.relu(spectral(x) + bypass(x))
        return self.project(x)


def fourier_operator(draw: Draws) -> Case:
    """Fourier neural operator in equinox, after its authors' 1-D Burgers: 64 channels, 16 modes."""

    def loss(model: Any, x: Any, y: Any) -> Any:
        return jnp.mean(jnp.square(jax.vmap(model)(x) - y))

    places = jnp.broadcast_to(jnp.linspace(0, 2 * np.pi, 512), (16, 1, 512))
    x = jnp.concatenate([draw.normal(16, 1, 512), places], 1)
    return case(FourierOperator(64, 16, 4, KEY), loss, (x, draw.normal(16, 1, 512)))


EQUINOX: dict[str, Callable[[Draws], Case]] = {
    "equinox: digits": digits,
    "equinox: spirals by GRU": spirals,
    "equinox: BERT": bert,
    "equinox: vision transformer": vision_transformer,
    "equinox: score by a mixer": score,
    "equinox: Fourier neural operator": fourier_operator,
}
