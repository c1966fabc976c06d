"""A GPT trained on several devices, beside the same training written by hand in JAX.

    python benchmarks/on_devices.py                 what devices exchange, and step times
    python benchmarks/on_devices.py --rounds 0      what they exchange alone

The devices are virtual ones of the CPU. By hand, arrays are put where an expert would have them,
and by fsdp all of a parameter is asked for where it is used. Both take the same batch, which is
there already. Step times are medians over rounds in turns.

Layers stand one by one in both, and are one loop in both by `fsdp-loop`. By fsdp, ours gathers
parameters again on the way back, to hold less. By hand they are kept, but by `fsdp-loop` they are
gathered again, too: of layers that are apart XLA would make one gather of both for a CPU.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
import optax
from depth import LENGTH, OF_LAYER, WORDS, plain_layer, plain_loss, shapes
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from surroundings import surroundings
from timing import in_turns, table

from relaxjax.lowering.collectives import collectives_of
from relaxjax.training import Trainer

DEVICES, SAMPLES = 8, 16
WIDE = {"wide*": P(None, "model"), "narrow*": P("model", None)}
BOTH = {**WIDE, "mix[0-9]*": P(None, "model"), "mixed*": P("model", None)}
FORMS: Mapping[str, dict[str, Any]] = {
    "data": {"devices": DEVICES},
    "fsdp": {"devices": DEVICES, "sharding": "fsdp"},
    "fsdp-loop": {"devices": DEVICES, "sharding": "fsdp", "roll_blocks": True},
    "tensor": {"mesh": {"data": 1, "model": DEVICES}, "sharding": WIDE},
    "mixed": {"mesh": {"data": DEVICES // 2, "model": 2}, "sharding": BOTH},
}


def loss_of(layers: int, params: Any, batch: Any, through: Any = None) -> Any:
    x, labels = batch
    return plain_loss(layers, params, x, labels.reshape(-1), through)


def through_loop(whole: NamedSharding) -> Callable[..., Any]:
    """What takes values through layers in stacks, of which one at a time is gathered.

    All is kept for the way back but what was gathered.
    """

    def layer(x: Any, params: Any) -> Any:
        return plain_layer(jax.lax.with_sharding_constraint(params, whole), x), None

    body = jax.checkpoint(layer, policy=lambda made, *_, **__: made.name != "sharding_constraint")
    return lambda layers, params, x: jax.lax.scan(body, x, params["layers"])[0]


def in_stacks(layers: int, params: Mapping[str, Any], stack: Callable[[list[Any]], Any]) -> Any:
    """Parameters, or what is of each, with those of all layers side by side."""
    own = {name: [params[f"{name}{i}"] for i in range(layers)] for name in OF_LAYER}
    others = {name: params[name] for name in ("table", "places", "last")}
    return {**others, "layers": {name: stack(each) for name, each in own.items()}}


def of_stack(mesh: Any, one: NamedSharding) -> NamedSharding:
    """Where a stack lies of what lies there by itself."""
    return NamedSharding(mesh, P(None, *one.spec))


class ByHand:
    """A jitted and donated step, its arrays placed as those of a trainer are."""

    def __init__(self, form: str, layers: int, params: Any, batch: Any, trainer: Trainer) -> None:
        mesh: Any = trainer.device
        arrays = trainer.export_params()
        there: Any = {name: arrays[f"params_{name}"].sharding for name in params}
        whole, tx = NamedSharding(mesh, P()), optax.adam(1e-3)
        through = through_loop(whole) if form == "fsdp-loop" else None
        if through is not None:
            params = in_stacks(layers, params, np.stack)
            there = in_stacks(layers, there, lambda each: of_stack(mesh, each[0]))
        given = jax.device_put(params, there)
        state = tx.init(given)
        of_state = optax.tree_utils.tree_map_params(
            tx, lambda _, one: one, state, there, transform_non_params=lambda _: whole
        )

        def loss(params: Any, batch: Any) -> Any:
            asked = dict(params)
            stacks = {"layers": asked.pop("layers")} if through is not None else {}
            if form.startswith("fsdp"):
                asked = jax.lax.with_sharding_constraint(asked, whole)
            return loss_of(layers, {**asked, **stacks}, batch, through)

        def step(params: Any, state: Any, batch: Any) -> Any:
            value, gradients = jax.value_and_grad(loss)(params, batch)
            updates, state = tx.update(gradients, state, params)
            return value, optax.apply_updates(params, updates), state

        jitted = jax.jit(step, donate_argnums=(0, 1), out_shardings=(whole, there, of_state))
        self._held = [given, jax.device_put(state, of_state)]
        self._batch = batch
        self._step: Any = jitted.lower(*self._held, batch).compile()

    def exchanged(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for one in collectives_of(self._step.as_text()):
            found[one.kind] += one.bytes * (one.times or 1)
        return dict(sorted(found.items()))

    def run(self) -> Any:
        loss, *self._held = self._step(*self._held, self._batch)
        return jax.block_until_ready(loss)


def measured(form: str, layers: int, width: int, rounds: int) -> list[str]:
    rng = np.random.default_rng(0)
    params = {n: rng.normal(0, 0.05, s).astype("f") for n, s in shapes(layers, width).items()}
    x = rng.integers(0, WORDS, (SAMPLES, LENGTH)).astype("i")
    labels = rng.integers(0, WORDS, (SAMPLES, LENGTH)).astype("i")

    options = {"roll_blocks": False, **FORMS[form]}
    loss = partial(loss_of, layers)
    trainer = Trainer.from_jax(loss, params, optax.adam(1e-3), (x, labels), **options)
    mesh: Any = trainer.device
    split = NamedSharding(mesh, P("data"))
    batch = jax.device_put((x, labels), split)
    theirs = ByHand(form, layers, params, batch, trainer)
    ours = trainer.communication().by_kind
    runs: dict[str, Callable[[], Any]] = {
        "hand": theirs.run,
        "ours": lambda: jax.block_until_ready(trainer.update(batch)),
    }
    first = [float(run()) for run in runs.values()]
    np.testing.assert_allclose(first, first[0], rtol=1e-4)
    by_hand = theirs.exchanged()
    row = [form, shown(by_hand), shown(ours)]
    row.append(f"{sum(ours.values()) / sum(by_hand.values()):.3f}")
    if rounds:
        times = in_turns(runs, rounds)
        row += [f"{times[name].median() * 1e3:.0f} ms" for name in runs]
        row.append(f"{times['ours'].ratio(times['hand']):.2f}")
    return row


def shown(by_kind: Mapping[str, int]) -> str:
    return ", ".join(f"{size / 1e6:.2f} MB {kind}" for kind, size in by_kind.items())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    given = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)
    head = ["form", "by hand", "ours", "bytes / by hand"]
    head += ["step by hand", "step", "/ by hand"] if given.rounds else []
    print(surroundings())
    sizes = given.layers, given.width, given.rounds
    print(table(head, [measured(form, *sizes) for form in given.forms]))


if __name__ == "__main__":
    main()
