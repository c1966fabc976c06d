"""Losses of flax's examples that are written with `flax.linen`, at sizes for a CPU."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax_losses import Case, Draws

nn: Any = import_module("flax.linen")  # it need not be installed where types are checked

KEY = jax.random.key(0)


class Digits(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        for features in (32, 64):
            x = nn.relu(nn.Conv(features, (3, 3))(x))
            x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = nn.relu(nn.Dense(256)(x.reshape(len(x), -1)))
        return nn.Dense(10)(x)


def digits(draw: Draws) -> Case:
    """examples/mnist: two convolutions, batches of 128, one-hot labels."""
    model, images = Digits(), draw.normal(128, 28, 28, 1)

    def loss(params: Any, images: Any, labels: Any) -> Any:
        logits = model.apply({"params": params}, images)
        one_hot = jax.nn.one_hot(labels, 10)
        return optax.softmax_cross_entropy(logits, one_hot).mean(), logits

    params = model.init(KEY, images)["params"]
    return Case(loss, params, (images, draw.ids(10, 128)), has_aux=True)


class ResNetBlock(nn.Module):
    filters: int
    strides: int
    train: bool

    @nn.compact
    def __call__(self, x: Any) -> Any:
        def normed(y: Any, **options: Any) -> Any:
            return nn.BatchNorm(not self.train, momentum=0.9, epsilon=1e-5, **options)(y)

        strides = (self.strides, self.strides)
        y = nn.Conv(self.filters, (3, 3), strides, use_bias=False)(x)
        y = nn.relu(normed(y))
        y = nn.Conv(self.filters, (3, 3), use_bias=False)(y)
        y = normed(y, scale_init=nn.initializers.zeros)
        if x.shape != y.shape:
            x = normed(nn.Conv(self.filters, (1, 1), strides, use_bias=False)(x))
        return nn.relu(x + y)


class ResNet(nn.Module):
    @nn.compact
    def __call__(self, x: Any, train: bool = True) -> Any:
        x = nn.Conv(64, (7, 7), (2, 2), padding=[(3, 3), (3, 3)], use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(not train, momentum=0.9, epsilon=1e-5)(x))
        x = nn.max_pool(x, (3, 3), strides=(2, 2), padding="SAME")
        for stage in range(4):
            for block in range(2):
                strides = 2 if stage > 0 and block == 0 else 1
                x = ResNetBlock(64 * 2**stage, strides, train)(x)
        return nn.Dense(1000)(jnp.mean(x, axis=(1, 2)))


def resnet(draw: Draws) -> Case:
    """examples/imagenet: ResNet-18, its weight decay; 8 images of 64x64 instead of 224x224."""
    model, images = ResNet(), draw.normal(8, 64, 64, 3)

    def loss(params: Any, state: Any, images: Any, labels: Any) -> Any:
        logits, state = model.apply(
            {"params": params, "batch_stats": state}, images, mutable=["batch_stats"]
        )
        one_hot = jax.nn.one_hot(labels, 1000)
        value = jnp.mean(optax.softmax_cross_entropy(logits, one_hot))
        decay = sum(jnp.sum(x**2) for x in jax.tree.leaves(params) if x.ndim > 1)
        return value + 1e-4 * 0.5 * decay, (state, logits)

    found = model.init(KEY, images)
    inputs = (found["batch_stats"], images, draw.ids(1000, 8))
    return Case(loss, found["params"], inputs, has_aux=True)


class Autoencoder(nn.Module):
    @nn.compact
    def __call__(self, x: Any, key: Any) -> Any:
        inner = nn.relu(nn.Dense(500)(x))
        mean, spread = nn.Dense(20)(inner), nn.Dense(20)(inner)
        z = mean + jnp.exp(0.5 * spread) * jax.random.normal(key, spread.shape)
        return nn.Dense(784)(nn.relu(nn.Dense(500)(z))), mean, spread


def autoencoder(draw: Draws) -> Case:
    """examples/vae: a variational autoencoder of 20 latents, batches of 128."""
    model, images = Autoencoder(), jax.nn.sigmoid(draw.normal(128, 784))

    @jax.vmap
    def divergence(mean: Any, spread: Any) -> Any:
        return -0.5 * jnp.sum(1 + spread - jnp.square(mean) - jnp.exp(spread))

    @jax.vmap
    def missed(logits: Any, labels: Any) -> Any:
        logits = nn.log_sigmoid(logits)
        return -jnp.sum(labels * logits + (1.0 - labels) * jnp.log(-jnp.expm1(logits)))

    def loss(params: Any, images: Any, key: Any) -> Any:
        found, mean, spread = model.apply({"params": params}, images, key)
        return missed(found, images).mean() + divergence(mean, spread).mean()

    return Case(loss, model.init(KEY, images, KEY)["params"], (images, jax.random.key(1)))


class TranslationBlock(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x: Any, mask: Any, encoded: Any = None, seen: Any = None) -> Any:
        def attended(y: Any, other: Any, mask: Any) -> Any:
            y = nn.MultiHeadDotProductAttention(
                num_heads=8, use_bias=False, dropout_rate=0.1, deterministic=False
            )(y, other, mask=mask)
            return nn.Dropout(0.1, deterministic=False)(y)

        y = nn.LayerNorm()(x)
        x = x + attended(y, y, mask)
        if encoded is not None:
            x = x + attended(nn.LayerNorm()(x), encoded, seen)
        y = nn.relu(nn.Dense(4 * self.width)(nn.LayerNorm()(x)))
        y = nn.Dropout(0.1, deterministic=False)(y)
        y = nn.Dense(self.width)(y)
        return x + nn.Dropout(0.1, deterministic=False)(y)


class Translator(nn.Module):
    vocabulary: int
    width: int
    layers: int

    @nn.compact
    def __call__(self, inputs: Any, targets: Any) -> Any:
        words = nn.Embed(self.vocabulary, self.width)
        places = self.param("places", nn.initializers.normal(0.02), (1, 256, self.width))
        x = words(inputs) + places[:, : inputs.shape[1]]
        mask = nn.make_attention_mask(inputs > 0, inputs > 0)
        for _ in range(self.layers):
            x = TranslationBlock(self.width)(x, mask)
        encoded = nn.LayerNorm()(x)
        shifted = jnp.pad(targets, ((0, 0), (1, 0)))[:, :-1]
        y = words(shifted) + places[:, : targets.shape[1]]
        mask = nn.combine_masks(
            nn.make_attention_mask(targets > 0, targets > 0), nn.make_causal_mask(targets)
        )
        seen = nn.make_attention_mask(targets > 0, inputs > 0)
        for _ in range(self.layers):
            y = TranslationBlock(self.width)(y, mask, encoded, seen)
        return words.attend(nn.LayerNorm()(y)) / jnp.sqrt(y.shape[-1])


def smoothed(logits: Any, targets: Any, smoothing: float = 0.1) -> Any:
    """The cross entropy of examples/wmt and examples/lm1b, without what no score can change."""
    size = logits.shape[-1]
    sure, low = 1.0 - smoothing, smoothing / (size - 1)
    soft = low + (sure - low) * jax.nn.one_hot(targets, size)
    least = -(sure * jnp.log(sure) + (size - 1) * low * jnp.log(low + 1e-20))
    each = -jnp.sum(soft * nn.log_softmax(logits), axis=-1) - least
    weights = jnp.where(targets > 0, 1, 0).astype(jnp.float32)
    return (each * weights).sum() / weights.sum()


def translation(draw: Draws) -> Case:
    """examples/wmt: encoder and decoder under masks of padding, smoothed labels, tied words.

    Two layers of width 256 instead of six of 1024, and 2,000 words.
    """
    model = Translator(2000, 256, 2)
    inputs, targets = draw.ids(2000, 8, 64), draw.ids(2000, 8, 64)

    def loss(params: Any, inputs: Any, targets: Any, key: Any) -> Any:
        logits = model.apply({"params": params}, inputs, targets, rngs={"dropout": key})
        return smoothed(logits, targets), logits

    params = model.init({"params": KEY, "dropout": KEY}, inputs, targets)["params"]
    return Case(loss, params, (inputs, targets, jax.random.key(1)), has_aux=True)


class SumWriter(nn.Module):
    """Reads a question by one LSTM, and writes its answer by another, which starts there."""

    vocabulary: int

    @nn.compact
    def __call__(self, questions: Any, answers: Any) -> Any:
        encoder = nn.RNN(nn.LSTMCell(512), return_carry=True)
        state, _ = encoder(questions)
        decoder = nn.RNN(nn.LSTMCell(512))
        return nn.Dense(self.vocabulary)(decoder(answers[:, :-1], initial_carry=state))


def addition(draw: Draws) -> Case:
    """examples/seq2seq: the sum of two numbers, as letters, by LSTMs of 512; batches of 128."""
    model = SumWriter(15)
    questions = jax.nn.one_hot(draw.ids(15, 128, 9), 15)
    answers = jax.nn.one_hot(draw.ids(15, 128, 6), 15)
    lengths = 2 + draw.ids(4, 128)

    def loss(params: Any, questions: Any, answers: Any, lengths: Any) -> Any:
        logits = model.apply({"params": params}, questions, answers)
        each = jnp.sum(nn.log_softmax(logits) * answers[:, 1:], axis=-1)
        shown = jnp.arange(each.shape[1])[None, :] < lengths[:, None]
        return -jnp.mean(jnp.where(shown, each, 0.0)), logits

    params = model.init(KEY, questions, answers)["params"]
    return Case(loss, params, (questions, answers, lengths), has_aux=True)


class ActorCritic(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = x.astype(jnp.float32) / 255.0
        for features, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            x = nn.relu(nn.Conv(features, (size, size), (stride, stride), padding="VALID")(x))
        x = nn.relu(nn.Dense(512)(x.reshape((x.shape[0], -1))))
        return nn.log_softmax(nn.Dense(4)(x)), nn.Dense(1)(x)


def proximal_policy(draw: Draws) -> Case:
    """examples/ppo: four stacked pictures of a game, 84x84; batches of 64 instead of 256."""
    model, count = ActorCritic(), 64
    states = draw.ids(256, count, 84, 84, 4).astype("uint8")

    def loss(params: Any, states: Any, actions: Any, before: Any, returns: Any, gains: Any) -> Any:
        logs, values = model.apply({"params": params}, states)
        values, chances = values[:, 0], jnp.exp(logs)
        value_loss = jnp.mean(jnp.square(returns - values))
        entropy = jnp.sum(-chances * logs, axis=1).mean()
        taken = jax.vmap(lambda log, action: log[action])(logs, actions)
        ratios = jnp.exp(taken - before)
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        clipped = jax.lax.clamp(1.0 - 0.1, ratios, 1.0 + 0.1)
        actor = -jnp.mean(jnp.minimum(ratios * gains, gains * clipped))
        return actor + 0.5 * value_loss - 0.01 * entropy

    params = model.init(KEY, states)["params"]
    numbers = [draw.normal(count) for _ in range(3)]
    return Case(loss, params, (states, draw.ids(4, count), *numbers))


class Sentiment(nn.Module):
    @nn.compact
    def __call__(self, words: Any, lengths: Any) -> Any:
        x = nn.Embed(5000, 300)(words)
        x = nn.Dropout(0.1, deterministic=False)(x)
        read = nn.RNN(nn.OptimizedLSTMCell(256), return_carry=True)
        (_, last), _ = read(x, seq_lengths=lengths)
        x = nn.Dropout(0.5, deterministic=False)(last)
        return nn.Dense(1)(jnp.tanh(nn.Dense(256)(x)))


def sentiment(draw: Draws) -> Case:
    """examples/sst2: an LSTM of 256 over sentences of up to 60 words, batches of 64."""
    model = Sentiment()
    words, lengths = draw.ids(5000, 64, 60), 30 + draw.ids(30, 64)

    def loss(params: Any, words: Any, lengths: Any, labels: Any, key: Any) -> Any:
        logits = model.apply({"params": params}, words, lengths, rngs={"dropout": key})
        labels = jnp.expand_dims(labels, 1)
        one, none = jax.nn.log_sigmoid(logits), jax.nn.log_sigmoid(-logits)
        return -jnp.mean(labels * one + (1.0 - labels) * none), logits

    params = model.init({"params": KEY, "dropout": KEY}, words, lengths)["params"]
    labels = draw.ids(2, 64).astype("float32")
    return Case(loss, params, (words, lengths, labels, jax.random.key(1)), has_aux=True)


class Pictures(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        for features in (32, 64, 128):
            x = nn.Conv(features, (3, 3))(x)
            x = nn.relu(nn.GroupNorm(num_groups=8)(x))
            x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = nn.relu(nn.Dense(256)(x.mean(axis=(1, 2))))
        return nn.Dense(128)(x)


def contrastive(draw: Draws) -> Case:
    """optax.losses.ntxent as its documentation has it, of a small encoder and 64 pairs."""
    model, images = Pictures(), draw.normal(128, 32, 32, 3)

    def loss(params: Any, images: Any, pairs: Any) -> Any:
        vectors = model.apply({"params": params}, images)
        return optax.losses.ntxent(vectors, pairs, temperature=0.07)

    pairs = jnp.repeat(jnp.arange(64), 2)
    return Case(loss, model.init(KEY, images)["params"], (images, pairs))


class Frames(nn.Module):
    @nn.compact
    def __call__(self, frames: Any) -> Any:
        states = nn.RNN(nn.ConvLSTMCell(features=16, kernel_size=(3, 3)))(frames)
        return nn.Conv(1, (3, 3))(states)


def next_frames(draw: Draws) -> Case:
    """nn.ConvLSTMCell in nn.RNN as their documentation has them: 4 films of 8 frames of 32x32."""
    model, films = Frames(), draw.normal(4, 9, 32, 32, 1)

    def loss(params: Any, films: Any) -> Any:
        return jnp.mean((model.apply({"params": params}, films[:, :-1]) - films[:, 1:]) ** 2)

    return Case(loss, model.init(KEY, films[:, :-1])["params"], (films,))


LINEN: dict[str, Callable[[Draws], Case]] = {
    "linen: digits": digits,
    "linen: ResNet-18": resnet,
    "linen: variational autoencoder": autoencoder,
    "linen: translation": translation,
    "linen: addition by LSTM": addition,
    "linen: PPO": proximal_policy,
    "linen: sentiment by LSTM": sentiment,
    "linen, optax: contrastive pairs": contrastive,
    "linen: next frames by ConvLSTM": next_frames,
}
