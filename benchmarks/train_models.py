"""The models of benchmarks/training.py, each as a Relax program and in plain JAX."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from relaxjax.ir.types import TensorType
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import SGD, Adam, from_optax

Arrays = Mapping[str, Any]
PlainLoss = Callable[[Arrays, Arrays, Any, Any], tuple[Any, Arrays]]


@dataclass(frozen=True)
class TrainModel:
    """A model and how it is trained, twice.

    `plain(params, states, x, labels)` gives the loss and the new states. A random key among the
    states is called `key`, as in the module that SetupTrainer makes.
    """

    script: str
    plain: PlainLoss
    loss: Any
    optimizer: Any
    tx: Any  # the same one, of optax
    scores: tuple[int, ...]
    labels: tuple[int, ...]
    inputs: Callable[[np.random.Generator], Any]
    states: Arrays = field(default_factory=dict)
    tvm: str | None = None  # the optimizer in TVM's own words, where TVM can train the model

    @property
    def loss_args(self) -> list[TensorType]:
        return [TensorType(self.scores, "float32"), TensorType(self.labels, "int32")]

    def batches(self, count: int) -> list[tuple[Any, Any]]:
        """Random inputs, and labels that a random table gives them."""
        rng = np.random.default_rng(0)
        return [
            (self.inputs(rng), rng.integers(0, self.scores[-1], self.labels).astype("int32"))
            for _ in range(count)
        ]


def cross_entropy(scores: Any, labels: Any) -> Any:
    """The loss of each sample, as optax's documentation has it."""
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels)


def perceptron(
    sizes: list[int],
    batch: int,
    loss: Literal["mean", "sum"],
    optimizer: Any,
    tx: Any,
    tvm: str | None = None,
) -> TrainModel:
    """Layers with relu between them."""
    params, body, last = [], [], "x"
    for i, (rows, columns) in enumerate(pairwise(sizes)):
        params.append(f'w{i}: R.Tensor(({rows}, {columns}), "float32")')
        params.append(f'b{i}: R.Tensor(({columns},), "float32")')
        body.append(f"h{i} = R.add(R.matmul({last}, w{i}), b{i})")
        last = f"h{i}"
        if i < len(sizes) - 2:
            body.append(f"r{i} = R.nn.relu(h{i})")
            last = f"r{i}"

    def plain(params: Arrays, states: Arrays, x: Any, labels: Any) -> tuple[Any, Arrays]:
        for i in range(len(sizes) - 1):
            x = x @ params[f"w{i}"] + params[f"b{i}"]
            x = jax.nn.relu(x) if i < len(sizes) - 2 else x
        each = cross_entropy(x, labels)
        return (each.sum() if loss == "sum" else each.mean()), states

    return TrainModel(
        script=module(f'x: R.Tensor(({batch}, {sizes[0]}), "float32")', params, [], body, [last]),
        plain=plain,
        loss=CrossEntropyLoss(loss),
        optimizer=optimizer,
        tx=tx,
        scores=(batch, sizes[-1]),
        labels=(batch,),
        inputs=lambda rng: rng.uniform(size=(batch, sizes[0])).astype("float32"),
        tvm=tvm,
    )


def cnn(batch: int = 64, kept: float = 0.75) -> TrainModel:
    """Two convolutions with batch norm, and dropout before the last layer."""
    params = [
        'k0: R.Tensor((16, 1, 3, 3), "float32")',
        'g0: R.Tensor((16,), "float32")',
        'b0: R.Tensor((16,), "float32")',
        'k1: R.Tensor((32, 16, 3, 3), "float32")',
        'g1: R.Tensor((32,), "float32")',
        'b1: R.Tensor((32,), "float32")',
        'w: R.Tensor((1568, 10), "float32")',
        'b: R.Tensor((10,), "float32")',
    ]
    sizes = {"m0": 16, "v0": 16, "m1": 32, "v1": 32}
    body = [
        "n0 = R.nn.batch_norm(R.nn.conv2d(x, k0, padding=(1, 1)), g0, b0, m0, v0, axis=1)",
        "p0 = R.nn.max_pool2d(R.nn.relu(n0[0]), (2, 2), (2, 2))",
        "n1 = R.nn.batch_norm(R.nn.conv2d(p0, k1, padding=(1, 1)), g1, b1, m1, v1, axis=1)",
        "p1 = R.nn.max_pool2d(R.nn.relu(n1[0]), (2, 2), (2, 2))",
        f"d = R.nn.dropout(R.reshape(p1, ({batch}, 1568)), rate={1 - kept})",
        "out = R.add(R.matmul(d[0], w), b)",
        *(f"{name} = n{i}[{j}]" for i in (0, 1) for j, name in enumerate((f"a{i}", f"c{i}"), 1)),
    ]

    def plain(params: Arrays, states: Arrays, x: Any, labels: Any) -> tuple[Any, Arrays]:
        new = {"key": jax.random.fold_in(states["key"], 1)}
        for i in (0, 1):
            x = lax.conv(x, params[f"k{i}"], (1, 1), "SAME")
            mean, var = jnp.mean(x, (0, 2, 3)), jnp.var(x, (0, 2, 3))
            new[f"m{i}"] = 0.9 * states[f"m{i}"] + 0.1 * mean
            new[f"v{i}"] = 0.9 * states[f"v{i}"] + 0.1 * var
            m, v, g, b = (
                a[None, :, None, None] for a in (mean, var, params[f"g{i}"], params[f"b{i}"])
            )
            x = jax.nn.relu((x - m) / jnp.sqrt(v + 1e-5) * g + b)
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        x = x.reshape(batch, -1)
        mask = jax.random.bernoulli(jax.random.fold_in(states["key"], 0), kept, x.shape)
        scores = jnp.where(mask, x / kept, 0.0) @ params["w"] + params["b"]
        return cross_entropy(scores, labels).mean(), new

    return TrainModel(
        script=module(
            f'x: R.Tensor(({batch}, 1, 28, 28), "float32")',
            params,
            [f'{name}: R.Tensor(({size},), "float32")' for name, size in sizes.items()],
            body,
            ["out", "a0", "c0", "a1", "c1"],
        ),
        plain=plain,
        loss=CrossEntropyLoss(),
        optimizer=Adam(1e-3),
        tx=optax.adam(1e-3),
        scores=(batch, 10),
        labels=(batch,),
        inputs=lambda rng: rng.uniform(size=(batch, 1, 28, 28)).astype("float32"),
        states={name: np.ones(size, "float32") for name, size in sizes.items()},
    )


