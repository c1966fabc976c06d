"""Losses of haiku's examples, at sizes for a CPU."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
from jax_losses import Case, Draws

hk: Any = import_module("haiku")  # it need not be installed where types are checked

KEY = jax.random.key(0)


def decoder(words: Any, vocabulary: int, width: int, layers: int) -> Any:
    init = hk.initializers.TruncatedNormal(stddev=0.02)
    inner_init = hk.initializers.VarianceScaling(2 / layers)
    length = words.shape[1]
    places = hk.get_parameter("positional_embeddings", [length, width], init=init)
    x = hk.Embed(vocabulary, embed_dim=width, w_init=init)(words) + places
    causal = jnp.tril(jnp.ones((1, 1, length, length)))
    mask = (words > 0)[:, None, None, :] * causal

    def normed(x: Any) -> Any:
        return hk.LayerNorm(axis=-1, create_scale=True, create_offset=True)(x)

    for _ in range(layers):
        attention = hk.MultiHeadAttention(
            num_heads=8, key_size=32, model_size=width, w_init=inner_init
        )
        y = normed(x)
        x = x + hk.dropout(hk.next_rng_key(), 0.1, attention(y, y, y, mask=mask))
        y = hk.Linear(4 * width, w_init=inner_init)(normed(x))
        y = hk.Linear(width, w_init=inner_init)(jax.nn.gelu(y))
        x = x + hk.dropout(hk.next_rng_key(), 0.1, y)
    return hk.Linear(vocabulary)(normed(x))


def language_model(draw: Draws) -> Case:
    """examples/transformer: letters, 8 heads of 32, one-hot labels; two layers instead of six."""
    model = hk.transform(lambda words: decoder(words, 128, 256, 2))

    def loss(params: Any, words: Any, following: Any, key: Any) -> Any:
        logits = model.apply(params, key, words)
        one_hot = jax.nn.one_hot(following, 128)
        logs = jnp.sum(one_hot * jax.nn.log_softmax(logits), axis=-1)
        mask = jnp.greater(words, 0)
        return -jnp.sum(logs * mask) / jnp.sum(mask)

    words = draw.ids(128, 4, 128)
    inputs = (words, draw.ids(128, 4, 128), jax.random.key(1))
    return Case(loss, model.init(KEY, words), inputs)


def recurrent(words: Any) -> Any:
    core = hk.DeepRNN(
        [
            lambda x: jax.nn.one_hot(x, num_classes=128),
            hk.LSTM(256),
            jax.nn.relu,
            hk.LSTM(256),
            hk.nets.MLP([256, 128]),
        ]
    )
    found, _ = hk.dynamic_unroll(core, words, core.initial_state(words.shape[1]))
    return found


def letters(draw: Draws) -> Case:
    """examples/rnn: two LSTMs of 256 over 128 letters, batches of 32."""
    model = hk.without_apply_rng(hk.transform(recurrent))

    def loss(params: Any, words: Any, following: Any) -> Any:
        logs = jax.nn.log_softmax(model.apply(params, words))
        one_hot = jax.nn.one_hot(following, num_classes=logs.shape[-1])
        return -jnp.sum(one_hot * logs) / (words.shape[0] * words.shape[1])

    words = draw.ids(128, 128, 32)
    return Case(loss, model.init(KEY, words), (words, draw.ids(128, 128, 32)))


def image_classifier(images: Any) -> Any:
    return hk.nets.MobileNetV1((1, 2, 2, 2), (64, 128, 256, 512), num_classes=10)(
        images, is_training=True
    )


def mobile_net(draw: Draws) -> Case:
    """hk.nets.MobileNetV1 trained as examples/imagenet does: depthwise kernels, batch norm.

    Five of its blocks on 16 images of 32x32.
    """
    model = hk.without_apply_rng(hk.transform_with_state(image_classifier))
    images = draw.normal(16, 32, 32, 3)
    params, state = model.init(KEY, images)

    def loss(params: Any, state: Any, images: Any, labels: Any) -> Any:
        logits, state = model.apply(params, state, images)
        one_hot = jax.nn.one_hot(labels, 10)
        one_hot = one_hot * 0.9 + 0.1 / 10
        value = -jnp.sum(one_hot * jax.nn.log_softmax(logits), axis=-1).mean()
        penalty = 0.5 * sum(jnp.sum(jnp.square(p)) for p in jax.tree.leaves(params) if p.ndim > 1)
        return value + 1e-4 * penalty, state

    return Case(loss, params, (state, images, draw.ids(10, 16)), has_aux=True)


def residual_stack(x: Any, hiddens: int) -> Any:
    for _ in range(2):
        y = hk.Conv2D(32, 3, stride=(1, 1))(jax.nn.relu(x))
        x = x + hk.Conv2D(hiddens, 1, stride=(1, 1))(jax.nn.relu(y))
    return jax.nn.relu(x)


def quantised(images: Any) -> Any:
    x = jax.nn.relu(hk.Conv2D(64, 4, stride=(2, 2))(images))
    x = jax.nn.relu(hk.Conv2D(128, 4, stride=(2, 2))(x))
    x = residual_stack(hk.Conv2D(128, 3)(x), 128)
    found = hk.nets.VectorQuantizer(64, 512, 0.25)(hk.Conv2D(64, 1)(x), is_training=True)
    y = residual_stack(hk.Conv2D(128, 3)(found["quantize"]), 128)
    y = jax.nn.relu(hk.Conv2DTranspose(64, 4, stride=(2, 2))(y))
    y = hk.Conv2DTranspose(3, 4, stride=(2, 2))(y)
    return jnp.mean((y - images) ** 2) / 0.06327 + found["loss"]


def vector_quantised(draw: Draws) -> Case:
    """examples/vqvae: 128 hidden channels, 512 codes; 8 images of 32x32 instead of 32."""
    model = hk.without_apply_rng(hk.transform(quantised))
    images = draw.normal(8, 32, 32, 3)

    def loss(params: Any, images: Any) -> Any:
        return model.apply(params, images)

    return Case(loss, model.init(KEY, images), (images,))


HAIKU: dict[str, Callable[[Draws], Case]] = {
    "haiku: language model": language_model,
    "haiku: letters by LSTM": letters,
    "haiku: MobileNet": mobile_net,
    "haiku: VQ-VAE": vector_quantised,
}
