"""Small models to be trained on several devices: layers, images, loops, experts, tables."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from parsing import parse_backbone
from small_gpt import gpt_params, gpt_scores
from small_models import trainer_of

from relaxjax import IRModule, TensorType, Trainer
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import Adam, from_optax

SAMPLES, CLASSES = 16, 8


@dataclass(frozen=True)
class SpreadModel:
    """A model to be trained: its trainer by the options of a mesh, its batches, a mixed form."""

    trainer: Callable[..., Trainer]
    batches: list[Any]
    mixed: dict[str, Any]  # which of its parameters are split along the axis `model`

    def losses(self, count: int, **options: Any) -> tuple[Trainer, np.ndarray[Any, Any]]:
        """A trainer, and the losses of its first steps."""
        trainer = self.trainer(**options)
        losses = [trainer.update(*one) for one in self.batches[:count]]
        return trainer, np.array(losses, "float64")


def state_bytes(trainer: Trainer) -> int:
    """The bytes of parameters and of the optimizer's state on the first device."""
    state = trainer._state
    arrays = [*state.params, *state.optimizer]
    return sum(array.addressable_shards[0].data.nbytes for array in arrays)


def layers(dtype: str) -> SpreadModel:
    """Two layers with dropout between them, and an optimizer that takes a norm of all gradients."""
    body = """
        hidden = R.nn.relu(R.add(R.matmul(x, w0), b0))
        thinned = R.nn.dropout(hidden, rate=0.1)
        out = R.add(R.matmul(thinned[0], w1), b1)
    """
    types = _tensors(dtype, x=(16, 24), w0=(24, 32), b0=(32,), w1=(32, 8), b1=(8,))
    model = parse_backbone(body, param_num=4, **types)
    tx = from_optax(optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(0.01)))
    mixed = {"w0": (None, "model"), "b0": ("model",), "w1": ("model",)}
    return SpreadModel(_of_model(model, tx, dtype), _examples(dtype, 24), mixed)


def images(dtype: str) -> SpreadModel:
    """A convolution with batch normalization, whose statistics are those of the whole batch."""
    body = """
        maps = R.nn.conv2d(x, k, padding=1)
        normed = R.nn.batch_norm(maps, gamma, beta, mean, var, axis=1)
        out = R.matmul(R.mean(R.nn.relu(normed[0]), axis=[2, 3]), w)
        new_mean = normed[1]
        new_var = normed[2]
        return (out, new_mean, new_var)
    """
    shapes = {"x": (16, 3, 6, 6), "k": (8, 3, 3, 3), "gamma": (8,), "beta": (8,)}
    types = _tensors(dtype, **shapes, w=(8, 8), mean=(8,), var=(8,))
    model = parse_backbone(body, param_num=4, state_num=2, **types)
    mixed = {"k": ("model",), "w": (None, "model")}
    return SpreadModel(_of_model(model, Adam(0.01), dtype), _examples(dtype, 3, 6, 6), mixed)


def gpt(dtype: str) -> SpreadModel:
    """Two equal blocks of attention and a wide layer, which are rolled into one loop."""
    words, length = 32, 4
    params = gpt_params(_drawing(dtype), 2, 16, words)

    def loss(params: Any, batch: Any) -> Any:
        ids, targets = batch
        scores = gpt_scores(params, ids)
        return optax.softmax_cross_entropy_with_integer_labels(scores, targets).mean()

    rng = np.random.default_rng(1)
    texts = rng.integers(0, words, (20, 2, SAMPLES, length)).astype("int32")
    batches = [((ids, targets),) for ids, targets in texts]
    mixed = {"blocks/*/attend": (None, "model"), "blocks/*/project": ("model",)}
    mixed |= {"blocks/*/widen": (None, "model"), "blocks/*/narrow": ("model",)}
    trainer = partial(_of_loss(loss, params, Adam(0.01), batches, dtype), roll_blocks=True)
    return SpreadModel(trainer, batches, mixed)


