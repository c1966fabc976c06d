"""What the update by Adam takes of a training step, and in which forms it could be written.

    python benchmarks/update_share.py                                # ResNet-18, GPT of 8 layers
    python benchmarks/update_share.py --only "ResNet-50, 7x7 stem" --rounds 7

The first table has a step of the suite's models beside the same program without its update, which
gives the gradients instead: XLA's kernels in the compiled program, the CPU seconds to trace and
compile it, and its time. `plain` is `jax.jit` of `jax.value_and_grad` and optax. `imported` is the
same with our gradients, the parameters as the user has them; `ours` has equal layers in stacks.

The second table has the update alone, for gradients that are given, in plain JAX:

* apart: each parameter by itself;
* by shape: parameters of one shape are stacked, their states are stored so;
* flat, small: those below 4,096 numbers are one flat array, their states are stored so;
* flat: all parameters are.

The third table has our update with the states of `Narrow`, beside Adam's.

Times are medians of rounds in turns, ratios to the first of each table. Other work on the machine
disturbs them, and no counts.
"""

import argparse
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"

import jax
import jax.numpy as jnp
import numpy as np
from contestants import CONTESTANTS, Training, Update
from models import MODELS
from models.stepped import RATE
from surroundings import surroundings
from timing import Contestants, in_turns, table
from whole_model import WholeModel, type_of

from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.lowering import to_jax
from relaxjax.optim import Adam, Narrow
from relaxjax.passes import EliminateCommonSubexpr, LegalizeOps

_SMALL = 4096
_NO_KERNELS = {"parameter", "get-tuple-element", "tuple", "bitcast", "constant"}
_BETAS = 0.9, 0.999

Group = tuple[int, ...]  # parameters by their numbers, updated as one array


def kernels(program: Any) -> int:
    """How many instructions of a compiled program run by themselves, loops as one."""
    text = program.as_text()
    lines = text[text.index("\nENTRY") :].splitlines()
    names = (re.search(r" = .*? ([a-z][a-z-]*)\(", line) for line in lines)
    return sum(name is not None and name[1] not in _NO_KERNELS for name in names)


class _Gradients(Training):
    """A training without its update: each call gives the gradients."""

    def _whole(self, adjoint: Any, update: Update) -> tuple[Any, int, int]:
        def step(params: Any, state: Any, inputs: Any) -> Any:
            loss, gradients = adjoint(*params, *inputs)
            return gradients, loss

        program: Any = jax.jit(step).lower(self._params, self._state, self._inputs).compile()
        return program, 0, 0

    def __call__(self) -> None:
        jax.block_until_ready(self._step(self._params, self._state, self._inputs))


def shares(model: WholeModel, rounds: int) -> str:
    """Steps with their update and without it."""
    found: dict[str, Any] = {}
    for name in ("plain", "imported", "ours"):
        found[name] = Training(CONTESTANTS[name], model)
        found[f"{name}, no update"] = _Gradients(CONTESTANTS[name], model)
    times = in_turns(found, rounds)
    rows = [
        (
            name,
            str(kernels(one._step)),
            f"{one.compile_seconds[1]:.2f}",
            f"{times[name].ratio(times['plain']):.2f}",
            f"{times[name].ratio(times['plain'], 'cpu'):.2f}",
        )
        for name, one in found.items()
    ]
    return table(("step", "kernels", "compile s", "time", "CPU time"), rows)


@dataclass(frozen=True)
class Form:
    """Which parameters are updated as one array, and how that is made of them."""

    groups: Sequence[Group]
    is_flat: bool

    def together(self, arrays: Sequence[Any]) -> list[Any]:
        def flat(array: Any) -> Any:
            return array.reshape(-1) if self.is_flat else array[None]

        return [
            arrays[group[0]]
            if len(group) == 1
            else jnp.concatenate([flat(arrays[n]) for n in group])
            for group in self.groups
        ]

    def apart(self, joined: Sequence[Any], like: Sequence[Any]) -> list[Any]:
        found = list(like)
        for group, whole in zip(self.groups, joined, strict=True):
            if len(group) == 1:
                found[group[0]] = whole
                continue
            start = 0
            for row, number in enumerate(group):
                end = start + like[number].size
                part = whole[start:end] if self.is_flat else whole[row]
                found[number] = part.reshape(like[number].shape)
                start = end
        return found


def forms(sizes: Sequence[tuple[int, ...]]) -> dict[str, Form]:
    numbers = range(len(sizes))
    shapes: dict[Any, list[int]] = {}
    for number in numbers:
        shapes.setdefault(sizes[number], []).append(number)
    small = tuple(n for n in numbers if np.prod(sizes[n]) < _SMALL)
    others = [(n,) for n in numbers if n not in small]
    return {
        "apart": Form([(n,) for n in numbers], False),
        "by shape": Form([tuple(group) for group in shapes.values()], False),
        "flat, small": Form([small, *others], True),
        "flat": Form([tuple(numbers)], True),
    }


