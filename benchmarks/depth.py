"""What depth costs: compile time and step time of a GPT, its layers as one loop and one by one.

    python benchmarks/depth.py
    python benchmarks/depth.py --layers 6 12 --rounds 5
    python benchmarks/depth.py --layers 12 24 --imported --without "one by one" "one loop"
    python benchmarks/depth.py --layers 4 8 16 --width 512 --apart

Compile time is that of everything until the first step is made: SetupTrainer, tracing, XLA. Step
times are medians over rounds in turns, from the same parameters on the same batch; the losses of
the first step are compared before. `jax` is a jitted and donated step by hand, with optax;
`imported` has `relaxjax.value_and_grad` in it, and `imported, one loop` the same with RollBlocks,
which stacks the parameters in each step. `one loop, update apart` updates after the loop back, as
before UpdateInLoops. Of steps that a trainer or JAX makes, the temporary bytes stand there, too.
"""

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from surroundings import surroundings, temp_bytes
from timing import in_turns, table
from train_models import cross_entropy, module

import relaxjax
from relaxjax.frontends import from_jax
from relaxjax.ir.types import TensorType
from relaxjax.losses import CrossEntropyLoss
from relaxjax.lowering import VirtualMachine, build, to_jax
from relaxjax.optim import Adam
from relaxjax.passes import (
    CanonicalizeBindings,
    EliminateCommonSubexpr,
    FoldConstant,
    FuseTrainStep,
    Gradient,
    InlinePrivateFunctions,
    LegalizeOps,
    RaiseOps,
    RollBlocks,
    SetupTrainer,
    SimplifyGradient,
)
from relaxjax.script import from_source
from relaxjax.training import Trainer

BATCH, LENGTH, HEADS, WORDS = 4, 64, 4, 256
BY_HAND, UNROLLED, ROLLED = "jax", "one by one", "one loop"
IMPORTED, IMPORTED_ROLLED = "imported", "imported, one loop"
APART = "one loop, update apart"
OF_LAYER = ("g", "mix", "mixed", "e", "wide", "narrow")


