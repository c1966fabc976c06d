"""Everything that only a device can tell, in one command: an hour with a GPU or TPU suffices.

    python tests/long/on_device.py                    # on JAX's default device
    python tests/long/on_device.py --quick            # a little of each stage, to try the command
    python tests/long/on_device.py --only suite --minutes suite=30
    python tests/long/on_device.py --report           # write the page anew

The stages, each within its own time:

* operators: each operator's samples by the forms of this device against those of the CPU, and the
  gradients that its rule gives against JAX's there;
* attention: half precision in many sizes, by cuDNN where it has a program, against float32;
* models: the loss and all gradients of the whole models, against plain JAX on the CPU;
* budgets: memory plans at 80, 60, 40 and 30 % of all that is kept else, by this compiler's count;
* suite: training steps against plain JAX, as benchmarks/suite.py measures them;
* long: attention over long sequences, by cuDNN too, and losses of many words, against plain JAX;
* tables: steps by the rows of large tables, against plain JAX;
* updates: the optimizer's, in groups of parameters and with narrow states;
* offload: steps whose residuals wait on the host.

The results file, results/on_device-KIND.json, is written after each item. A stage goes on where it
was: what is done already is left out, what failed is tried again. Products are computed in full
precision where numbers are compared, and as JAX does by default where they are timed.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import checkout
import jax
import suite
from device_attention import CASES as ATTENTION
from device_attention import attention_row
from device_checks import (
    BUDGETED,
    QUICK_OPERATORS,
    budget_row,
    model_row,
    operator_row,
    operators,
)
from device_forms import (
    LONG,
    OFFLOADED,
    QUICK_LONG,
    QUICK_TABLE,
    TABLES,
    UPDATED,
    long_row,
    offload_row,
    table_row,
    update_row,
)
from models import MODELS as SUITE
from models import QUICK as QUICK_SUITE
from surroundings import surroundings
from whole_models import MODELS

from relaxjax.ops.platform import default_device, platform_name

CONTESTANTS = ["plain", "ours", "balanced", "imported"]
WORKERS = 8  # operators at a time: to compile takes longer than to run

Row = dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """A row of results for each name; a few of the names do for `--quick`."""

    minutes: float
    names: Callable[[], Sequence[str]]
    quick_names: Sequence[str]
    row: Callable[..., Row]  # of a name, and whether it is quick
    exact: bool = True  # numbers are compared
    at_a_time: int = 1


def suite_row(name: str, quick: bool) -> Row:
    models, rounds = (QUICK_SUITE, 2) if quick else (SUITE, suite.QUICK_ROUNDS)
    rows = suite.measured(name, models[name](), CONTESTANTS[: 2 if quick else None], rounds)
    return {"contestants": rows}


STAGES: dict[str, Stage] = {
    "operators": Stage(9, operators, QUICK_OPERATORS, operator_row, at_a_time=WORKERS),
    "attention": Stage(
        4, lambda: list(ATTENTION), list(ATTENTION)[:2], attention_row, at_a_time=WORKERS
    ),
    "models": Stage(4, lambda: list(MODELS), ["MLP", "LeNet"], model_row),
    "budgets": Stage(8, lambda: list(BUDGETED), ["U-Net"], budget_row),
    "suite": Stage(12, lambda: list(SUITE), ["MLP"], suite_row, exact=False),
    "long": Stage(8, lambda: list(LONG), [QUICK_LONG], long_row, exact=False),
    "tables": Stage(4, lambda: list(TABLES), [QUICK_TABLE], table_row, exact=False),
    "updates": Stage(6, lambda: list(UPDATED), UPDATED[:1], update_row, exact=False),
    "offload": Stage(6, lambda: list(OFFLOADED), OFFLOADED[:1], offload_row, exact=False),
}


def attempted(stage: Stage, name: str, quick: bool) -> Row:
    """A row, or how it failed: one failure is no reason to learn nothing of the rest."""
    start = time.monotonic()
    try:
        row = stage.row(name, quick)
    except Exception as error:
        first, *_ = str(error).splitlines() or [""]
        row = {"error": f"{type(error).__name__}: {first}"[:400]}
    return {**row, "took": round(time.monotonic() - start, 2)}


def made(stage: Stage, names: Sequence[str], quick: bool, seconds: float) -> Iterator[Any]:
    """Names and their rows, until the time is over; some are computed side by side."""
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(stage.at_a_time) as workers:
        for start in range(0, len(names), stage.at_a_time):
            if time.monotonic() > end:
                return
            some = names[start : start + stage.at_a_time]
            yield from zip(
                some, workers.map(partial(attempted, stage, quick=quick), some), strict=True
            )


def run_stage(title: str, args: argparse.Namespace, path: Path, results: Row) -> None:
    stage, done = STAGES[title], results["stages"].setdefault(title, {})
    names = stage.quick_names if args.quick else stage.names()
    names = [name for name in names if "error" in done.get(name, {"error": ""})]
    precision = "highest" if stage.exact else None
    jax.config.update("jax_default_matmul_precision", precision)
    if title == "suite" and names:
        suite.started(CONTESTANTS)
    count, seconds = 0, 60 * args.minutes.get(title, stage.minutes)
    for name, row in made(stage, names, args.quick, seconds):
        done[name], count = row, count + 1
        write(path, results)
        print(f"{title}: {name}: {row.get('error', 'done')}, {row['took']} s", flush=True)
        if not stage.exact:
            jax.clear_caches()
    if count < len(names):
        print(f"{title}: {len(names) - count} are left: the same command goes on with them")


def write(path: Path, results: Row) -> None:
    """Whole or not at all: a lent machine may end at any time."""
    path.parent.mkdir(exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(results, indent=1) + "\n")
    new.replace(path)


def results_at(path: Path, where: Row) -> Row:
    """What the file has, to which the rest is added; another device's results stand elsewhere."""
    if not path.exists():
        return {**where, "stages": {}}
    found: Row = json.loads(path.read_text())
    if found["device"] != where["device"]:
        sys.exit(
            f"{path} holds results of {found['device']}, and this is {where['device']}: name "
            "another file by --json"
        )
    return {**where, "stages": found["stages"]}


