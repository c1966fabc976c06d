"""What a step costs that reads few rows of large tables: by rows, beside plain JAX and optax.

    python benchmarks/table_rows.py
    python benchmarks/table_rows.py --rows 100000 --rounds 31 --only table

`table` is one of 1,000,000 rows of 64 numbers, of which a batch reads 4,096, as often as words in a
text. `recommender` is the suite's. Whole steps are timed in turns: `jax.value_and_grad` and optax
in one `jax.jit` whose state is donated, `Trainer.from_jax` of the same loss, and of the table
`SetupTrainer` of the same program in Relax. By SGD there is a step `by hand`, too: what one would
write in JAX for this table alone, which shows how short such a step can be. The first steps of all
are compared.

The table gives ratios to plain JAX: the median of the rounds' steps by the clock, its quartiles,
the median by the CPU time of the process, and the temporary bytes of the executables.
"""

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from drop_in import jax_step
from models import MODELS
from surroundings import surroundings, temp_bytes
from timing import Times, in_turns, repeated, table

from relaxjax import Trainer, VirtualMachine, build
from relaxjax.ir.types import TensorType
from relaxjax.losses import MSELoss
from relaxjax.optim import SGD, Adam, Lazy, Optimizer
from relaxjax.passes import SetupTrainer
from relaxjax.script import from_source

WIDTH, IDS, OUT = 64, 4096, 8
TURN = 0.05  # seconds, or one step if that takes longer
HEAD = ("step", "ms", "ratio", "quartiles", "CPU", "temp MiB", "ratio of temp")
PLAIN, FROM_JAX, RELAX, BY_HAND = "plain", "from_jax", "SetupTrainer", "by hand"
RATE = 1e-2
OPTIMIZERS: Mapping[str, tuple[Optimizer, Any]] = {
    "SGD": (SGD(RATE), optax.sgd(RATE)),
    "lazy Adam": (Lazy(Adam(1e-3)), optax.adam(1e-3)),
}


@dataclass(frozen=True)
class Case:
    """A loss of parameters and a batch; and the same as a backbone in Relax with `MSELoss`.

    `by_hand` is a step of SGD of the rows that a batch reads: the new parameters, and the loss.
    """

    loss: Callable[[Any, Any], Any]
    params: Any
    batch: Any
    backbone: str | None = None
    by_hand: Callable[[Any, Any], Any] | None = None


def one_table(rows: int) -> Case:
    """Rows of a table, read as often as words in a text, and a product."""
    random = np.random.default_rng(0)
    params = (
        random.normal(size=(rows, WIDTH)).astype("float32"),
        random.normal(size=(WIDTH, OUT)).astype("float32") / WIDTH**0.5,
    )
    ids = (random.zipf(1.2, IDS) % rows).astype("int32")
    targets = random.normal(size=(IDS, OUT)).astype("float32")

    def loss(params: Any, batch: Any) -> Any:
        ids, targets = batch
        return jnp.mean((params[0][ids] @ params[1] - targets) ** 2)

    def by_hand(params: Any, batch: Any) -> Any:
        (table, w), (ids, targets) = params, batch
        value, (rows, adjoint) = jax.value_and_grad(
            lambda rows, w: jnp.mean((rows @ w - targets) ** 2), (0, 1)
        )(table[ids], w)
        return (table.at[ids].add(-RATE * rows), w - RATE * adjoint), value

    backbone = f"""
@I.ir_module
class Model:
    I.module_attrs({{"param_num": 2, "state_num": 0}})

    @R.function
    def backbone(
        ids: R.Tensor(({IDS},), "int32"),
        rows: R.Tensor(({rows}, {WIDTH}), "float32"),
        w: R.Tensor(({WIDTH}, {OUT}), "float32"),
    ):
        with R.dataflow():
            out = R.matmul(R.take(rows, ids, axis=0), w)
            R.output(out)
        return out
"""
    return Case(loss, params, (ids, targets), backbone, by_hand)


def recommender() -> Case:
    model = MODELS["recommender"]()

    def loss_of_bags(bags: Any, first: Any, last: Any, clicks: Any) -> Any:
        h = jax.nn.relu(jnp.concatenate(bags, 1) @ first[0] + first[1])
        scores = (h @ last[0] + last[1])[:, 0]
        return optax.sigmoid_binary_cross_entropy(scores, clicks).mean()

    def by_hand(params: Any, batch: Any) -> Any:
        (tables, *dense), (ids, clicks) = params, batch
        bags = [table[chosen].sum(1) for table, chosen in zip(tables, ids, strict=True)]
        value, (rows, *adjoints) = jax.value_and_grad(loss_of_bags, (0, 1, 2))(bags, *dense, clicks)
        moved = [  # each row of a bag has the bag's gradient
            table.at[chosen].add(-RATE * row[:, None])
            for table, chosen, row in zip(tables, ids, rows, strict=True)
        ]
        dense = jax.tree.map(lambda weight, adjoint: weight - RATE * adjoint, dense, adjoints)
        return (tuple(moved), *dense), value

    def loss(params: Any, batch: Any) -> Any:
        return model.plain(*params, *batch)

    return Case(loss, model.params, model.inputs, by_hand=by_hand)


