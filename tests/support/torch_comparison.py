"""A model of PyTorch beside what torch computed of it: outputs, states and every gradient."""

import time
from collections.abc import Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from relaxjax import ImportedModel, IRModule, SetupTrainer, VirtualMachine, build, from_torch
from relaxjax.ir.types import is_float
from relaxjax.losses import from_jax
from relaxjax.optim import SGD
from relaxjax.passes import DecomposeOpsForTraining

# What a gradient may be off by: a share of its own norm, or of a thousandth of all norms.
TOLERANCES = {"float32": 1e-4, "float64": 1e-9}
_NAMED = 4  # of what is off

Arrays = Mapping[str, np.ndarray[Any, Any]]


def compared(path: Path, arrays: Arrays, tolerance: float) -> dict[str, Any]:
    """How far outputs, states and gradients are from torch's, relative to what they may be."""
    started = time.perf_counter()
    model = from_torch(path)
    seconds = time.perf_counter() - started
    found = run(model, arrays)
    torch_names = {var: name for name, var in list(model.names.items())[::-1]}
    wanted = {
        kind: {var: arrays[f"{kind} {torch_names.get(var, var)}"] for var in values}
        for kind, values in found.items()
    }
    floors = {kind: 0.0 if kind == "output" else _norm(wanted[kind]) / 1000 for kind in found}
    off = {
        f"{kind} {var}": distance(array, found[kind][var], floors[kind])
        for kind, values in wanted.items()
        for var, array in values.items()
    }
    worst = {
        kind: max([d for name, d in off.items() if name.startswith(kind)], default=0.0)
        for kind in found
    }
    wrong = [name for name, one in off.items() if not one <= tolerance]
    bindings = sum(1 for _ in model.mod["backbone"].body.bindings())
    row = {"equal": not wrong, "bindings": bindings, "import_s": round(seconds, 2), **worst}
    return {**row, "wrong": wrong[:_NAMED]} if wrong else row


def _norm(arrays: Arrays) -> float:
    """The norm of all arrays together."""
    squares = (np.sum(np.square(np.asarray(one, "float64"))) for one in arrays.values())
    return float(np.sqrt(sum(squares)))


def distance(wanted: Any, found: Any, floor: float) -> float:
    """The distance of two arrays, relative to the norm of what it should be, or to a floor."""
    assert np.shape(wanted) == np.shape(found), (np.shape(wanted), np.shape(found))
    x, y = np.asarray(wanted, "float64"), np.asarray(found, "float64")
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    off = float(np.linalg.norm(np.where(same, 0, x - y)))
    scale = max(float(np.linalg.norm(x[np.isfinite(x)])), floor)
    return off / scale if scale else off


def run(model: ImportedModel, arrays: Arrays) -> dict[str, dict[str, Any]]:
    """The outputs, new states and gradients of a model, by its variables, through SetupTrainer."""
    kinds = model.outputs
    floats = [place for place, ty in enumerate(kinds) if is_float(ty.dtype)]

    def loss(*values: Any) -> Any:
        pairs = zip(floats, values[len(kinds) :], strict=True)
        return sum(jnp.sum(values[place] * cotangent) for place, cotangent in pairs)

    names = [f"v{place}" for place in range(len(kinds) + len(floats))]
    kind = Parameter.POSITIONAL_ONLY
    vars(loss)["__signature__"] = Signature([Parameter(name, kind) for name in names])
    types = [*kinds, *(kinds[place] for place in floats)]
    options: dict[str, Any] = {"channels_last": False, "roll_blocks": False}
    mod = SetupTrainer(from_jax(loss, len(kinds)), SGD(1.0), types, **options)(model.mod)
    held = [*model.params.values(), *model.states.values()]
    count = len(model.mod["backbone"].params) - len(held)
    keys = [jax.random.key(0)] * (mod.attrs["state_num"] - len(model.states))
    values = [*(arrays[f"input {place}"] for place in range(count)), *held, *keys]
    cotangents = [arrays[f"cotangent {place}"] for place in floats]
    first, gradients = VirtualMachine(build(mod))["backbone_loss_adjoint"](*values, *cotangents)
    states = first[1 : len(model.states) + 1] if model.states else []
    forward = IRModule({"main": DecomposeOpsForTraining("backbone")(model.mod)["backbone"]})
    outputs = VirtualMachine(build(forward))["main"](*values)
    listed = list(outputs) if isinstance(outputs, tuple | list) else [outputs]
    return {
        "output": {str(place): listed[place] for place in range(len(kinds))},
        "state": dict(zip(model.states, states, strict=True)),
        "gradient": dict(zip(model.params, gradients, strict=True)),
    }