def minutes(text: str) -> tuple[str, float]:
    """A stage and its time, as in `suite=30`."""
    stage, _, number = text.partition("=")
    if stage not in STAGES:
        raise argparse.ArgumentTypeError(f"there is no stage `{stage}`: {', '.join(STAGES)}")
    try:
        return stage, float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{text}` names no time: suite=30 does") from None


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=STAGES, default=list(STAGES), metavar="STAGE")
    parser.add_argument("--quick", action="store_true", help="a little of each stage")
    times = ", ".join(f"{name}={stage.minutes}" for name, stage in STAGES.items())
    parser.add_argument(
        "--minutes", nargs="+", type=minutes, default=[], metavar="STAGE=N",
        help=f"how long a stage may take; an item that is begun is ended ({times})",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, help="default: results/on_device-KIND.json")
    parser.add_argument("--report", action="store_true", help="only write the page anew")
    args = parser.parse_args(argv)
    args.minutes = dict(args.minutes)
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = parsed(argv)
    if args.report:
        from on_device_report import write_page

        write_page()
        return
    device = default_device()
    where = {**surroundings(), "device": str(device.device_kind), "platform": platform_name(device)}
    print(", ".join(f"{key} {value}" for key, value in where.items()), flush=True)
    kind = re.sub(r"\W+", "-", where["device"]).strip("-")
    name = f"on_device-{kind}{'-quick' if args.quick else ''}.json"
    path: Path = args.json or checkout.RESULTS / name
    results = results_at(path, where)
    for title in args.only:
        run_stage(title, args, path, results)
    write(path, results)
    print(f"the results are in {path}")


if __name__ == "__main__":
    main()
