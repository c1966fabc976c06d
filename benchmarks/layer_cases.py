"""Norms, losses, attention and the other layers, in Relax and in plain JAX.

The plain one is what somebody who knows JAX would write with jax.nn, jax.lax and jax.numpy.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from operator_case import Case, floats, ids

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call


def _standardized(x: Any, axes: Any) -> Any:
    mean, var = jnp.mean(x, axes, keepdims=True), jnp.var(x, axes, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5)


def _batch_norm_case(name: str, data: Sequence[int], axis: int, relu: bool) -> Case:
    channels = data[axis]
    others = tuple(a for a in range(len(data)) if a != axis)
    places = [channels if a == axis else 1 for a in range(len(data))]

    def relax(x: Expr, gamma: Expr, beta: Expr) -> Expr:
        running = call("zeros_like", beta), call("ones_like", beta)
        out = call("nn.batch_norm", x, gamma, beta, *running, axis=axis)[0]
        return call("nn.relu", out) if relu else out

    def plain(x: Any, gamma: Any, beta: Any) -> Any:
        out = _standardized(x, others) * gamma.reshape(places) + beta.reshape(places)
        return jax.nn.relu(out) if relu else out

    return Case(name, relax, plain, (floats(*data), floats(channels, center=1), floats(channels)))


def _layer_norm(rows: int, width: int) -> Case:
    def plain(x: Any, gamma: Any, beta: Any) -> Any:
        return _standardized(x, -1) * gamma + beta

    draws = (floats(rows, width), floats(width, center=1), floats(width))
    relax = partial(call, "nn.layer_norm", axes=[-1])
    return Case(f"layer norm {rows}x{width}", relax, plain, draws)


def _group_norm(data: Sequence[int], groups: int) -> Case:
    n, c, *rest = data

    def plain(x: Any, gamma: Any, beta: Any) -> Any:
        apart = x.reshape(n, groups, c // groups, *rest)
        values = _standardized(apart, tuple(range(2, apart.ndim))).reshape(x.shape)
        return values * gamma[:, None, None] + beta[:, None, None]

    draws = (floats(*data), floats(c, center=1), floats(c))
    relax = partial(call, "nn.group_norm", num_groups=groups, channel_axis=1, axes=[2, 3])
    return Case("group norm", relax, plain, draws)


def _rms_norm(rows: int, width: int) -> Case:
    def plain(x: Any, weight: Any) -> Any:
        return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * weight

    draws = (floats(rows, width), floats(width, center=1))
    return Case(f"rms norm {rows}x{width}", partial(call, "nn.rms_norm"), plain, draws)


def _cross_entropy(tokens: int, words: int) -> Case:
    """As optax has it: the logarithm of the sum of powers, less what the label picks."""

    def relax(x: Expr, labels: Expr) -> Expr:
        return call("nn.nll_loss", call("nn.log_softmax", x), labels)

    def plain(x: Any, labels: Any) -> Any:
        picked = jnp.take_along_axis(x, labels[:, None], -1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(x, -1) - picked)

    draws = (floats(tokens, words), ids(words, tokens))
    return Case(f"tokens {tokens}, words {words}", relax, plain, draws)


def _attention(batch: int, length: int, heads: int, size: int, mask: bool = True) -> Case:
    def plain(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(size)
        if mask:
            seen = jnp.tril(jnp.ones((length, length), bool))
            scores = jnp.where(seen[None, None], scores, -jnp.inf)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)

    def relax(q: Expr, k: Expr, v: Expr) -> Expr:
        return call("nn.attention", q, k, v, causal_mask="TopLeft" if mask else None)

    draws = (floats(batch, length, heads, size),) * 3
    return Case(f"{'causal' if mask else 'full'} T={length}", relax, plain, draws)


def _resize(name: str, data: Sequence[int], size: int, method: str, plain_method: str) -> Case:
    def plain(x: Any) -> Any:
        shape = (*x.shape[:2], size, size)
        return jax.image.resize(x, shape, plain_method, antialias=False)

    def relax(x: Expr) -> Expr:
        mode = "asymmetric" if method == "nearest_neighbor" else "half_pixel"
        options = {"method": method, "coordinate_transformation_mode": mode}
        return call("image.resize2d", x, (size, size), **options, cubic_alpha=-0.5, cubic_exclude=1)

    return Case(name, relax, plain, (floats(*data),))


def _grid_sample(data: Sequence[int], size: int) -> Case:
    """Bilinear, with corners aligned; of the four neighbours, those outside count as 0."""

    def of_image(image: Any, grid: Any) -> Any:
        height, width = image.shape[1:]
        places = (grid[1] + 1) * (height - 1) / 2, (grid[0] + 1) * (width - 1) / 2
        sample = partial(jax.scipy.ndimage.map_coordinates, order=1, mode="constant")
        return jax.vmap(lambda channel: sample(channel, places))(image)

    def relax(x: Expr, grid: Expr) -> Expr:
        return call("image.grid_sample", x, grid, align_corners=True)

    draws = (floats(*data), floats(data[0], 2, size, size, scale=0.4))
    return Case("grid_sample", relax, lambda x, grid: jax.vmap(of_image)(x, grid), draws)


def _lstm(steps: int, batch: int, width: int) -> Case:
    f, state = "float32", f'R.Tensor(({batch}, {width}), "float32")'
    script = f"""
