"""A loss differentiated by us, in one or several ways, beside `jax.value_and_grad`."""

import gc
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jax_losses import LOSSES, Case, Draws
from surroundings import temp_bytes
from timing import in_turns

Gradient = Callable[..., Any]  # takes a loss, and `has_aux`

# A turn is as many steps as take about so many seconds.
TURN = 0.03


class Ratios(NamedTuple):
    """What a way takes as a part of what JAX takes."""

    step: float  # by the clock
    cpu: float  # by the CPU time of the process
    temp: float  # bytes of the executable
    compile: float  # by the CPU time to trace, lower and compile


@dataclass(frozen=True)
class Comparison:
    """The ratios of each way, and what JAX itself takes."""

    ratios: Mapping[str, Ratios]
    seconds: float
    temp_bytes: int
    compile_seconds: float


def compiled(gradient: Gradient, case: Case) -> tuple[Any, float]:
    """The executable of a loss and its gradients, and the CPU seconds that it took to make."""
    gc.collect()  # what others left is nobody's time
    start = time.process_time()
    derived = jax.jit(gradient(case.loss, has_aux=case.has_aux))
    program = derived.lower(case.params, *case.inputs).compile()
    return program, time.process_time() - start


def warm_up(gradients: Iterable[Gradient]) -> None:
    """Compile a small loss: what a process imports and starts once is in no compile time."""
    small = LOSSES["normalizing flow"](Draws())
    for gradient in (jax.value_and_grad, *gradients):
        compiled(gradient, small)


def trace_before(case: Case) -> None:
    """Trace a loss: who comes first would else trace the functions that it calls for all.

    JAX keeps what it has traced of those of `jax.numpy`, of libraries, and what is jitted.
    """
    jax.eval_shape(case.loss, case.params, *case.inputs)


def check(found: Any, wanted: Any) -> None:
    """The gradients of both, as far as the least of their dtypes can tell.

    Where they are 0 but for rounding, that is of the size of what cancels. JAX's own gradients of a
    transformer in bfloat16 are up to 4.6 % of the largest off those in float32.
    """
    pairs = list(zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True))
    numbers = [pair for pair in pairs if jax.numpy.issubdtype(pair[1].dtype, jax.numpy.inexact)]
    largest = max(float(abs(other).max(initial=0)) for _, other in numbers)
    for mine, other in numbers:
        bound = 5e-2 * float(abs(other).max(initial=0)) + 1e-5 * largest
        np.testing.assert_allclose(mine, other, rtol=0, atol=bound)


def compared(case: Case, ways: Mapping[str, Gradient], rounds: int) -> Comparison:
    """What each way takes; its gradients must be JAX's."""
    trace_before(case)
    theirs, their_seconds = compiled(jax.value_and_grad, case)
    made = {name: compiled(gradient, case) for name, gradient in ways.items()}
    args = (case.params, *case.inputs)
    wanted = theirs(*args)
    for ours, _ in made.values():
        check(ours(*args), wanted)
    start = time.perf_counter()
    jax.block_until_ready(theirs(*args))
    steps = max(1, int(TURN / (time.perf_counter() - start)))

    def turn(program: Any) -> Callable[[], object]:
        return lambda: [jax.block_until_ready(program(*args)) for _ in range(steps)]

    programs = {name: program for name, (program, _) in made.items()}
    times = in_turns({"": turn(theirs), **{n: turn(p) for n, p in programs.items()}}, rounds)
    taken = temp_bytes(theirs)
    ratios = {
        name: Ratios(
            times[name].ratio(times[""]),
            times[name].ratio(times[""], "cpu"),
            temp_bytes(program) / max(taken, 1),
            made[name][1] / their_seconds,
        )
        for name, program in programs.items()
    }
    return Comparison(ratios, times[""].median() / steps, taken, their_seconds)