def _adam(param: Any, gradient: Any, mean: Any, square: Any, parts: Sequence[Any]) -> Any:
    mean = _BETAS[0] * mean + (1 - _BETAS[0]) * gradient
    square = _BETAS[1] * square + (1 - _BETAS[1]) * gradient * gradient
    step = (mean / parts[0]) / (jnp.sqrt(square / parts[1]) + 1e-8)
    return param - RATE * step, mean, square


def updating(form: Form) -> Callable[..., Any]:
    def update(params: Any, state: Any, gradients: Any) -> Any:
        count, means, squares = state
        parts = [1 - beta ** (count + 1) for beta in _BETAS]
        given = form.together(params), form.together(gradients), means, squares
        new = [_adam(*each, parts) for each in zip(*given, strict=True)]
        params_new, means_new, squares_new = (list(each) for each in zip(*new, strict=True))
        return form.apart(params_new, params), (count + 1, means_new, squares_new)

    return update


def alone(model: WholeModel, rounds: int) -> str:
    """The update in several forms."""
    arrays = list(map(jnp.asarray, jax.tree.leaves(model.params)))
    runs, rows = {}, []
    for name, form in forms([a.shape for a in arrays]).items():
        zeros = [jnp.zeros_like(a) for a in form.together(arrays)]
        state = (jnp.float32(0), zeros, list(map(jnp.copy, zeros)))
        given = [list(map(jnp.copy, arrays)), state]
        began = time.process_time()
        step = jax.jit(updating(form), donate_argnums=(0, 1))
        program: Any = step.lower(*given, arrays).compile()
        took = time.process_time() - began
        runs[name] = partial(_run, program, given, arrays)
        temp = program.memory_analysis().temp_size_in_bytes / 2**20
        rows.append((name, str(kernels(program)), f"{took:.2f}", f"{temp:.1f}"))
    return _beside_first("update", "temp MiB", rows, runs, rounds)


def _run(program: Any, given: list[Any], arrays: Any) -> None:
    """One update of what is `given`, which is given away."""
    given[:] = program(*given, arrays)
    jax.block_until_ready(given)


def _beside_first(
    kind: str, size: str, rows: Sequence[tuple[str, ...]], runs: Contestants, rounds: int
) -> str:
    """The rows of updates, with the time of each in that of the first."""
    times = in_turns(runs, rounds)
    first = times[rows[0][0]]
    ratios = [
        tuple(f"{times[row[0]].ratio(first, m):.2f}" for m in ("clock", "cpu")) for row in rows
    ]
    head = (kind, "kernels", "compile s", size, "time", "CPU time")
    return table(head, [(*row, *more) for row, more in zip(rows, ratios, strict=True)])


def narrow(model: WholeModel, rounds: int) -> str:
    """Our update, with states of 32, 16 and 8 bits."""
    arrays = tuple(map(jnp.asarray, jax.tree.leaves(model.params)))
    params = [Var(f"p{n}", type_of(array)) for n, array in enumerate(arrays)]
    runs, rows = {}, []
    kinds = {"Adam": Adam(RATE), "bfloat16": Narrow(Adam(RATE)), "int8": Narrow(Adam(RATE), "int8")}
    for name, optimizer in kinds.items():
        ready = optimizer.init(params)
        began = time.process_time()
        mod = IRModule({"update": ready.get_function().with_attr("global_symbol", "update")})
        update = to_jax(EliminateCommonSubexpr()(LegalizeOps()(mod)), "update")
        given = [tuple(map(jnp.copy, arrays)), tuple(map(jnp.asarray, ready.state))]
        step = jax.jit(lambda p, s, g, update=update: update(p, g, s), donate_argnums=(0, 1))
        program: Any = step.lower(*given, arrays).compile()
        took = time.process_time() - began
        bytes_of = sum(array.nbytes for array in given[1])
        runs[name] = partial(_run, program, given, arrays)
        rows.append((name, str(kernels(program)), f"{took:.2f}", f"{bytes_of / 2**20:.1f}"))
    return _beside_first("states", "MiB", rows, runs, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(MODELS), metavar="MODEL")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in surroundings().items()))
    first = MODELS["LeNet"]()
    for name in ("plain", "imported", "ours"):
        Training(CONTESTANTS[name], first)()
    for name in args.only or ("ResNet-18", "GPT of 8 layers"):
        model = MODELS[name]()
        count = len(jax.tree.leaves(model.params))
        print(f"\n{name}: {count} parameters\n\n{alone(model, args.rounds)}", flush=True)
        print(f"\n{narrow(model, args.rounds)}", flush=True)
        print(f"\n{shares(model, args.rounds)}", flush=True)


if __name__ == "__main__":
    main()
