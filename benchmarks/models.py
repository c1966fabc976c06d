"""Whole models, forward and backward, against `jax.jit(jax.value_and_grad)` of plain JAX.

    python benchmarks/models.py                       # every model
    python benchmarks/models.py U-Net LSTM --quick    # some of them, in a few rounds

Contestants, all on the same parameters and data, their gradients compared before they are timed:

* plain: `jax.jit(jax.value_and_grad(loss))`, which the others are divided by;
* checkpoint: the same of `jax.checkpoint(loss)`, which saves products and computes the rest again;
* adjoint: Gradient and LegalizeOps alone, as automatic differentiation writes it;
* ours: SimplifyGradient after Gradient, and common values merged after LegalizeOps;
* free, balanced: ours with Rematerialize by that policy.

Times are medians of the rounds' ratios with their quartiles. The bytes are those that a compiled
program needs beside arguments and results; to compile is to trace, transform and lower it, and
XLA's part.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from operators import agree
from surroundings import surroundings, temp_bytes
from timing import in_turns, table

from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.infer import unify
from relaxjax.ir.module import IRModule
from relaxjax.lowering import to_jax
from relaxjax.passes import (
    BindSymbolicVars,
    CanonicalizeBindings,
    EliminateCommonSubexpr,
    Gradient,
    LegalizeOps,
    Rematerialize,
    SimplifyGradient,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from whole_image_models import lenet, unet
from whole_model import WholeModel, type_of
from whole_models import mlp
from whole_residual_models import resnet18, resnet50
from whole_sequence_models import lstm, transformer

ROUNDS, QUICK_ROUNDS = 15, 5
ADJOINT = "main_adjoint"
MODELS: dict[str, Callable[[], WholeModel]] = {
    "MLP": lambda: mlp("float32", batch=64, features=784, hidden=128),
    "LeNet": lambda: lenet("float32", batch=64, size=28, classes=10),
    "ResNet-18": lambda: resnet18("float32", widths=(64, 128, 256, 512), batch=8, size=32),
    "ResNet-50": lambda: resnet50("float32", widths=(64, 128, 256, 512), batch=8, size=64),
    "U-Net": lambda: unet("float32", batch=4, size=64, few=16, classes=10),
    "transformer": lambda: transformer(
        "float32", batch=4, length=256, heads=4, width=256, words=8192
    ),
    "LSTM": lambda: lstm("float32", steps=128, batch=16, features=128, hidden=128),
}


@dataclass(frozen=True)
class Result:
    """One contestant on one model."""

    model: str
    contestant: str
    ratio: float  # of the time of plain
    quartiles: tuple[float, float]
    seconds: float
    temp: int
    temp_ratio: float
    compile_ratio: float

    def row(self) -> tuple[str, ...]:
        low, high = self.quartiles
        numbers = (f"{self.ratio:.2f}", f"{low:.2f}-{high:.2f}", f"{1e3 * self.seconds:.1f}")
        memory = (f"{self.temp_ratio:.2f}", f"{self.temp / 2**20:.1f}")
        return (self.model, self.contestant, *numbers, *memory, f"{self.compile_ratio:.2f}")


HEAD = ("model", "contestant", "time", "quartiles", "ms", "temp", "MiB", "compile")


def prepared(model: WholeModel, simplify: bool, policy: str | None = None) -> IRModule:
    """The adjoint of a model as it is compiled."""
    wanted = [param.name for param in model.module["main"].params[: len(model.params)]]
    mod = Gradient("main", require_grads=wanted, lazy=simplify)(fixed(model))
    if not simplify:
        return LegalizeOps()(mod)
    for one in (SimplifyGradient(), LegalizeOps(), EliminateCommonSubexpr()):
        mod = one(mod)
    mod = CanonicalizeBindings()(mod)
    return mod if policy is None else Rematerialize(ADJOINT, policy=policy)(mod)


def fixed(model: WholeModel) -> IRModule:
    """The module for the shapes of its arguments."""
    sizes: dict[SymbolicVar, Any] = {}
    args = (*model.params, *model.inputs)
    for param, arg in zip(model.module["main"].params, args, strict=True):
        unify(param.ty, type_of(arg), sizes)
    return BindSymbolicVars(sizes)(model.module) if sizes else model.module


def plain_loss(model: WholeModel) -> Callable[..., Any]:
    def loss(params: Any, *inputs: Any) -> Any:
        result = model.plain(*params, *inputs)
        return result[0] if isinstance(result, tuple) else result

    return loss


def contestants(model: WholeModel) -> dict[str, Callable[[], Callable[..., Any]]]:
    """How each is made: a function of all arguments that gives the loss and the gradients."""
    count = len(model.params)

    def by_jax(loss: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: jax.value_and_grad(loss)(args[:count], *args[count:])

    def by_us(**options: Any) -> Callable[..., Any]:
        run = to_jax(prepared(model, **options), ADJOINT)

        def function(*args: Any) -> Any:
            result, gradients = run(*args)
            return (result[0] if isinstance(result, tuple) else result), gradients

        return function

    loss = plain_loss(model)
    saved = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    return {
        "plain": lambda: by_jax(loss),
        "checkpoint": lambda: by_jax(jax.checkpoint(loss, policy=saved)),
        "adjoint": lambda: by_us(simplify=False),
        "ours": lambda: by_us(simplify=True),
        "free": lambda: by_us(simplify=True, policy="free"),
        "balanced": lambda: by_us(simplify=True, policy="balanced"),
    }


def measured(name: str, model: WholeModel, rounds: int) -> list[Result]:
    args = jax.tree.map(jnp.asarray, (*model.params, *model.inputs))
    compiled, took = {}, {}
    for contestant, make in contestants(model).items():
        start = time.perf_counter()
        compiled[contestant] = jax.jit(make()).lower(*args).compile()
        took[contestant] = time.perf_counter() - start
    expected = compiled["plain"](*args)
    for contestant, program in compiled.items():
        agree(f"{name}, {contestant}", program(*args), expected)

    def runner(program: Any) -> Callable[[], object]:
        return lambda: jax.block_until_ready(program(*args))

    times = in_turns({name: runner(program) for name, program in compiled.items()}, rounds)
    plain_temp = max(temp_bytes(compiled["plain"]), 1)
    results = []
    for contestant, program in compiled.items():
        low, middle, high = times[contestant].quartiles(times["plain"])
        temp = temp_bytes(program)
        found = (middle, (low, high), times[contestant].median(), temp, temp / plain_temp)
        results.append(Result(name, contestant, *found, took[contestant] / took["plain"]))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", help=f"some of {', '.join(MODELS)}; else all")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds")
    parser.add_argument("--json", help="a file to write the results to")
    args = parser.parse_args()
    unknown = set(args.models) - set(MODELS)
    if unknown:
        parser.error(f"there is no model {sorted(unknown)}; there are {', '.join(MODELS)}")
    where = surroundings()
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    results: list[Result] = []
    for name in args.models or MODELS:
        results += measured(name, MODELS[name](), QUICK_ROUNDS if args.quick else ROUNDS)
        print(name, file=sys.stderr)
    print(table(HEAD, [result.row() for result in results]))
    if args.json:
        with open(args.json, "w") as file:
            json.dump({**where, "results": [asdict(result) for result in results]}, file, indent=1)


if __name__ == "__main__":
    main()
