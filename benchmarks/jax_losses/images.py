"""Losses of images, sounds and volumes, channels last."""

from itertools import pairwise
from typing import Any

import jax.numpy as jnp
from jax import lax, nn

from .drawn import (
    Case,
    Draws,
    attention,
    block_of_transformer,
    block_params,
    convolved,
    cross_entropy,
    layer_norm,
)


def vision_transformer(draw: Draws) -> Case:
    params = {
        "patch": draw.weight(192, 128),
        "places": draw.normal(64, 128, scale=0.02),
        "blocks": [block_params(draw, 128) for _ in range(4)],
        "head": draw.weight(128, 10),
    }

    def loss(params: Any, images: Any, classes: Any) -> Any:
        patches = images.reshape(16, 8, 8, 8, 8, 3).transpose(0, 1, 3, 2, 4, 5)
        x = patches.reshape(16, 64, 192) @ params["patch"] + params["places"]
        for block in params["blocks"]:
            x = block_of_transformer(x, block, 4)
        return cross_entropy(x.mean(1) @ params["head"], classes)

    return Case(loss, params, (draw.normal(16, 64, 64, 3), draw.ids(10, 16)))


def convnext(draw: Draws) -> Case:
    width = 64
    params = {
        "stem": draw.weight(4, 4, 3, width),
        "blocks": [
            {
                "depthwise": draw.weight(7, 7, 1, width),
                "norm": (jnp.ones(width), jnp.zeros(width)),
                "up": draw.weight(width, 4 * width),
                "down": draw.weight(4 * width, width),
                "scale": jnp.full(width, 0.1),
            }
            for _ in range(4)
        ],
        "head": draw.weight(width, 10),
    }

    def loss(params: Any, images: Any, classes: Any) -> Any:
        x = convolved(images, params["stem"], stride=4)
        for block in params["blocks"]:
            inner = layer_norm(convolved(x, block["depthwise"], groups=width), *block["norm"])
            x = x + block["scale"] * (nn.gelu(inner @ block["up"]) @ block["down"])
        return cross_entropy(x.mean((1, 2)) @ params["head"], classes)

    return Case(loss, params, (draw.normal(8, 64, 64, 3), draw.ids(10, 8)))


