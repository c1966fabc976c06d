"""Whether losses of JAX's libraries keep a memory budget, and how long it takes to say so.

    python benchmarks/library_budgets.py
    python benchmarks/library_budgets.py --share 0.35 --only "linen: translation"

Each gradient is compiled with everything kept and within the share of that, by
`relaxjax.value_and_grad`, after a small loss has warmed up the process. The table gives the MiB
with everything kept and the CPU seconds to compile it, what is taken within the budget as a part
of that, or the least that a refusal names, and the CPU seconds it took as a multiple of the first.
The last column is the CPU time of a step within the budget by that of one with everything kept, in
turns.
"""

import argparse
import functools
import gc
import os
import re
import time
from typing import Any, NamedTuple

os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"

import jax
from beside_jax import Gradient, warm_up
from jax_losses import Case, Draws
from library_losses import LOSSES
from surroundings import surroundings, temp_bytes
from timing import in_turns, table

import relaxjax
from relaxjax.passes import MemoryPlanError

HEAD = ("loss", "MiB", "CPU s", "kept", "refused: least", "CPU s as a multiple", "step")
ROUNDS = 5


class Compiled(NamedTuple):
    """A gradient's step, or the words by which it is refused, and the CPU seconds to compile it."""

    step: Any
    refusal: str
    seconds: float

    @property
    def bytes(self) -> int:
        return temp_bytes(self.step)


def compiled(case: Case, gradient: Gradient) -> Compiled:
    jax.clear_caches()
    gc.collect()
    start, step, refusal = time.process_time(), None, ""
    try:
        lowered = jax.jit(gradient(case.loss, has_aux=case.has_aux)).lower(
            case.params, *case.inputs
        )
        step = lowered.compile()
    except MemoryPlanError as error:
        refusal = str(error)
    return Compiled(step, refusal, time.process_time() - start)


def row(name: str, share: float) -> tuple[str, ...]:
    case = LOSSES[name](Draws())
    whole, within = (
        compiled(case, functools.partial(relaxjax.value_and_grad, **options))
        for options in ({"memory_policy": "none"}, {"memory_budget": share})
    )
    kept, refused, longer = "", "", ""
    if within.refusal:
        *_, least = re.findall(r"([\d,]+) bytes", within.refusal.partition(";")[0])
        refused = f"{int(least.replace(',', '')) / whole.bytes:.2f}"
    else:
        kept = f"{within.bytes / whole.bytes:.2f}"
        longer = f"{within_by_whole(case, within, whole):.2f}"
    multiple = f"{within.seconds / whole.seconds:.1f}"
    size, seconds = f"{whole.bytes / 2**20:.1f}", f"{whole.seconds:.1f}"
    return name, size, seconds, kept, refused, multiple, longer


def within_by_whole(case: Case, within: Compiled, whole: Compiled) -> float:
    """The CPU time of a step by that of another one."""

    def run(step: Any) -> None:
        jax.block_until_ready(step(case.params, *case.inputs))

    steps = {"within": within.step, "whole": whole.step}
    runs = {name: functools.partial(run, step) for name, step in steps.items()}
    times = in_turns(runs, ROUNDS)
    return times["within"].ratio(times["whole"], "cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(LOSSES), default=list(LOSSES))
    parser.add_argument("--share", type=float, default=0.5)
    options = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in surroundings().items()))
    warm_up([relaxjax.value_and_grad])
    for name in options.only:
        print(table(HEAD, [row(name, options.share)]), flush=True)


if __name__ == "__main__":
    main()
