"""Whether losses of JAX's libraries keep a memory budget, and how long it takes to say so.

    python benchmarks/library_budgets.py
    python benchmarks/library_budgets.py --share 0.35 --only "linen: translation"

Each gradient is compiled with everything kept and within the share of that, by
`relaxjax.value_and_grad`, after a small loss has warmed up the process. The table gives the MiB
with everything kept and the CPU seconds to compile it, what is taken within the budget as a part
of that, or the least that a refusal names, and the CPU seconds it took as a multiple of the first.
"""

import argparse
import functools
import gc
import os
import re
import time
from typing import NamedTuple

os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"

import jax
from beside_jax import Gradient, warm_up
from jax_losses import Case, Draws
from library_losses import LOSSES
from surroundings import surroundings, temp_bytes
from timing import table

import relaxjax
from relaxjax.passes import MemoryPlanError

HEAD = ("loss", "MiB", "CPU s", "kept", "refused: least", "CPU s as a multiple")


class Compiled(NamedTuple):
    """The temporary bytes of a gradient, or the words by which it is refused, and CPU seconds."""

    found: int | str
    seconds: float


def compiled(case: Case, gradient: Gradient) -> Compiled:
    jax.clear_caches()
    gc.collect()
    start = time.process_time()
    found: int | str
    try:
        lowered = jax.jit(gradient(case.loss, has_aux=case.has_aux)).lower(
            case.params, *case.inputs
        )
        found = temp_bytes(lowered.compile())
    except MemoryPlanError as error:
        found = str(error)
    return Compiled(found, time.process_time() - start)


def row(name: str, share: float) -> tuple[str, ...]:
    case = LOSSES[name](Draws())
    whole, within = (
        compiled(case, functools.partial(relaxjax.value_and_grad, **options))
        for options in ({"memory_policy": "none"}, {"memory_budget": share})
    )
    assert isinstance(whole.found, int)
    kept, refused = "", ""
    if isinstance(within.found, int):
        kept = f"{within.found / whole.found:.2f}"
    else:
        *_, least = re.findall(r"([\d,]+) bytes", within.found.partition(";")[0])
        refused = f"{int(least.replace(',', '')) / whole.found:.2f}"
    multiple = f"{within.seconds / whole.seconds:.1f}"
    return name, f"{whole.found / 2**20:.1f}", f"{whole.seconds:.1f}", kept, refused, multiple


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