def lstm(dtype: str) -> SpreadModel:
    """A loop over time."""
    width, features, length = 16, 8, 5
    draw = _drawing(dtype)
    params = {"x": draw(features, 4 * width), "h": draw(width, 4 * width), "out": draw(width, 8)}

    def loss(params: Any, batch: Any) -> Any:
        x, y = batch

        def step(state: Any, one: Any) -> Any:
            h, c = state
            i, f, o, g = jnp.split(one @ params["x"] + h @ params["h"], 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        start = jnp.zeros((len(y), width), x.dtype)
        (h, _), _ = jax.lax.scan(step, (start, start), x.swapaxes(0, 1))
        scores = h @ params["out"]
        return optax.softmax_cross_entropy_with_integer_labels(scores, y).mean()

    batches = [((x, y),) for x, y in _examples(dtype, length, features)]
    mixed = {"x": (None, "model"), "h": (None, "model")}
    return SpreadModel(_of_loss(loss, params, optax.adam(0.01), batches, dtype), batches, mixed)


def experts(dtype: str) -> SpreadModel:
    """Experts of which a gate takes one for each sample, and a share of the others' scores."""
    width, count = 16, 4
    draw = _drawing(dtype)
    params = {
        "gate": draw(width, count),
        "widen": draw(count, width, 2 * width),
        "narrow": draw(count, 2 * width, 8),
    }

    def loss(params: Any, batch: Any) -> Any:
        x, y = batch
        shares = jax.nn.softmax(x @ params["gate"])
        taken = jax.nn.one_hot(shares.argmax(-1), count, dtype=x.dtype)
        sent = jnp.einsum("se,sd->esd", taken, x)
        hidden = jax.nn.gelu(jnp.einsum("esd,edh->esh", sent, params["widen"]))
        given = jnp.einsum("esh,ehc->esc", hidden, params["narrow"])
        scores = jnp.einsum("esc,se->sc", given, taken * shares)
        balance = count * jnp.vdot(taken.mean(0), shares.mean(0))
        cross = optax.softmax_cross_entropy_with_integer_labels(scores, y).mean()
        return cross + 0.01 * balance

    batches = [((x, y),) for x, y in _examples(dtype, width)]
    mixed = {"widen": ("model",), "narrow": ("model",)}
    return SpreadModel(_of_loss(loss, params, optax.adam(0.01), batches, dtype), batches, mixed)


def recommender(dtype: str) -> SpreadModel:
    """Tables of users and of things, of which a batch reads some rows."""
    users, things, width = 32, 64, 8
    draw = _drawing(dtype)
    params = {"users": draw(users, width), "things": draw(things, width), "bias": draw(things, 1)}

    def loss(params: Any, batch: Any) -> Any:
        user, thing, liked = batch
        scores = jnp.sum(params["users"][user] * params["things"][thing], -1)
        scores = scores + params["bias"][thing, 0]
        return optax.sigmoid_binary_cross_entropy(scores, liked).mean()

    rng = np.random.default_rng(3)
    batches = [
        (
            (
                rng.integers(0, users, SAMPLES).astype("i"),
                rng.integers(0, things, SAMPLES).astype("i"),
                rng.integers(0, 2, SAMPLES).astype(dtype),
            ),
        )
        for _ in range(20)
    ]
    mixed = {"users": ("model",), "things": ("model",), "bias": ("model",)}
    return SpreadModel(_of_loss(loss, params, optax.adam(0.01), batches, dtype), batches, mixed)


MODELS: dict[str, Callable[[str], SpreadModel]] = {
    "layers": layers, "images": images, "gpt": gpt, "lstm": lstm,
    "experts": experts, "recommender": recommender,
}  # fmt: skip


def _tensors(dtype: str, **shapes: tuple[int, ...]) -> dict[str, Any]:
    return {name: f'R.Tensor({shape}, "{dtype}")' for name, shape in shapes.items()}


def _of_model(model: IRModule, optimizer: Any, dtype: str) -> Callable[..., Trainer]:
    types = [TensorType((SAMPLES, CLASSES), dtype), TensorType((SAMPLES,), "int32")]

    def trainer(**options: Any) -> Trainer:
        made = trainer_of(model, CrossEntropyLoss(), optimizer, *types, **options)
        made.xavier_uniform_init_params(seed=0)
        made.seed(0)
        return made

    return trainer


def _of_loss(
    loss: Any, params: Any, optimizer: Any, batches: list[Any], dtype: str
) -> Callable[..., Trainer]:
    def trainer(**options: Any) -> Trainer:
        with jax.enable_x64(dtype == "float64"):
            return Trainer.from_jax(loss, params, optimizer, batches[0][0], **options)

    return trainer


def _examples(dtype: str, *shape: int) -> list[Any]:
    rng = np.random.default_rng(0)
    return [
        (rng.normal(size=(SAMPLES, *shape)).astype(dtype), rng.integers(0, 8, SAMPLES).astype("i"))
        for _ in range(20)
    ]


def _drawing(dtype: str) -> Callable[..., Any]:
    rng = np.random.default_rng(2)

    def draw(*shape: int) -> Any:
        return (rng.normal(size=shape) / shape[0] ** 0.5).astype(dtype)

    return draw
