"""Losses of texts and other sequences."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax, nn

from .drawn import Case, Draws, block_of_transformer, block_params, cross_entropy, layer_norm


def gated_recurrent(draw: Draws) -> Case:
    width = 128
    params = {
        "words": draw.normal(64, width, scale=0.1),
        "given": draw.weight(width, 3 * width),
        "state": draw.weight(width, 3 * width),
        "norm": (jnp.ones(width), jnp.zeros(width)),
        "head": draw.weight(width, 64),
    }

    def loss(params: Any, words: Any, following: Any) -> Any:
        given = (params["words"][words] @ params["given"]).transpose(1, 0, 2)

        def step(state: Any, x: Any) -> Any:
            (reset, update, new), own = (
                jnp.split(x, 3, -1),
                jnp.split(state @ params["state"], 3, -1),
            )
            update = nn.sigmoid(update + own[1])
            new = jnp.tanh(new + nn.sigmoid(reset + own[0]) * own[2])
            state = layer_norm((1 - update) * new + update * state, *params["norm"])
            return state, state

        _, states = lax.scan(step, jnp.zeros((16, width)), given)
        return cross_entropy(states @ params["head"], following.T)

    return Case(loss, params, (draw.ids(64, 16, 64), draw.ids(64, 16, 64)))


def rotated(x: Any) -> Any:
    """Queries or keys with their places in them, as rotations."""
    length, width = x.shape[1], x.shape[-1]
    angles = jnp.arange(length)[:, None] * 10000 ** (-jnp.arange(0, width, 2) / width)
    sine, cosine = jnp.sin(angles)[:, None], jnp.cos(angles)[:, None]
    left, right = jnp.split(x, 2, -1)
    return jnp.concatenate([left * cosine - right * sine, left * sine + right * cosine], -1)


def llama(draw: Draws, checkpointed: bool = False) -> Case:
    """Layers in one loop, shared keys and values, a gated MLP."""
    layers, width, heads = 4, 128, 8
    ends = {
        "queries": (width, width),
        "keys": (width, width // 2),
        "values": (width, width // 2),
        "out": (width, width),
        "gate": (width, 3 * width),
        "up": (width, 3 * width),
        "down": (3 * width, width),
    }
    params = {
        "words": draw.normal(256, width, scale=0.1),
        "layers": {
            **{name: draw.weight(layers, *sizes, inputs=sizes[0]) for name, sizes in ends.items()},
            "norms": jnp.ones((layers, 2, width)),
        },
        "norm": jnp.ones(width),
    }

    def normed(x: Any, scale: Any) -> Any:
        return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale

    def step(x: Any, layer: Any) -> Any:
        batch, length, _ = x.shape
        inner = normed(x, layer["norms"][0])
        by_head = {
            name: (inner @ layer[name]).reshape(batch, length, -1, width // heads)
            for name in ("queries", "keys", "values")
        }
        queries, keys = rotated(by_head["queries"]), jnp.repeat(rotated(by_head["keys"]), 2, 2)
        scores = jnp.einsum("bthd,bshd->bhts", queries, keys) / np.sqrt(width // heads)
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
        values = jnp.repeat(by_head["values"], 2, 2)
        mixed = jnp.einsum("bhts,bshd->bthd", nn.softmax(scores), values)
        x = x + mixed.reshape(batch, length, width) @ layer["out"]
        inner = normed(x, layer["norms"][1])
        return x + (nn.silu(inner @ layer["gate"]) * (inner @ layer["up"])) @ layer["down"], None

    def loss(params: Any, words: Any) -> Any:
        x = params["words"][words[:, :-1]]
        x, _ = lax.scan(jax.checkpoint(step) if checkpointed else step, x, params["layers"])
        return cross_entropy(normed(x, params["norm"]) @ params["words"].T, words[:, 1:])

    return Case(loss, params, (draw.ids(256, 8, 129),))


def half_precision(draw: Draws) -> Case:
    params = {
        "words": draw.normal(256, 128, scale=0.1),
        "blocks": [block_params(draw, 128) for _ in range(2)],
        "head": draw.weight(128, 256),
    }

    def loss(params: Any, words: Any, following: Any) -> Any:
        short = jax.tree.map(lambda array: array.astype(jnp.bfloat16), params)
        x = short["words"][words]
        for block in short["blocks"]:
            x = block_of_transformer(x, block, 4, causal=True)
        return cross_entropy((x @ short["head"]).astype(jnp.float32), following)

    return Case(loss, params, (draw.ids(256, 4, 128), draw.ids(256, 4, 128)))


def experts(draw: Draws) -> Case:
    width, count = 128, 8
    params = {
        "words": draw.normal(256, width, scale=0.1),
        "router": draw.weight(width, count),
        "up": draw.weight(count, width, 4 * width, inputs=width),
        "down": draw.weight(count, 4 * width, width, inputs=4 * width),
        "head": draw.weight(width, 256),
    }

    def loss(params: Any, words: Any, following: Any) -> Any:
        x = params["words"][words].reshape(-1, width)
        gates = nn.softmax(x @ params["router"])
        shares, chosen = lax.top_k(gates, 2)
        shares = (nn.one_hot(chosen, count) * shares[..., None]).sum(1)
        inner = nn.gelu(jnp.einsum("nd,edf->nef", x, params["up"]))
        x = x + jnp.einsum("nef,efd,ne->nd", inner, params["down"], shares)
        balance = (gates.mean(0) ** 2).sum()
        return cross_entropy(x @ params["head"], following.reshape(-1)) + 0.01 * balance

    return Case(loss, params, (draw.ids(256, 4, 64), draw.ids(256, 4, 64)))


def state_space(draw: Draws) -> Case:
    width, states = 64, 16
    params = {
        "in": draw.weight(8, width),
        "decay": draw.normal(width, states, scale=0.5),
        "write": draw.weight(width, states),
        "read": draw.weight(width, states),
        "pace": draw.weight(width, width),
        "out": draw.weight(width, 8),
    }

    def after(one: Any, other: Any) -> Any:
        return one[0] * other[0], other[0] * one[1] + other[1]

    def loss(params: Any, x: Any, wanted: Any) -> Any:
        x = x @ params["in"]
        pace = nn.softplus(x @ params["pace"])[..., None]
        decay = jnp.exp(-pace * jnp.exp(params["decay"]))
        written = pace * x[..., None] * (x @ params["write"])[:, :, None]
        _, states = lax.associative_scan(after, (decay, written), axis=1)
        read = (states * (x @ params["read"])[:, :, None]).sum(-1)
        return ((read @ params["out"] - wanted) ** 2).mean()

    return Case(loss, params, (draw.normal(4, 128, 8), draw.normal(4, 128, 8)))


def speech(draw: Draws) -> Case:
    params = {"in": draw.weight(26, 64), "out": draw.weight(64, 29)}

    def loss(params: Any, sound: Any, letters: Any) -> Any:
        logits = nn.relu(sound @ params["in"]) @ params["out"]
        whole = (jnp.zeros(array.shape[:2]) for array in (logits, letters))
        paddings = tuple(whole)
        return optax.ctc_loss(logits, paddings[0], letters, paddings[1]).mean()

    return Case(loss, params, (draw.normal(4, 100, 26), 1 + draw.ids(28, 4, 20)))


SEQUENCES: dict[str, Callable[[Draws], Case]] = {
    "gated recurrent network": gated_recurrent,
    "Llama, layers in a loop": llama,
    "the same, checkpointed": partial(llama, checkpointed=True),
    "transformer in bfloat16": half_precision,
    "mixture of experts": experts,
    "state space model": state_space,
    "speech by CTC": speech,
}