def wide_resnet(draw: Draws) -> Case:
    widths = [16, 64, 64, 128, 128]
    params = {
        "stem": draw.weight(3, 3, 3, 16),
        "blocks": [
            {
                "first": draw.weight(3, 3, before, after),
                "second": draw.weight(3, 3, after, after),
                "norms": [(jnp.ones(size), jnp.zeros(size)) for size in (before, after)],
                **({"short": draw.weight(1, 1, before, after)} if before != after else {}),
            }
            for before, after in pairwise(widths)
        ],
        "head": draw.weight(128, 10),
    }

    def normed(x: Any, scale: Any, shift: Any) -> Any:
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return nn.relu((x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift)

    def loss(params: Any, images: Any, classes: Any) -> Any:
        x = convolved(images, params["stem"])
        for index, block in enumerate(params["blocks"]):
            stride = 2 if index == 2 else 1
            inner = normed(x, *block["norms"][0])
            short = convolved(inner, block["short"], stride) if "short" in block else x
            inner = normed(convolved(inner, block["first"], stride), *block["norms"][1])
            x = short + convolved(inner, block["second"])
        return cross_entropy(x.mean((1, 2)) @ params["head"], classes)

    return Case(loss, params, (draw.normal(16, 32, 32, 3), draw.ids(10, 16)))


def wavenet(draw: Draws) -> Case:
    width = 32
    params = {
        "stem": draw.weight(1, 1, width),
        "blocks": [
            {
                "filter": draw.weight(2, width, width),
                "gate": draw.weight(2, width, width),
                "out": draw.weight(1, width, width),
                "skip": draw.weight(1, width, width),
            }
            for _ in range(8)
        ],
        "head": draw.weight(1, width, 64),
    }

    def loss(params: Any, sound: Any, classes: Any) -> Any:
        x, skipped = convolved(sound, params["stem"]), 0
        for index, block in enumerate(params["blocks"]):
            dilation = 2 ** (1 + index % 4)
            inner = jnp.tanh(convolved(x, block["filter"], dilation=dilation))
            inner = inner * nn.sigmoid(convolved(x, block["gate"], dilation=dilation))
            skipped = skipped + convolved(inner, block["skip"])
            x = x + convolved(inner, block["out"])
        return cross_entropy(convolved(nn.relu(skipped), params["head"]), classes)

    return Case(loss, params, (draw.normal(4, 1024, 1), draw.ids(64, 4, 1024)))


def volumes(draw: Draws) -> Case:
    params = {
        "kernels": [draw.weight(3, 3, 3, *ends) for ends in ((1, 16), (16, 32), (32, 32))],
        "head": draw.weight(32, 10),
    }

    def loss(params: Any, scans: Any, classes: Any) -> Any:
        x = scans
        for stride, kernel in zip((2, 2, 1), params["kernels"], strict=True):
            x = nn.relu(convolved(x, kernel, stride))
        return cross_entropy(x.mean((1, 2, 3)) @ params["head"], classes)

    return Case(loss, params, (draw.normal(4, 32, 32, 32, 1), draw.ids(10, 4)))


def autoencoder(draw: Draws) -> Case:
    params = {
        "in": [draw.weight(4, 4, 1, 32), draw.weight(4, 4, 32, 64)],
        "mean": draw.weight(3136, 16),
        "spread": 0.1 * draw.weight(3136, 16),
        "code": draw.weight(16, 3136),
        "out": [draw.weight(4, 4, 64, 32), draw.weight(4, 4, 32, 1)],
    }

    def loss(params: Any, images: Any, noise: Any) -> Any:
        x = images
        for kernel in params["in"]:
            x = nn.relu(convolved(x, kernel, 2))
        x = x.reshape(len(x), -1)
        mean, spread = x @ params["mean"], x @ params["spread"]
        code = mean + jnp.exp(spread / 2) * noise
        x = nn.relu(code @ params["code"]).reshape(-1, 7, 7, 64)
        x = nn.relu(lax.conv_transpose(x, params["out"][0], (2, 2), "SAME"))
        logits = lax.conv_transpose(x, params["out"][1], (2, 2), "SAME")
        likelihood = (nn.softplus(logits) - logits * images).sum() / len(images)
        return likelihood - (1 + spread - mean**2 - jnp.exp(spread)).sum(-1).mean() / 2

    return Case(loss, params, (abs(draw.normal(32, 28, 28, 1)) % 1, draw.normal(32, 16)))


def diffusion(draw: Draws) -> Case:
    def residual(before: int, after: int) -> Any:
        return {
            "norms": [(jnp.ones(size), jnp.zeros(size)) for size in (before, after)],
            "kernels": [draw.weight(3, 3, before, after), draw.weight(3, 3, after, after)],
            "time": draw.weight(64, after),
            **({"short": draw.weight(1, 1, before, after)} if before != after else {}),
        }

    ends = {"first": (32, 32), "down": (32, 64), "low": (64, 64), "up": (128, 32), "last": (64, 32)}
    params = {
        "stem": draw.weight(3, 3, 3, 32),
        **{name: residual(*sizes) for name, sizes in ends.items()},
        "attention": {"qkv": draw.weight(64, 192), "out": draw.weight(64, 64)},
        "head": draw.weight(3, 3, 32, 3),
    }

    def normed(x: Any, scale: Any, shift: Any) -> Any:
        groups = x.reshape(len(x), -1, 8, x.shape[-1] // 8)
        mean, variance = (f(groups, (1, 3), keepdims=True) for f in (jnp.mean, jnp.var))
        return nn.silu(
            ((groups - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape) * scale + shift
        )

    def changed(x: Any, block: Any, time: Any) -> Any:
        inner = convolved(normed(x, *block["norms"][0]), block["kernels"][0])
        inner = normed(inner + (time @ block["time"])[:, None, None], *block["norms"][1])
        short = convolved(x, block["short"]) if "short" in block else x
        return short + convolved(inner, block["kernels"][1])

    def loss(params: Any, images: Any, times: Any, noise: Any) -> Any:
        angles = times[:, None] * jnp.exp(-jnp.arange(32) / 4)
        time = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)
        wide = changed(convolved(images, params["stem"]), params["first"], time)
        halved = wide.reshape(4, 16, 2, 16, 2, 32).mean((2, 4))
        low = changed(halved, params["down"], time)
        x = changed(low, params["low"], time).reshape(4, 256, 64)
        x = (x + attention(x, params["attention"], 4)).reshape(low.shape)
        x = changed(jnp.concatenate([x, low], -1), params["up"], time)
        doubled = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
        x = changed(jnp.concatenate([doubled, wide], -1), params["last"], time)
        return ((convolved(x, params["head"]) - noise) ** 2).mean()

    images, noise = draw.normal(4, 32, 32, 3), draw.normal(4, 32, 32, 3)
    return Case(loss, params, (images, 10 * jnp.arange(4.0), noise))


IMAGES = {
    "vision transformer": vision_transformer,
    "ConvNeXt": convnext,
    "wide ResNet": wide_resnet,
    "WaveNet": wavenet,
    "convolutions of volumes": volumes,
    "variational autoencoder": autoencoder,
    "diffusion U-Net": diffusion,
}
