"""Each family of operators against plain JAX: how long a call takes, and how much memory.

    python benchmarks/operators.py                       # every family
    python benchmarks/operators.py conv2d pooling        # some of them
    python benchmarks/operators.py --quick --json out.json

Two ratios for each case, ours by plain: of the forward program, and of the one that computes the
result and its adjoints too (ours by Gradient, SimplifyGradient, LegalizeOps and
EliminateCommonSubexpr; plain by jax.vjp).
Both get the same arguments and are compared before they are timed. Below 1, ours is quicker. The
bytes are those that the compiled programs need beside arguments and results.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from layer_cases import FAMILIES as LAYERS
from operator_case import Case
from surroundings import surroundings, temp_bytes
from timing import in_turns, repeated, table
from window_cases import FAMILIES as WINDOWS

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.expr import Var
from relaxjax.ir.function import SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.lowering import to_jax
from relaxjax.passes import EliminateCommonSubexpr, Gradient, LegalizeOps, SimplifyGradient
from relaxjax.script import from_source

ROUNDS, QUICK_ROUNDS = 15, 5
Program = Callable[..., Any]
FAMILIES = {**WINDOWS, **LAYERS}


@dataclass(frozen=True)
class Result:
    """The ratios of one case in one direction."""

    family: str
    case: str
    direction: str
    ratio: float  # ours by plain, in time: the median of the rounds
    quartiles: tuple[float, float]
    seconds: float
    plain_seconds: float
    temp: int
    plain_temp: int

    def row(self) -> tuple[str, ...]:
        low, high = self.quartiles
        times = (f"{1e3 * took:.3f}" for took in (self.seconds, self.plain_seconds))
        temps = (f"{count / 2**20:.2f}" for count in (self.temp, self.plain_temp))
        name = f"{self.family}: {self.case}"
        return (name, self.direction, f"{self.ratio:.2f}", f"{low:.2f}-{high:.2f}", *times, *temps)


HEAD = ("case", "", "ratio", "quartiles", "ours ms", "plain ms", "ours MiB", "plain MiB")


def module_of(case: Case, values: list[Any]) -> IRModule:
    """The case as a function `main` of a module."""
    if isinstance(case.relax, str):
        written: Any = from_source(case.relax)
        return IRModule({"main": written["main"]})
    params = [
        Var(f"x{i}", TensorType(value.shape, str(value.dtype))) for i, value in enumerate(values)
    ]
    builder = BlockBuilder()
    with builder.scope([param.name for param in params]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(case.relax(*params)))
        body: SeqExpr = builder.sequence(out)
    return IRModule({"main": make_function(params, body)})


def our_programs(mod: IRModule, values: Sequence[Any]) -> tuple[Program, Program]:
    """The forward program, and the one with the adjoints of what has one."""
    active = [f"x{i}" for i, value in enumerate(values) if is_active(value)]
    adjoint = SimplifyGradient()(Gradient("main", active, cotangent=True)(mod))
    legal = EliminateCommonSubexpr()(LegalizeOps()(adjoint))
    return to_jax(legal, "main"), to_jax(legal, "main_adjoint")


def plain_programs(case: Case, values: list[Any]) -> tuple[Program, Program]:
    active = [i for i, value in enumerate(values) if is_active(value)]

    def with_adjoints(*given: Any) -> Any:
        *args, cotangent = given

        def function(*chosen: Any) -> Any:
            full = list(args)
            for place, value in zip(active, chosen, strict=True):
                full[place] = value
            return case.plain(*full)

        out, pullback = jax.vjp(function, *(args[place] for place in active))
        return out, tuple(pullback(cotangent))

    return case.plain, with_adjoints


def is_active(value: Any) -> bool:
    return bool(jnp.issubdtype(value.dtype, jnp.floating))


def measured(family: str, case: Case, rounds: int) -> Iterator[Result]:
    """Both directions of a case, compared and timed."""
    values = [jnp.asarray(value) for value in case.values()]
    ours, plain = our_programs(module_of(case, values), values), plain_programs(case, values)
    out = jax.eval_shape(plain[0], *values)
    cotangent = jnp.asarray(np.random.default_rng(1).normal(size=out.shape), out.dtype)
    directions = (("forward", values), ("both", [*values, cotangent]))
    for (direction, args), mine, other in zip(directions, ours, plain, strict=True):
        if direction == "both" and not case.differentiable:
            continue
        pair = [jax.jit(program).lower(*args).compile() for program in (mine, other)]
        agree(f"{family}: {case.name}, {direction}", *(program(*args) for program in pair))
        yield compared(family, case, direction, pair, args, rounds)


def compared(
    family: str, case: Case, direction: str, pair: list[Any], args: list[Any], rounds: int
) -> Result:
    """Two compiled programs timed in turns."""

    def runner(program: Any) -> Program:
        return lambda: jax.block_until_ready(program(*args))

    names = ("ours", "plain")
    runs = {name: repeated(runner(p)) for name, p in zip(names, pair, strict=True)}
    times = in_turns({name: run for name, (run, _) in runs.items()}, rounds)
    per_call = runs["ours"][1] / runs["plain"][1]
    low, middle, high = (q / per_call for q in times["ours"].quartiles(times["plain"]))
    mine, other = (times[name].median() / runs[name][1] for name in names)
    temp, plain_temp = map(temp_bytes, pair)
    quartiles = low, high
    return Result(family, case.name, direction, middle, quartiles, mine, other, temp, plain_temp)


def agree(name: str, found: Any, wanted: Any) -> None:
    """Two results that differ by more than rounding end the run: their times say nothing."""
    for mine, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        scale = max(1.0, float(jnp.max(jnp.abs(other.astype("float32")))))
        apart = float(jnp.max(jnp.abs(mine.astype("float32") - other.astype("float32"))))
        tolerance = 2e-2 if other.dtype.itemsize < 4 else 2e-3
        if not apart <= tolerance * scale:
            raise AssertionError(f"{name}: {apart} apart, where values reach {scale}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("families", nargs="*", help=f"some of {', '.join(FAMILIES)}; else all")
    parser.add_argument("--case", default="", help="only cases whose name holds this")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--json", help="a file to write the results to")
    args = parser.parse_args()
    unknown = set(args.families) - set(FAMILIES)
    if unknown:
        parser.error(f"there is no family {sorted(unknown)}; there are {', '.join(FAMILIES)}")
    rounds = args.rounds or (QUICK_ROUNDS if args.quick else ROUNDS)
    where = surroundings()
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    results: list[Result] = []
    for family in args.families or FAMILIES:
        for case in FAMILIES[family]:
            if args.case in case.name:
                results += measured(family, case, rounds)
                print(f"{family}: {case.name}", file=sys.stderr)
    print(table(HEAD, [result.row() for result in results]))
    if args.json:
        with open(args.json, "w") as file:
            json.dump({**where, "results": [asdict(result) for result in results]}, file, indent=1)


if __name__ == "__main__":
    main()
