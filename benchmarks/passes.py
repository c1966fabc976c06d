"""What a pass gains: a program after it against the same program before it.

    python benchmarks/passes.py                            # every family
    python benchmarks/passes.py ConvertLayout --quick
    python benchmarks/passes.py --markdown docs/passes_measured.md

For each case the ratio of the times, after by before, of the forward program, and of the one that
computes the result and its adjoints too: of the program after the pass (`both`), and by the pass on
that of the program before it (`adjoint`). All are compiled by XLA, which may have done on its own
what the pass does: then the ratio is 1. The results are compared first, and how far they are apart
stands beside, relative to the largest.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
from pass_cases import FAMILIES, PassCase
from surroundings import surroundings, temp_bytes
from timing import in_turns, repeated, table

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.lowering import to_jax
from relaxjax.passes import Gradient, SimplifyGradient

ROUNDS, QUICK_ROUNDS = 21, 5
HEAD = (
    "case",
    "",
    "ratio",
    "quartiles",
    "CPU",
    "before ms",
    "after ms",
    "MiB",
    "MiB after",
    "apart",
)


@dataclass(frozen=True)
class Result:
    """The ratios of one case in one direction, after by before."""

    family: str
    case: str
    direction: str
    ratio: float
    quartiles: tuple[float, float]
    cpu_ratio: float
    seconds: tuple[float, float]
    temp: tuple[int, int]
    apart: float

    def row(self) -> tuple[str, ...]:
        low, high = self.quartiles
        times = [f"{1e3 * took:.3f}" for took in self.seconds]
        temps = [f"{count / 2**20:.2f}" for count in self.temp]
        name = self.case if ": " in self.case else f"{self.family}: {self.case}"
        ratios = f"{self.ratio:.2f}", f"{low:.2f}-{high:.2f}", f"{self.cpu_ratio:.2f}"
        return (name, self.direction, *ratios, *times, *temps, f"{self.apart:.0e}")


def measured(family: str, case: PassCase, rounds: int) -> Iterator[Result]:
    """A case forward, and with its adjoints where it has some."""
    yield compared(family, case, "forward", (case.before, case.after), "main", rounds)
    if case.differentiable:
        adjoints = (with_adjoints(case.before), with_adjoints(case.after))
        yield compared(family, case, "both", adjoints, "main_adjoint", rounds)
        if case.change is not None:
            changed = (adjoints[0], case.change(adjoints[0]))
            yield compared(family, case, "adjoint", changed, "main_adjoint", rounds)


def with_adjoints(module: IRModule) -> IRModule:
    return SimplifyGradient()(Gradient("main", cotangent=True)(module))


def compared(
    family: str,
    case: PassCase,
    direction: str,
    modules: tuple[IRModule, IRModule],
    name: str,
    rounds: int,
) -> Result:
    """Two programs compiled, compared and timed in turns."""
    given = [list(map(jnp.asarray, args)) for args in (case.args, case.args_after)]
    if direction != "forward":
        given = [[*args, cotangent(modules[0])] for args in given]
    pair = [
        jax.jit(to_jax(module, name)).lower(*args).compile()
        for module, args in zip(modules, given, strict=True)
    ]
    apart = distance(pair[1](*given[1]), pair[0](*given[0]))
    if not apart <= case.tolerance:
        sys.exit(f"{family}: {case.name}: the results are {apart} apart")

    def runner(index: int) -> Callable[[], object]:
        return lambda: jax.block_until_ready(pair[index](*given[index]))

    runs = {key: repeated(runner(index)) for index, key in enumerate(("before", "after"))}
    times = in_turns({key: run for key, (run, _) in runs.items()}, rounds)
    per_call = runs["after"][1] / runs["before"][1]
    low, middle, high = (q / per_call for q in times["after"].quartiles(times["before"]))
    cpu = times["after"].ratio(times["before"], "cpu") / per_call
    before, after = (times[key].median() / runs[key][1] for key in ("before", "after"))
    temps = (temp_bytes(pair[0]), temp_bytes(pair[1]))
    return Result(
        family, case.name, direction, middle, (low, high), cpu, (before, after), temps, apart
    )


def cotangent(module: IRModule) -> Any:
    function = module["main"]
    assert isinstance(function, Function)
    assert isinstance(function.ret_ty, TensorType)
    dims = [dim for dim in function.ret_ty.dims or () if isinstance(dim, int)]
    return jnp.linspace(0.5, 1.5, max(1, int(jnp.prod(jnp.asarray(dims))))).reshape(dims)


def distance(found: Any, wanted: Any) -> float:
    """The largest difference between results, relative to the largest of each."""
    worst = 0.0
    for mine, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        scale = float(jnp.max(jnp.abs(other))) or 1.0
        worst = max(worst, float(jnp.max(jnp.abs(mine - other))) / scale)
    return worst


def markdown(results: list[Result]) -> str:
    """The page of measurements: where and how, then the table."""
    where = surroundings()
    machine = f"{where['processor']}, {where['cores']} cores, jax {where['jax']}"
    lines = [
        "# Passes, measured",
        "",
        "What some passes gain on a model that profits, and where XLA does the same without them.",
        "",
        f"Measured by `python benchmarks/passes.py` on {machine},",
        f"{where['date']}: ratios of times, after by before, medians of interleaved rounds, on a",
        "machine that other programs share. `both` is the result and its adjoints, of the program",
        "after the pass; `adjoint` is the pass on the backward program. `apart` is the largest",
        "difference between the results, relative to the largest. `CPU` is the ratio of CPU times,",
        "in which waiting for a core does not count.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "|" + "---|" * len(HEAD),
        *("| " + " | ".join(result.row()) + " |" for result in results),
        "",
        _READING,
    ]
    return "\n".join(lines) + "\n"


_READING = """\
What to take from it, on a CPU:

* ConvertLayout gains where pooling or its backward stands between convolutions; a plain chain of
  convolutions XLA lays out as well without it.
* Matmuls gain by being combined, most of all small ones; 1x1 convolutions do not.
* A scale costs XLA next to nothing: it is fused into what reads it. Folded, it is gone from the
  program, which is what a backend without such fusion needs.
* FuseOps makes a compiled program no faster: XLA fuses without it. Where operators run one by one,
  groups take 0.2 to 0.9 of their time, as `python benchmarks/fusion.py` measures.
* bfloat16 halves the time of products that add up in float32; backward programs, which transpose
  and convert more, gain a tenth, and float16 gains nothing.
* Sparse weights gain in blocks of 32x32; in narrow blocks only for many rows.\
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("families", nargs="*", help=f"some of {', '.join(FAMILIES)}; else all")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds")
    parser.add_argument("--json", help="a file to write the results to")
    parser.add_argument("--markdown", help="a page to write the results to")
    args = parser.parse_args()
    unknown = set(args.families) - set(FAMILIES)
    if unknown:
        parser.error(f"there is no family {sorted(unknown)}; there are {', '.join(FAMILIES)}")
    rounds = QUICK_ROUNDS if args.quick else ROUNDS
    results = [
        result
        for family in args.families or FAMILIES
        for case in FAMILIES[family]()
        for result in measured(family, case, rounds)
    ]
    print(table(HEAD, [result.row() for result in results]))
    if args.json:
        with open(args.json, "w") as file:
            json.dump({**surroundings(), "results": list(map(asdict, results))}, file, indent=1)
    if args.markdown:
        with open(args.markdown, "w") as file:
            file.write(markdown(results))


if __name__ == "__main__":
    main()
