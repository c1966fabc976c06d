"""Losses written in JAX, by `relaxjax.value_and_grad` instead of JAX's, nothing else changed.

    python benchmarks/drop_in.py
    python benchmarks/drop_in.py --only ConvNeXt "graph network" --rounds 31
    python benchmarks/drop_in.py --whole-step --policy balanced

With `--whole-step`, `relaxjax.train_step` with Adam of optax stands beside JAX's gradients and that
update in one `jax.jit` with a donated state.

Each is compiled by both, the gradients compared, then timed in turns. The table gives ratios, ours
by JAX's: the median of the rounds' steps by the clock and by the CPU time of the process, the
temporary bytes of the executables, and the CPU time to trace, lower and compile.
"""

import argparse
import functools
import gc
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from beside_jax import TURN, Ratios, check, compared, trace_before, warm_up
from jax_losses import LOSSES, Case, Draws
from surroundings import surroundings, temp_bytes
from timing import in_turns, table

import relaxjax


def ratios(case: Case, rounds: int) -> Ratios:
    """Those of the clock, the CPU time, the memory and the compile time."""
    return compared(case, {"ours": relaxjax.value_and_grad}, rounds).ratios["ours"]


def whole_step_ratios(case: Case, rounds: int, policy: str | None) -> Ratios:
    """The same of whole steps."""

    def loss(params: Any, batch: Any) -> Any:
        return case.loss(params, *batch)

    optimizer = optax.adam(1e-4)
    trace_before(case)
    gc.collect()
    start = time.process_time()
    init, ours = relaxjax.train_step(loss, optimizer, memory_policy=policy)
    mine, value = ours(init(case.params), case.inputs)
    our_seconds = time.process_time() - start
    gc.collect()
    start = time.process_time()
    theirs = jax_step(loss, optimizer)
    other = jax.tree.map(jnp.array, (case.params, optimizer.init(case.params)))
    (*other, wanted) = theirs(*other, case.inputs)
    their_seconds = time.process_time() - start
    np.testing.assert_allclose(value, wanted, rtol=2e-2)
    check(mine.params, other[0])
    taken = [
        ours.temporary_bytes(mine, case.inputs) or 0,
        temp_bytes(theirs.lower(*other, case.inputs).compile()),
    ]

    def our_turn() -> None:
        nonlocal mine
        for _ in range(steps):
            mine, value = ours(mine, case.inputs)
            jax.block_until_ready(value)

    def their_turn() -> None:
        nonlocal other
        for _ in range(steps):
            *other, value = theirs(*other, case.inputs)
            jax.block_until_ready(value)

    steps = 1
    start = time.perf_counter()
    their_turn()
    steps = max(1, int(TURN / (time.perf_counter() - start)))
    times = in_turns({"ours": our_turn, "theirs": their_turn}, rounds)
    return Ratios(
        times["ours"].ratio(times["theirs"]),
        times["ours"].ratio(times["theirs"], "cpu"),
        taken[0] / max(taken[1], 1),
        our_seconds / their_seconds,
    )


def jax_step(loss: Callable[..., Any], optimizer: Any) -> Any:
    """A step as people write it, whose state is donated."""

    def step(params: Any, state: Any, batch: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, batch)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    return jax.jit(step, donate_argnums=(0, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(LOSSES), default=list(LOSSES))
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--whole-step", action="store_true", help="with the update by optax")
    parser.add_argument("--policy", help="the memory policy of whole steps")
    options = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in surroundings().items()))
    warm_up([relaxjax.value_and_grad])
    of = ratios
    if options.whole_step:
        of = functools.partial(whole_step_ratios, policy=options.policy)
    found = {name: of(LOSSES[name](Draws()), options.rounds) for name in options.only}
    means = [statistics.geometric_mean(column) for column in zip(*found.values(), strict=True)]
    rows = [
        (name, *(f"{value:.2f}" for value in values))
        for name, values in {**found, "geometric mean": means}.items()
    ]
    print(table(("loss", "step", "CPU", "temp", "compile"), rows))


if __name__ == "__main__":
    main()
