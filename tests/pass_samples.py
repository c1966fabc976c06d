"""One sample of every pass, to be run on any program, forward or backward.

A pass that can be made without options needs no entry here: it is tried with its defaults.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import relaxjax.passes  # noqa: F401  # declares the passes
from relaxjax.ir.module import IRModule
from relaxjax.passes import Pass
from relaxjax.passes.registry import FACTORIES


@dataclass(frozen=True)
class Case:
    """A module, the function of it that is run, and the arguments."""

    module: IRModule
    entry: str
    args: tuple[Any, ...]


Sample = Callable[[Case], Pass]

# Passes whose very purpose is another function or another result: their own tests run them.
OTHER_RESULTS = {
    "AppendLoss": "adds a function",
    "CustomGradient": "changes the gradient of a function",
    "DecomposeOpsForTraining": "batch_norm takes the statistics of the batch, dropout draws",
    "Gradient": "adds a function",
    "HessianVectorProduct": "adds a function",
    "Jvp": "adds a function",
    "MutateOpsForTraining": "batch_norm takes the statistics of the batch, dropout draws",
    "SetupTrainer": "adds functions, and asks for a loss and an optimizer",
}

# Options for passes that have some without a default, or that do nothing without them.
_CHANNELS_LAST = {
    f"relax.nn.conv{len(spatial)}d": [f"N{spatial}C", f"{spatial}IO"]
    for spatial in ("W", "HW", "DHW")
}
SAMPLES: dict[str, Sample] = {
    "CombineParallelBatchMatmul": lambda case: FACTORIES["CombineParallelBatchMatmul"](2),
    "CombineParallelConv2D": lambda case: FACTORIES["CombineParallelConv2D"](2),
    "CombineParallelDense": lambda case: FACTORIES["CombineParallelDense"](2),
    "ConvertLayout": lambda case: FACTORIES["ConvertLayout"](_CHANNELS_LAST),
}

# How far from the results of other passes a pass may come, relative to the largest number.
TOLERANCES: dict[str, float] = {}


def sample(name: str, case: Case) -> Pass:
    """The sample of the pass called `name` for a case."""
    if name in SAMPLES:
        return SAMPLES[name](case)
    return FACTORIES[name]()


def preserving() -> list[str]:
    """The names of the passes after which a program must give the same results."""
    return [name for name in sorted(FACTORIES) if name not in OTHER_RESULTS]


def needs_options(name: str) -> bool:
    """Whether a pass cannot be made without options."""
    parameters = FACTORIES[name].parameters.values()
    return any(parameter.default is inspect.Parameter.empty for parameter in parameters)
