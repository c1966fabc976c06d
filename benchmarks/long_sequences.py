"""Attention over long sequences and losses of many words, against plain JAX.

    python benchmarks/long_sequences.py                      # all cases
    python benchmarks/long_sequences.py --case T=4096        # those whose name holds this
    python benchmarks/long_sequences.py --record             # into benchmarks/results
    python benchmarks/long_sequences.py --page               # into docs/performance_tables.md

Measured as by `benchmarks/operators.py`: forward alone, and forward with all adjoints, in turns in
one process, after their results are compared. The ratio of CPU time stands beside that of the
clock, because other programs disturb it less.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from long_cases import FAMILIES
from operator_case import Case
from operators import agree, module_of, our_programs, plain_programs
from suite_report import TABLES, as_table, measured_on
from surroundings import surroundings, temp_bytes
from timing import in_turns, table

from relaxjax.passes import FuseProductLoss

BEGIN, END = "<!-- long_sequences.py -->\n", "<!-- end of long_sequences.py -->"
RESULTS = Path(__file__).parent / "results" / "long_sequences.json"
HEAD = (
    "case",
    "",
    "ratio",
    "quartiles",
    "CPU time",
    "ours ms",
    "plain ms",
    "ours MiB",
    "plain MiB",
)
Row = dict[str, Any]
Program = Callable[..., Any]


def measured(family: str, case: Case, rounds: int) -> Iterator[Row]:
    """Both directions of a case, compared and timed."""
    values = [jnp.asarray(value) for value in case.values()]
    mod = FuseProductLoss()(module_of(case, values))  # as a loss in JAX gets it
    pairs = zip(our_programs(mod, values), plain_programs(case, values), strict=True)
    out = jax.eval_shape(case.plain, *values)
    cotangent = jnp.asarray(np.random.default_rng(1).normal(size=out.shape), out.dtype)
    for direction, args, pair in zip(
        ("forward", "both"), (values, [*values, cotangent]), pairs, strict=True
    ):
        ours, plain = (jax.jit(program).lower(*args).compile() for program in pair)
        agree(f"{family}: {case.name}, {direction}", ours(*args), plain(*args))

        def runner(program: Program, args: Sequence[Any] = args) -> Callable[[], Any]:
            return lambda: jax.block_until_ready(program(*args))

        times = in_turns({"ours": runner(ours), "plain": runner(plain)}, rounds)
        yield {
            "case": f"{family}: {case.name}",
            "direction": direction,
            "ratio": times["ours"].quartiles(times["plain"]),
            "cpu": times["ours"].ratio(times["plain"], "cpu"),
            "seconds": [times[name].median() for name in ("ours", "plain")],
            "temp": [temp_bytes(program) for program in (ours, plain)],
        }


def cells(row: Row) -> tuple[str, ...]:
    low, middle, high = row["ratio"]
    times = (f"{1e3 * took:.0f}" for took in row["seconds"])
    temps = (f"{count / 2**20:.1f}" for count in row["temp"])
    shares = f"{middle:.2f}", f"{low:.2f}-{high:.2f}", f"{row['cpu']:.2f}"
    return (row["case"], row["direction"], *shares, *times, *temps)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--case", default="", help="only cases whose name holds this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--page", action="store_true", help="write the page, measure nothing")
    args = parser.parse_args()
    if args.page:
        TABLES.write_text(page_with(TABLES.read_text(), json.loads(RESULTS.read_text())))
        return
    rows = []
    for family, cases in FAMILIES.items():
        for case in cases:
            if args.case in f"{family}: {case.name}":
                found = list(measured(family, case, args.rounds))
                print(*(cells(row) for row in found), sep="\n", file=sys.stderr)
                rows += found
                if args.record:
                    record(found)
    print(table(HEAD, [cells(row) for row in rows]))


def page_with(text: str, results: dict[str, Any]) -> str:
    """The page with the rows in their place."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    where = f"Measured on {measured_on(results)}."
    rows = as_table(HEAD, map(cells, results["rows"]))
    return f"{before}{BEGIN}\n{where}\n\n{rows}\n\n{END}{after}"


def record(rows: Sequence[Row]) -> None:
    """Put rows in the place of those of the same case, or behind all that are there."""
    old = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    kept = {(row["case"], row["direction"]): row for row in [*old, *rows]}
    RESULTS.write_text(json.dumps({**surroundings(), "rows": [*kept.values()]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