def split(width: int, batch: int = BATCH) -> tuple[int, ...]:
    return (batch, LENGTH, HEADS, width // HEADS)


def shapes(layers: int, width: int) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {"table": (WORDS, width), "places": (LENGTH, width)}
    for i in range(layers):
        found |= {f"g{i}": (width,), f"mix{i}": (width, 3 * width), f"mixed{i}": (width, width)}
        found |= {f"e{i}": (width,), f"wide{i}": (width, 4 * width)}
        found |= {f"narrow{i}": (4 * width, width)}
    return found | {"last": (width,)}


def script(layers: int, width: int, batch: int = BATCH) -> str:
    body = ["x0 = R.add(R.take(table, x, axis=0), places)"]
    for i in range(layers):
        body += [
            f"s{i} = R.split(R.matmul(R.nn.rms_norm(x{i}, g{i}), mix{i}), 3, axis=-1)",
            *(f"{q}{i} = R.reshape(s{i}[{j}], {split(width, batch)})" for j, q in enumerate("qkv")),
            f'a{i} = R.nn.attention(q{i}, k{i}, v{i}, causal_mask="TopLeft")',
            f"m{i} = R.matmul(R.reshape(a{i}, {(batch, LENGTH, width)}), mixed{i})",
            f"y{i} = R.add(x{i}, m{i})",
            f"h{i} = R.nn.gelu(R.matmul(R.nn.rms_norm(y{i}, e{i}), wide{i}))",
            f"x{i + 1} = R.add(y{i}, R.matmul(h{i}, narrow{i}))",
        ]
    normed = f"R.nn.rms_norm(x{layers}, last)"
    body += [
        f"rows = R.reshape({normed}, {(batch * LENGTH, width)})",
        "out = R.matmul(rows, R.permute_dims(table))",
    ]
    params = [
        f'{name}: R.Tensor({shape}, "float32")' for name, shape in shapes(layers, width).items()
    ]
    return module(f'x: R.Tensor({(batch, LENGTH)}, "int32")', params, [], body, ["out"])


def plain_loss(
    layers: int, params: Any, x: Any, labels: Any, through: Callable[..., Any] | None = None
) -> Any:
    """The loss by hand; `through` takes what enters the layers through all of them."""
    x = params["table"][x] + params["places"]
    x = (through or one_by_one)(layers, params, x)
    rows = _normed(x, params["last"]).reshape(-1, x.shape[-1])
    return cross_entropy(rows @ params["table"].T, labels).mean()


def one_by_one(layers: int, params: Any, x: Any) -> Any:
    for i in range(layers):
        x = plain_layer({name: params[f"{name}{i}"] for name in OF_LAYER}, x)
    return x


def plain_layer(params: Any, x: Any) -> Any:
    mixed = _normed(x, params["g"]) @ params["mix"]
    q, k, v = (part.reshape(split(x.shape[-1], len(x))) for part in jnp.split(mixed, 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(np.sqrt(q.shape[-1]))
    weights = jax.nn.softmax(jnp.where(np.tri(LENGTH, dtype=bool), scores, -jnp.inf))
    attended = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape)
    x = x + attended @ params["mixed"]
    hidden = jax.nn.gelu(_normed(x, params["e"]) @ params["wide"], approximate=False)
    return x + hidden @ params["narrow"]


def _normed(x: Any, gain: Any) -> Any:
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * gain


def in_one_loop(loss: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`relaxjax.value_and_grad`, of the loss with its layers as one loop."""

    def both(params: Any) -> Any:
        mod = from_jax(loss, params)
        for one in (
            *(FoldConstant(), EliminateCommonSubexpr(), RaiseOps(), RollBlocks("main")),
            *(
                Gradient("main", lazy=True),
                InlinePrivateFunctions(differentiated=True),
                SimplifyGradient(),
            ),
            *(LegalizeOps(), EliminateCommonSubexpr(), CanonicalizeBindings()),
        ):
            mod = one(mod)
        leaves, tree = jax.tree.flatten(params)
        value, gradients = to_jax(mod, "main_adjoint")(*leaves)
        return value, jax.tree.unflatten(tree, gradients)

    return both


def by_hand(
    layers: int, values: Any, x: Any, labels: Any, differentiate: Callable[..., Any]
) -> tuple[Callable[[], Any], Any]:
    tx = optax.adam(1e-3)

    def step(params: Any, state: Any) -> Any:
        loss, gradients = differentiate(lambda p: plain_loss(layers, p, x, labels))(params)
        updates, state = tx.update(gradients, state, params)
        return loss, optax.apply_updates(params, updates), state

    held = [jax.tree.map(jnp.array, values), tx.init(values)]
    jitted: Any = jax.jit(step, donate_argnums=(0, 1)).lower(*held).compile()

    def run() -> Any:
        loss, *held[:] = jitted(*held)
        return jax.block_until_ready(loss)

    return run, temp_bytes(jitted)


def ours(
    layers: int, values: Any, x: Any, labels: Any, roll: bool, apart: bool = False
) -> tuple[Callable[[], Any], Any]:
    rows, count = TensorType((BATCH * LENGTH, WORDS), "float32"), TensorType(labels.shape, "int32")
    backbone: Any = from_source(script(layers, values["table"].shape[1]))
    mod = SetupTrainer(CrossEntropyLoss(), Adam(1e-3), [rows, count], roll_blocks=roll)(backbone)
    mod = FuseTrainStep()(mod) if apart else mod
    trainer = Trainer(mod, VirtualMachine(build(mod)))
    trainer.load_params(values)
    temporary = trainer.temporary_bytes(x, labels)
    return lambda: jax.block_until_ready(trainer.update(x, labels)), temporary


def measured(layers: int, width: int, rounds: int, only: list[str]) -> list[str]:
    rng = np.random.default_rng(0)
    values = {n: rng.normal(0, 0.05, s).astype("float32") for n, s in shapes(layers, width).items()}
    x = rng.integers(0, WORDS, (BATCH, LENGTH)).astype("int32")
    labels = rng.integers(0, WORDS, BATCH * LENGTH).astype("int32")
    data = values, x, labels
    contestants = {
        BY_HAND: lambda: by_hand(layers, *data, jax.value_and_grad),
        IMPORTED: lambda: by_hand(layers, *data, relaxjax.value_and_grad),
        IMPORTED_ROLLED: lambda: by_hand(layers, *data, in_one_loop),
        UNROLLED: lambda: ours(layers, *data, roll=False),
        ROLLED: lambda: ours(layers, *data, roll=True),
        APART: lambda: ours(layers, *data, roll=True, apart=True),
    }
    compiled, runs, temporary, losses = {}, {}, {}, []
    for name in only:
        start = time.perf_counter()
        runs[name], temporary[name] = contestants[name]()
        losses.append(float(runs[name]()))
        compiled[name] = time.perf_counter() - start
    np.testing.assert_allclose(losses, losses[0], rtol=1e-4)
    times = in_turns(runs, rounds)
    first = only[0]
    return [
        str(layers),
        *(f"{compiled[name]:.1f} s" for name in only),
        *(f"{times[name].median() * 1e3:.0f} ms" for name in only),
        *(f"{temporary[name] / 1e6:.1f} MB" for name in only),
        *(f"{times[name].ratio(times[first]):.2f}" for name in only[1:]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, nargs="+", default=[12, 24, 48])
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--apart", action="store_true", help="with the update after the loop, too")
    parser.add_argument("--without", nargs="*", default=[], help="contestants to leave out")
    parser.add_argument("--imported", action="store_true", help="by relaxjax.value_and_grad, too")
    given = parser.parse_args()
    names = [BY_HAND, UNROLLED, ROLLED, *[IMPORTED, IMPORTED_ROLLED] * given.imported]
    names += [APART] * given.apart
    only = [name for name in names if name not in given.without]
    head = ["layers", *(f"{n}: compile" for n in only), *(f"{n}: step" for n in only)]
    head += [f"{n}: temporary" for n in only]
    head += [f"{name} / {only[0]}" for name in only[1:]]
    print(surroundings())
    print(
        table(head, [measured(layers, given.width, given.rounds, only) for layers in given.layers])
    )


if __name__ == "__main__":
    main()