@I.ir_module
class Module:
    @R.function
    def main(
        x0: R.Tensor(({steps}, {batch}, {width}), "{f}"),
        x1: R.Tensor(({width}, {4 * width}), "{f}"),
        x2: R.Tensor(({width}, {4 * width}), "{f}"),
        x3: R.Tensor(({4 * width},), "{f}"),
    ):
        with R.dataflow():
            @R.function
            def step(
                carry: R.Tuple({state}, {state}),
                x: R.Tensor(({batch}, {4 * width}), "{f}"),
            ):
                with R.dataflow():
                    gates = R.split(R.add(x, R.matmul(carry[0], x2)), 4, axis=-1)
                    c = R.add(
                        R.multiply(R.sigmoid(gates[1]), carry[1]),
                        R.multiply(R.sigmoid(gates[0]), R.tanh(gates[2])),
                    )
                    h = R.multiply(R.sigmoid(gates[3]), R.tanh(c))
                    R.output(h, c)
                return ((h, c), h)

            mixed = R.add(R.matmul(x0, x1), x3)
            start = R.zeros(R.shape([{batch}, {width}]), dtype="{f}")
            run = R.scan(step, (start, start), mixed)
            out = run[1]
            R.output(out)
        return out
"""

    def plain(x: Any, weight: Any, back: Any, bias: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(x + h @ back, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = jnp.zeros((batch, width))
        return lax.scan(step, (start, start), x @ weight + bias)[1]

    root = width**-0.5
    weights = (floats(width, 4 * width, scale=root),) * 2
    draws = (floats(steps, batch, width), *weights, floats(4 * width))
    return Case(f"T={steps}, batch {batch}, width {width}", script, plain, draws)


def _topk(rows: int, width: int, k: int) -> Case:
    return Case(
        f"topk {k} of {rows}x{width}",
        lambda x: call("topk", x, k, ret_type="values"),
        lambda x: lax.top_k(x, k)[0],
        (floats(rows, width),),
    )


def _dropout(*shape: int) -> Case:
    """The training form: a mask drawn with a key."""

    def relax(x: Expr, seed: Expr) -> Expr:
        key = call("random.key", seed)
        kept = call("random.bernoulli", key, 0.9, shape)
        return call("where", kept, x * (1 / 0.9), call("zeros_like", x))

    def plain(x: Any, seed: Any) -> Any:
        kept = jax.random.bernoulli(jax.random.key(seed), 0.9, shape)
        return jnp.where(kept, x / 0.9, 0.0)

    return Case("rate 0.1", relax, plain, (floats(*shape), ids(100)))


def _activation(name: str, plain: Callable[..., Any]) -> Case:
    return Case(name, partial(call, f"nn.{name}"), plain, (floats(1024, 1024),))


def _softmax(name: str, plain: Callable[..., Any], shape: Sequence[int]) -> Case:
    case = f"{'log, ' if name != 'softmax' else ''}{'x'.join(map(str, shape))}"
    return Case(case, partial(call, f"nn.{name}"), plain, (floats(*shape),))


_SOFTMAX = ((1024, 1024), (4096, 64), (8, 4, 256, 256))

FAMILIES: dict[str, list[Case]] = {
    "norm": [
        _batch_norm_case("batch norm", (8, 64, 28, 28), 1, relu=False),
        _batch_norm_case("batch norm, relu", (8, 64, 28, 28), 1, relu=True),
        _batch_norm_case("batch norm, relu, NHWC", (8, 28, 28, 64), 3, relu=True),
        _layer_norm(2048, 256),
        _layer_norm(256, 2048),
        _group_norm((8, 64, 28, 28), 8),
        _rms_norm(2048, 256),
    ],
    "softmax": [
        *(_softmax("softmax", jax.nn.softmax, shape) for shape in _SOFTMAX),
        *(_softmax("log_softmax", jax.nn.log_softmax, shape) for shape in _SOFTMAX),
    ],
    "cross_entropy": [_cross_entropy(64, 10), _cross_entropy(1024, 8192)],
    "activation": [
        _activation("relu", jax.nn.relu),
        _activation("gelu", partial(jax.nn.gelu, approximate=False)),
        _activation("gelu_tanh", partial(jax.nn.gelu, approximate=True)),
        _activation("silu", jax.nn.silu),
        _activation("softplus", jax.nn.softplus),
    ],
    "attention": [
        _attention(4, 256, 4, 64),
        _attention(2, 512, 4, 64),
        _attention(1, 1024, 4, 64),
        _attention(2, 256, 4, 64, mask=False),
    ],
    "embedding": [
        Case(
            "1024 of 8192x256",
            lambda table, places: call("take", table, places, axis=0),
            lambda table, places: table[places],
            (floats(8192, 256), ids(8192, 1024)),
        ),
        Case(
            "3-D places, 50000x32",
            lambda table, places: call("take", table, places, axis=0),
            lambda table, places: table[places],
            (floats(50000, 32), ids(50000, 64, 26)),
        ),
    ],
    "image": [
        _resize("bilinear, twice as large", (4, 16, 32, 32), 64, "linear", "bilinear"),
        _resize("bilinear, half as large", (4, 16, 64, 64), 32, "linear", "bilinear"),
        _resize("cubic, twice as large", (4, 16, 32, 32), 64, "cubic", "cubic"),
        _grid_sample((4, 16, 32, 32), 32),
    ],
    "lstm": [_lstm(64, 32, 64), _lstm(128, 16, 128)],
    "sorting": [
        Case("sort 256x1024", partial(call, "sort"), jnp.sort, (floats(256, 1024),)),
        _topk(256, 1024, 8),
        Case(
            "cumsum 256x1024",
            lambda x: call("cumsum", x, axis=1),
            lambda x: jnp.cumsum(x, 1),
            (floats(256, 1024),),
        ),
    ],
    "reduction": [
        Case(
            "sum of rows",
            partial(call, "sum", axis=[1]),
            lambda x: jnp.sum(x, 1),
            (floats(1024, 1024),),
        ),
        Case(
            "mean of columns",
            partial(call, "mean", axis=[0]),
            lambda x: jnp.mean(x, 0),
            (floats(1024, 1024),),
        ),
        Case(
            "max of rows",
            partial(call, "max", axis=[1]),
            lambda x: jnp.max(x, 1),
            (floats(1024, 1024),),
        ),
        Case(
            "variance of rows",
            partial(call, "variance", axis=[1]),
            lambda x: jnp.var(x, 1),
            (floats(1024, 1024),),
        ),
    ],
    "dropout": [_dropout(256, 1024)],
}
