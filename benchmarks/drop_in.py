"""Losses written in JAX, by `relaxjax.value_and_grad` in the place of JAX's, nothing else changed.

    python benchmarks/drop_in.py
    python benchmarks/drop_in.py --only ConvNeXt "graph network" --rounds 31

Each is compiled by both, the gradients compared, then timed in turns. The table gives ratios, ours
by JAX's: the median of the rounds' steps by the clock and by the CPU time of the process, the
temporary bytes of the executables, and the CPU time to trace, lower and compile.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"

import jax
import numpy as np
from jax_losses import LOSSES, Case, Draws
from surroundings import surroundings, temp_bytes
from timing import in_turns, table

import relaxjax

# A turn is as many steps as take about so many seconds.
_TURN = 0.03


def compiled(gradient: Callable[..., Any], case: Case) -> tuple[Any, float]:
    """The executable of a loss and its gradients, and the CPU seconds that it took to make."""
    start = time.process_time()
    program = jax.jit(gradient(case.loss)).lower(case.params, *case.inputs).compile()
    return program, time.process_time() - start


def check(found: Any, wanted: Any) -> None:
    """The gradients of both, as far as the least of their dtypes can tell."""
    for mine, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=2e-2 * float(abs(other).max()))


def ratios(case: Case, rounds: int) -> list[float]:
    """Those of the clock, the CPU time, the memory and the compile time."""
    ours, our_seconds = compiled(relaxjax.value_and_grad, case)
    theirs, their_seconds = compiled(jax.value_and_grad, case)
    args = (case.params, *case.inputs)
    check(ours(*args), theirs(*args))
    start = time.perf_counter()
    jax.block_until_ready(theirs(*args))
    steps = max(1, int(_TURN / (time.perf_counter() - start)))

    def turn(program: Any) -> Callable[[], object]:
        return lambda: [jax.block_until_ready(program(*args)) for _ in range(steps)]

    times = in_turns({"ours": turn(ours), "theirs": turn(theirs)}, rounds)
    return [
        times["ours"].ratio(times["theirs"]),
        times["ours"].ratio(times["theirs"], "cpu"),
        temp_bytes(ours) / max(temp_bytes(theirs), 1),
        our_seconds / their_seconds,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(LOSSES), default=list(LOSSES))
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in surroundings().items()))
    small = LOSSES["normalizing flow"](Draws())
    for gradient in (relaxjax.value_and_grad, jax.value_and_grad):  # starts what both make use of
        compiled(gradient, small)
    found = {name: ratios(LOSSES[name](Draws()), options.rounds) for name in options.only}
    means = [statistics.geometric_mean(column) for column in zip(*found.values(), strict=True)]
    rows = [
        (name, *(f"{value:.2f}" for value in values))
        for name, values in {**found, "geometric mean": means}.items()
    ]
    print(table(("loss", "step", "CPU", "temp", "compile"), rows))


if __name__ == "__main__":
    main()