def transformer(
    batch: int = 16, length: int = 64, width: int = 96, heads: int = 4, words: int = 96
) -> TrainModel:
    """Two blocks of causal attention and a perceptron, AdamW with a schedule and clipping."""
    shapes = {"table": (words, width), "places": (length, width)}
    for i in (0, 1):
        shapes |= {f"mix{i}": (width, 3 * width), f"mixed{i}": (width, width)}
        shapes |= {f"wide{i}": (width, 4 * width), f"narrow{i}": (4 * width, width)}
    split = f"({batch}, {length}, {heads}, {width // heads})"
    ones = f'R.ones(({width},), "float32")'
    body = ["x0 = R.add(R.take(table, x, axis=0), places)"]
    for i in (0, 1):
        body += [
            f"s{i} = R.split(R.matmul(R.nn.rms_norm(x{i}, {ones}), mix{i}), 3, axis=-1)",
            *(f"{q}{i} = R.reshape(s{i}[{j}], {split})" for j, q in enumerate("qkv")),
            f'a{i} = R.nn.attention(q{i}, k{i}, v{i}, causal_mask="TopLeft")',
            f"m{i} = R.matmul(R.reshape(a{i}, ({batch}, {length}, {width})), mixed{i})",
            f"y{i} = R.add(x{i}, m{i})",
            f"h{i} = R.nn.gelu(R.matmul(R.nn.rms_norm(y{i}, {ones}), wide{i}))",
            f"x{i + 1} = R.add(y{i}, R.matmul(h{i}, narrow{i}))",
        ]
    body += [
        f"last = R.reshape(R.nn.rms_norm(x2, {ones}), ({batch * length}, {width}))",
        "out = R.matmul(last, R.permute_dims(table))",
    ]

    def normed(x: Any) -> Any:
        return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)

    def attended(x: Any, mix: Any, mixed: Any) -> Any:
        q, k, v = (
            part.reshape(batch, length, heads, width // heads)
            for part in jnp.split(normed(x) @ mix, 3, -1)
        )
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(np.sqrt(width // heads))
        weights = jax.nn.softmax(jnp.where(np.tri(length, dtype=bool), scores, -jnp.inf))
        return jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ mixed

    def plain(params: Arrays, states: Arrays, x: Any, labels: Any) -> tuple[Any, Arrays]:
        x = params["table"][x] + params["places"]
        for i in (0, 1):
            x = x + attended(x, params[f"mix{i}"], params[f"mixed{i}"])
            hidden = jax.nn.gelu(normed(x) @ params[f"wide{i}"], approximate=False)
            x = x + hidden @ params[f"narrow{i}"]
        scores = (normed(x) @ params["table"].T).reshape(-1, words)
        return cross_entropy(scores, labels).mean(), states

    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-3, 100, 10_000)
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))
    params = [f'{name}: R.Tensor({shape}, "float32")' for name, shape in shapes.items()]
    return TrainModel(
        script=module(f'x: R.Tensor(({batch}, {length}), "int32")', params, [], body, ["out"]),
        plain=plain,
        loss=CrossEntropyLoss(),
        optimizer=from_optax(tx),
        tx=tx,
        scores=(batch * length, words),
        labels=(batch * length,),
        inputs=lambda rng: rng.integers(0, words, (batch, length)).astype("int32"),
    )


def module(x: str, params: list[str], states: list[str], body: list[str], out: list[str]) -> str:
    """The text of a module with a backbone."""
    signature = ", ".join([x, *params, *states])
    lines = "\n            ".join(body)
    return f"""
@I.ir_module
class Model:
    I.module_attrs({{"param_num": {len(params)}, "state_num": {len(states)}}})

    @R.function
    def backbone({signature}):
        with R.dataflow():
            {lines}
            R.output({", ".join(out)})
        return {", ".join(out)}
"""


def tutorial(optimizer: Any, tx: Any, tvm: str) -> TrainModel:
    """The three layers of TVM's tutorial, in batches of 64."""
    return perceptron([784, 128, 128, 10], 64, "sum", optimizer, tx, tvm)


def deep(arrays: int) -> TrainModel:
    """So many parameter arrays, all of them tiny: what counts is how they are handed over."""
    return perceptron([8] * (arrays // 2 + 1), 8, "mean", Adam(1e-3), optax.adam(1e-3))


MODELS: dict[str, Callable[[], TrainModel]] = {
    "tutorial's MLP, SGD": lambda: tutorial(
        SGD(1e-3, 0.01),
        optax.chain(optax.add_decayed_weights(0.01), optax.sgd(1e-3)),
        "SGD(0.001, 0.01)",
    ),
    "tutorial's MLP, Adam": lambda: tutorial(Adam(1e-3), optax.adam(1e-3), "Adam(0.001)"),
    "CNN, Adam": cnn,
    "transformer, AdamW": transformer,
}
