"""How time, memory and compile time grow with the sizes of a GPT, beside plain JAX and PyTorch.

    python benchmarks/scaling.py                        # all sizes, one at a time from a small GPT
    python benchmarks/scaling.py --only depth --rounds 5

Each size grows alone from the same model: the number of layers, the width, the texts of a batch,
their length, and the words that are known. Contestants, gradients, rounds in turns and temporary
bytes are those of `benchmarks/suite.py`; compile time is the CPU's until the first step is made. A
contestant that is not installed is left out, and so is plain JAX where it would compile for
many minutes.
"""

import argparse
import gc
import json
import os
from collections.abc import Mapping
from typing import Any

os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"

import jax
from models.gpt import gpt
from scaling_plot import RESULTS
from suite import PLAIN, lacking, measured, started
from surroundings import surroundings
from timing import table

NAMES = [PLAIN, "ours", "torch"]
BASE = {"layers": 4, "batch": 4, "length": 64, "heads": 4, "width": 128, "words": 512}
SWEEPS: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "depth": ("layers", (4, 8, 16, 32, 48, 96)),
    "width": ("width", (64, 128, 256, 512)),
    "batch": ("batch", (1, 4, 16, 64)),
    "sequence length": ("length", (64, 256, 1024, 2048)),
    "vocabulary": ("words", (512, 4096, 16384, 65536)),
}
DEEPEST = 32  # of plain JAX: the time to compile grows faster than the layers
TAKEN = ("seconds", "temp_bytes", "compile_seconds", "rounds")
RATIOS = ("step", "quartiles")  # to plain JAX


def point(size: str, value: int, names: list[str], rounds: int) -> dict[str, Any]:
    """What each contestant takes for the GPT with one size changed."""
    sizes = BASE | {size: value}
    if sizes["layers"] > DEEPEST:
        names = [name for name in names if name != PLAIN]
    found = measured(f"GPT of {size} {value}", gpt(**sizes), names, rounds)
    jax.clear_caches()
    gc.collect()
    kept = (*TAKEN, *RATIOS) if PLAIN in names else TAKEN
    return {name: {key: row[key] for key in kept} for name, row in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=SWEEPS, default=list(SWEEPS))
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    record(given.only, given.rounds)
    print(printed(json.loads(RESULTS.read_text())["sweeps"]))


def record(only: list[str], rounds: int) -> None:
    names = [name for name in NAMES if not lacking(name)]
    started(names)
    sweeps = json.loads(RESULTS.read_text())["sweeps"] if RESULTS.exists() else {}
    for title in only:
        size, values = SWEEPS[title]
        sweeps[title] = {}
        for value in values:
            sweeps[title][str(value)] = point(size, value, names, rounds)
            print(printed({title: sweeps[title]}).splitlines()[-1], flush=True)
        kept = {name: sweeps[name] for name in SWEEPS if name in sweeps}
        RESULTS.write_text(json.dumps({**surroundings(), "sweeps": kept}, indent=1) + "\n")


def printed(sweeps: Mapping[str, Any]) -> str:
    """A row for each size: milliseconds, megabytes and seconds of each contestant."""
    names = [name for name in NAMES if any(name in p for s in sweeps.values() for p in s.values())]
    head = [f"{name}: {what}" for what in ("ms", "MB", "compile s") for name in names]
    rows = []
    for title, points in sweeps.items():
        for value, found in points.items():
            of = [found.get(name) for name in names]
            rows.append(
                (
                    f"{title} {value}",
                    *("" if row is None else f"{1e3 * row['seconds']:.1f}" for row in of),
                    *("" if row is None else f"{row['temp_bytes'] / 1e6:.1f}" for row in of),
                    *("" if row is None else f"{row['compile_seconds'][1]:.1f}" for row in of),
                )
            )
    return table(("size", *head), rows)


if __name__ == "__main__":
    main()
