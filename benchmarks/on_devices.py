"""A GPT trained on several devices, beside the same training written by hand in JAX.

    python benchmarks/on_devices.py                 what devices exchange, and step times
    python benchmarks/on_devices.py --rounds 0      what they exchange alone

The devices are virtual ones of the CPU. By hand, arrays are put where an expert would have them,
and by fsdp all of a parameter is asked for where it is used. Both take the same batch, which is
there already. Step times are medians over rounds in turns; layers stand one by one in both. By
fsdp, ours gathers parameters again on the way back, to hold less: by hand they are kept.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import optax
from depth import LENGTH, WORDS, plain_loss, shapes
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
    "tensor": {"mesh": {"data": 1, "model": DEVICES}, "sharding": WIDE},
    "mixed": {"mesh": {"data": DEVICES // 2, "model": 2}, "sharding": BOTH},
}


class ByHand:
    """A jitted and donated step, its arrays placed as those of a trainer are."""

    def __init__(self, loss: Any, params: Any, batch: Any, trainer: Trainer, fully: bool) -> None:
        mesh: Any = trainer.device
        arrays = trainer.export_params()
        there = {name: arrays[f"params_{name}"].sharding for name in params}
        whole, tx = NamedSharding(mesh, P()), optax.adam(1e-3)
        given = jax.device_put(params, there)
        state = tx.init(given)
        of_state = optax.tree_utils.tree_map_params(
            tx, lambda _, one: one, state, there, transform_non_params=lambda _: whole
        )

        def step(params: Any, state: Any, batch: Any) -> Any:
            def used(params: Any) -> Any:
                asked = jax.lax.with_sharding_constraint(params, whole) if fully else params
                return loss(asked, batch)

            value, gradients = jax.value_and_grad(used)(params)
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

    def loss(params: Any, batch: Any) -> Any:
        x, labels = batch
        return plain_loss(layers, params, x, labels.reshape(-1))

    options = FORMS[form]
    trainer = Trainer.from_jax(
        loss, params, optax.adam(1e-3), (x, labels), roll_blocks=False, **options
    )
    mesh: Any = trainer.device
    split = NamedSharding(mesh, P("data"))
    batch = jax.device_put((x, labels), split)
    theirs = ByHand(loss, params, batch, trainer, form == "fsdp")
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
