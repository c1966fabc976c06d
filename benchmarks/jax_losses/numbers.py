"""Losses of tables, graphs, agents and physics."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, nn

from .drawn import Case, Draws, cross_entropy


def logistic(draw: Draws) -> Case:
    params = {"weight": draw.weight(2000, 20), "bias": jnp.zeros(20)}

    def loss(params: Any, x: Any, classes: Any) -> Any:
        scores = x @ params["weight"] + params["bias"]
        return cross_entropy(scores, classes) + 1e-4 * (params["weight"] ** 2).sum()

    return Case(loss, params, (draw.normal(2000, 2000), draw.ids(20, 2000)))


def clicks(draw: Draws) -> Case:
    params = {
        "tables": [draw.normal(5000, 32, scale=0.1) for _ in range(8)],
        "dense": draw.weight(13, 32),
        "mix": draw.weight(68, 64),
        "head": draw.weight(64, 1),
    }

    def loss(params: Any, numbers: Any, ids: Any, clicked: Any) -> Any:
        found = [table[ids[:, place]] for place, table in enumerate(params["tables"])]
        vectors = jnp.stack([nn.relu(numbers @ params["dense"]), *found], 1)
        left, right = jnp.triu_indices(9, 1)
        products = jnp.einsum("bid,bjd->bij", vectors, vectors)[:, left, right]
        mixed = nn.relu(jnp.concatenate([vectors[:, 0], products], -1) @ params["mix"])
        logits = (mixed @ params["head"])[:, 0]
        return (nn.softplus(logits) - logits * clicked).mean()

    ids, clicked = draw.ids(5000, 256, 8), draw.ids(2, 256).astype("float32")
    return Case(loss, params, (draw.normal(256, 13), ids, clicked))


def pairs(draw: Draws) -> Case:
    """What texts and images of one meaning have in common."""
    sizes = ((512, 256), (256, 256), (256, 128))
    params = {
        "text": [draw.weight(*ends) for ends in sizes],
        "image": [draw.weight(*ends) for ends in sizes],
        "sharpness": jnp.float32(2),
    }

    def encoded(layers: Any, x: Any) -> Any:
        *inner, last = layers
        for weight in inner:
            x = nn.gelu(x @ weight)
        x = x @ last
        return x / jnp.linalg.norm(x, axis=-1, keepdims=True)

    def loss(params: Any, texts: Any, images: Any) -> Any:
        likeness = encoded(params["text"], texts) @ encoded(params["image"], images).T
        logits = likeness * jnp.exp(params["sharpness"])
        own = jnp.arange(len(logits))
        return (cross_entropy(logits, own) + cross_entropy(logits.T, own)) / 2

    return Case(loss, params, (draw.normal(256, 512), draw.normal(256, 512)))


def policy(draw: Draws) -> Case:
    params = {
        "first": draw.weight(64, 128),
        "second": draw.weight(128, 128),
        "actor": draw.weight(128, 6),
        "critic": draw.weight(128, 1),
    }

    def loss(params: Any, seen: Any, done: Any, gains: Any, returns: Any, before: Any) -> Any:
        x = jnp.tanh(jnp.tanh(seen @ params["first"]) @ params["second"])
        logs = nn.log_softmax(x @ params["actor"])
        ratio = jnp.exp(jnp.take_along_axis(logs, done[:, None], 1)[:, 0] - before)
        actor = -jnp.minimum(ratio * gains, jnp.clip(ratio, 0.8, 1.2) * gains).mean()
        critic = (((x @ params["critic"])[:, 0] - returns) ** 2).mean()
        return actor + critic / 2 + 0.01 * (jnp.exp(logs) * logs).sum(-1).mean()

    gains, returns, before = (draw.normal(2048) for _ in range(3))
    seen, done = draw.normal(2048, 64), draw.ids(6, 2048)
    return Case(loss, params, (seen, done, gains, returns, before - 1.7))


def flow(draw: Draws) -> Case:
    params = [{"in": draw.weight(16, 64), "out": 0.1 * draw.weight(64, 32)} for _ in range(6)]

    def loss(params: Any, x: Any) -> Any:
        volume: Any = 0.0
        for layer in params:
            kept, moved = jnp.split(x, 2, -1)
            scale, shift = jnp.split(nn.relu(kept @ layer["in"]) @ layer["out"], 2, -1)
            scale = jnp.tanh(scale)
            x = jnp.concatenate([moved * jnp.exp(scale) + shift, kept], -1)
            volume = volume + scale.sum(-1)
        return ((x**2).sum(-1) / 2 - volume).mean()

    return Case(loss, params, (draw.normal(512, 32),))


def graph(draw: Draws) -> Case:
    nodes, edges, width = 2000, 16000, 64
    params = {
        "in": draw.weight(16, width),
        "layers": [
            {"message": draw.weight(2 * width, width), "update": draw.weight(2 * width, width)}
            for _ in range(3)
        ],
        "head": draw.weight(width, 7),
    }

    def loss(params: Any, x: Any, ends: Any, classes: Any) -> Any:
        source, target = ends
        x = nn.relu(x @ params["in"])
        for layer in params["layers"]:
            both = jnp.concatenate([x[source], x[target]], -1)
            heard = jax.ops.segment_sum(nn.relu(both @ layer["message"]), target, nodes)
            x = x + nn.relu(jnp.concatenate([x, heard], -1) @ layer["update"])
        return cross_entropy(x @ params["head"], classes)

    return Case(
        loss, params, (draw.normal(nodes, 16), draw.ids(nodes, 2, edges), draw.ids(7, nodes))
    )


def gaussian_process(draw: Draws) -> Case:
    params = {"lengths": jnp.zeros(4), "scale": jnp.float32(0), "noise": jnp.float32(-2)}

    def loss(params: Any, x: Any, y: Any) -> Any:
        x = x / jnp.exp(params["lengths"])
        distances = ((x[:, None] - x[None]) ** 2).sum(-1)
        kernel = jnp.exp(params["scale"] - distances / 2)
        lower = jnp.linalg.cholesky(kernel + jnp.exp(params["noise"]) * jnp.eye(len(y)))
        white = jax.scipy.linalg.solve_triangular(lower, y, lower=True)
        return white @ white / 2 + jnp.log(jnp.diagonal(lower)).sum()

    return Case(loss, params, (draw.normal(256, 4), draw.normal(256)))


def fourier(draw: Draws) -> Case:
    width, modes = 24, 12
    params = {
        "in": draw.weight(3, width),
        "layers": [
            {
                "real": draw.normal(width, width, modes, modes, scale=0.05),
                "imaginary": draw.normal(width, width, modes, modes, scale=0.05),
                "skip": draw.weight(width, width),
            }
            for _ in range(3)
        ],
        "head": draw.weight(width, 1),
    }

    def loss(params: Any, x: Any, wanted: Any) -> Any:
        x = x @ params["in"]
        for layer in params["layers"]:
            waves = jnp.fft.rfft2(x, axes=(1, 2))
            kernel = lax.complex(layer["real"], layer["imaginary"])
            mixed = jnp.einsum("bxyi,ioxy->bxyo", waves[:, :modes, :modes], kernel)
            waves = jnp.zeros_like(waves).at[:, :modes, :modes].set(mixed)
            back = jnp.fft.irfft2(waves, s=x.shape[1:3], axes=(1, 2))
            x = nn.gelu(back + x @ layer["skip"])
        return ((x @ params["head"] - wanted) ** 2).mean()

    return Case(loss, params, (draw.normal(4, 64, 64, 3), draw.normal(4, 64, 64, 1)))


def differential_equation(draw: Draws) -> Case:
    """Second derivatives of a network in its loss."""
    sizes = ((2, 64), (64, 64), (64, 1))
    params = [{"weight": draw.weight(*ends), "bias": jnp.zeros(ends[1])} for ends in sizes]

    def heat(params: Any, place: Any) -> Any:
        *inner, last = params
        for layer in inner:
            place = jnp.tanh(place @ layer["weight"] + layer["bias"])
        return (place @ last["weight"])[0]

    def loss(params: Any, places: Any) -> Any:
        def error(place: Any) -> Any:
            curvature = jax.hessian(heat, 1)(params, place)[0, 0]
            return jax.grad(heat, 1)(params, place)[1] - 0.01 * curvature

        return (jax.vmap(error)(places) ** 2).mean()

    return Case(loss, params, (draw.normal(512, 2),))


def forces(draw: Draws) -> Case:
    """The slope of an energy by the places of atoms in its loss."""
    atoms = 96
    params = {"in": draw.weight(16, 64), "out": draw.weight(64, 1)}

    def energy(params: Any, places: Any) -> Any:
        apart = places[:, None] - places[None]
        distances = jnp.sqrt((apart**2).sum(-1) + jnp.eye(atoms))
        near = jnp.exp(-((distances[..., None] - jnp.linspace(0.5, 4, 16)) ** 2))
        of_pairs = (nn.silu(near @ params["in"]) @ params["out"])[..., 0]
        return (of_pairs * (1 - jnp.eye(atoms))).sum() / 2

    def loss(params: Any, places: Any, wanted: Any) -> Any:
        return ((jax.grad(energy, 1)(params, places) + wanted) ** 2).mean()

    return Case(loss, params, (draw.normal(atoms, 3, scale=1.5), draw.normal(atoms, 3)))


def ordinary_equation(draw: Draws) -> Case:
    """A network as the right side of a differential equation, by Runge and Kutta."""
    params = {"in": draw.weight(64, 128), "bias": jnp.zeros(128), "out": draw.weight(128, 64)}

    def loss(params: Any, x: Any, wanted: Any) -> Any:
        def slope(x: Any) -> Any:
            return jnp.tanh(x @ params["in"] + params["bias"]) @ params["out"]

        def step(x: Any, _: None) -> Any:
            first = slope(x)
            second = slope(x + 0.05 * first)
            third = slope(x + 0.05 * second)
            fourth = slope(x + 0.1 * third)
            return x + 0.1 / 6 * (first + 2 * second + 2 * third + fourth), None

        return ((lax.scan(step, x, None, length=20)[0] - wanted) ** 2).mean()

    return Case(loss, params, (draw.normal(128, 64), draw.normal(128, 64)))


NUMBERS = {
    "logistic regression": logistic,
    "click-through rates": clicks,
    "contrastive pairs": pairs,
    "policy by PPO": policy,
    "normalizing flow": flow,
    "graph network": graph,
    "Gaussian process": gaussian_process,
    "Fourier neural operator": fourier,
    "partial differential equation": differential_equation,
    "forces of atoms": forces,
    "ordinary differential equation": ordinary_equation,
}