def trainers(case: Case, optimizer: Optimizer) -> dict[str, Trainer]:
    found = {FROM_JAX: Trainer.from_jax(case.loss, case.params, optimizer, case.batch)}
    if case.backbone is not None:
        types = [TensorType(case.batch[1].shape, "float32")] * 2
        module = SetupTrainer(MSELoss(), optimizer, types)(from_source(case.backbone))
        found[RELAX] = Trainer(module, VirtualMachine(build(module)))
        found[RELAX].load_params(case.params)
    return found


def checked(trainer: Trainer, wanted: Any) -> None:
    """The parameters after a first step are those of whole gradients, for a lazy optimizer too."""
    found = trainer.export_params().values()
    for mine, other in zip(found, jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-4)


def compared(case: Case, optimizer: Optimizer, dense: Any, rounds: int) -> dict[str, list[str]]:
    """A row of the table for each way."""
    plain = jax_step(case.loss, dense)
    state = jax.tree.map(jnp.array, (case.params, dense.init(case.params)))
    batch = jax.tree.map(jnp.asarray, case.batch)
    taken = {PLAIN: temp_bytes(plain.lower(*state, batch).compile())}
    ours = trainers(case, optimizer)
    given = {trainer: (batch,) if name == FROM_JAX else batch for name, trainer in ours.items()}
    *state, _ = plain(*state, batch)
    for name, trainer in ours.items():
        taken[name] = trainer.temporary_bytes(*given[trainer]) or 0
        trainer.update(*given[trainer])
        checked(trainer, state[0])

    def step() -> None:
        nonlocal state
        *state, value = plain(*state, batch)
        jax.block_until_ready((state, value))

    def our_step(trainer: Trainer) -> None:
        jax.block_until_ready((trainer.update(*given[trainer]), trainer.stored_params))

    steps: dict[str, Callable[[], object]] = {PLAIN: step}
    steps |= {n: partial(our_step, t) for n, t in ours.items()}
    if case.by_hand is not None and dense is OPTIMIZERS["SGD"][1]:
        steps[BY_HAND], taken[BY_HAND] = hand_written(case, case.by_hand, state[0])
    turns = {name: repeated(run, TURN) for name, run in steps.items()}
    times = in_turns({name: run for name, (run, _) in turns.items()}, rounds)
    return {name: cells(times, turns, taken, name) for name in times}


def hand_written(case: Case, by_hand: Callable[[Any, Any], Any], wanted: Any) -> tuple[Any, int]:
    """The step by hand, compared as ours are, and its temporary bytes."""
    params, batch = jax.tree.map(jnp.array, (case.params, case.batch))
    run = jax.jit(by_hand, donate_argnums=0)
    taken = temp_bytes(run.lower(params, batch).compile())
    params, _ = run(params, batch)
    for mine, other in zip(*map(jax.tree.leaves, (params, wanted)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-4)

    def step() -> None:
        nonlocal params
        params, value = run(params, batch)
        jax.block_until_ready((params, value))

    return step, taken


def cells(
    times: Mapping[str, Times], turns: Mapping[str, tuple[Any, int]], taken: Any, name: str
) -> list[str]:
    """The numbers of a way, of which a turn is so many steps."""
    own, plain, share = times[name], times[PLAIN], turns[PLAIN][1] / turns[name][1]
    low, middle, high = (part * share for part in own.quartiles(plain))
    return [
        f"{own.median() / turns[name][1] * 1e3:.2f}",
        f"{middle:.4f}",
        f"{low:.4f}-{high:.4f}",
        f"{own.ratio(plain, 'cpu') * share:.4f}",
        f"{taken[name] / 2**20:.1f}",
        f"{taken[name] / taken[PLAIN]:.4f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=["table", "recommender"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in surroundings().items()))
    cases: dict[str, Callable[[], Case]] = {
        "table": partial(one_table, options.rows),
        "recommender": recommender,
    }
    rows = []
    for case in options.only or cases:
        for name, (optimizer, dense) in OPTIMIZERS.items():
            found = compared(cases[case](), optimizer, dense, options.rounds)
            rows += [(f"{case}, {name}, {way}", *cells) for way, cells in found.items()]
    print(table(HEAD, rows))


if __name__ == "__main__":
    main()
