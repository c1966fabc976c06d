"""Models of PyTorch, compared with what they become here: outputs, states and every gradient.

    python tests/long/torch_models.py make FOLDER [NAMES]       where torch is
    python tests/long/torch_models.py compare FOLDER [NAMES]    where relaxjax is

The first writes for each model a `.pt2` file and what torch computes, the second reads them, and
adds what it finds to benchmarks/results/torch.json. The two may be different environments.
"""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "torch.json"
# What a gradient may be off by: a share of its own norm, or of a thousandth of all norms.
TOLERANCES = {"float32": 1e-4, "float64": 1e-9}

Arrays = Mapping[str, np.ndarray[Any, Any]]


def make(folder: Path, names: list[str], dtypes: list[str]) -> None:
    """Export models, and write what torch computes of them beside."""
    import torch_overloads
    import torch_zoo as zoo  # what these import is not there where models are compared

    assert torch_overloads.Cases  # its families are among the models by now

    folder.mkdir(parents=True, exist_ok=True)
    for name in names or list(zoo.MODELS):
        for dtype in dtypes:
            started = time.perf_counter()
            try:
                arrays = zoo.record(name, dtype, folder / f"{name}.{dtype}.pt2")
            except Exception as error:
                print(f"{name} {dtype}: not exported: {type(error).__name__}: {error}"[:600])
                continue
            np.savez(folder / f"{name}.{dtype}.npz", **arrays)
            print(f"{name} {dtype}: exported in {time.perf_counter() - started:.1f} s", flush=True)


def compare(folder: Path, names: list[str], dtypes: list[str]) -> int:
    """Compare models with what torch computed, and note it; the number of those that are off."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    wrong = 0
    for file in sorted(folder.glob("*.npz")):
        name, dtype = file.stem.rsplit(".", 1)
        if (names and name not in names) or dtype not in dtypes:
            continue
        try:
            row = compared(file.with_suffix(".pt2"), dict(np.load(file)), TOLERANCES[dtype])
        except Exception as error:
            row = {"refused": f"{type(error).__name__}: {error}"[:2000]}
            if "--trace" in sys.argv:
                traceback.print_exc()
        found.setdefault(name, {})[dtype] = row
        wrong += not row.get("equal", False)
        print(name, dtype, json.dumps(row)[:600], flush=True)
    RESULTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return wrong


def compared(path: Path, arrays: Arrays, tolerance: float) -> dict[str, Any]:
    """How far outputs, states and gradients are from torch's, relative to what they may be."""
    from relaxjax.torch.archive import read_archive
    from relaxjax.torch.model import imported

    started = time.perf_counter()
    model = imported(read_archive(path))
    seconds = time.perf_counter() - started
    outputs, states, gradients = run(model, arrays)
    variables = list(dict.fromkeys(model.names.values()))
    first = {var: next(n for n, v in model.names.items() if v == var) for var in variables}
    wanted = {var: arrays[f"gradient {first[var]}"] for var in model.params}
    total = float(np.sqrt(sum(float(np.sum(np.square(g))) for g in wanted.values())))
    rows = {
        "outputs": worst([arrays[f"output {i}"] for i in range(len(outputs))], outputs, 0.0),
        "states": worst(
            [arrays[f"state {first[var]}"] for var in states if var in first],
            [states[var] for var in states if var in first],
            0.0,
        ),
        "gradients": worst(
            list(wanted.values()), [gradients[var] for var in wanted], total / 1000
        ),
    }
    bindings = sum(1 for _ in model.mod["backbone"].body.bindings())
    off = max(rows.values())
    row = {**rows, "equal": off <= tolerance, "bindings": bindings, "import_s": round(seconds, 2)}
    if off > tolerance:
        row["off"] = _off(arrays, wanted, gradients, outputs, states, first, tolerance, total / 1000)
    return row


def _off(
    arrays: Arrays,
    wanted: Arrays,
    gradients: Arrays,
    outputs: list[Any],
    states: Arrays,
    first: Mapping[str, str],
    tolerance: float,
    floor: float,
) -> list[str]:
    """The names of what is not equal."""
    pairs = {f"output {i}": (arrays[f"output {i}"], one, 0.0) for i, one in enumerate(outputs)}
    pairs |= {f"state {k}": (arrays[f"state {first[k]}"], v, 0.0) for k, v in states.items() if k in first}
    pairs |= {f"gradient {k}": (v, gradients[k], floor) for k, v in wanted.items()}
    return [name for name, (x, y, least) in pairs.items() if worst([x], [y], least) > tolerance]


def worst(wanted: list[Any], found: list[Any], floor: float) -> float:
    """The greatest distance of two arrays, relative to the norm of what it should be."""
    distances = [0.0]
    for one, other in zip(wanted, found, strict=True):
        assert np.shape(one) == np.shape(other), (np.shape(one), np.shape(other))
        if not np.size(one):
            continue
        x, y = np.asarray(one, "float64"), np.asarray(other, "float64")
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        distance = float(np.linalg.norm(np.where(same, 0, x - y)))
        scale = max(float(np.linalg.norm(x[np.isfinite(x)])), floor)
        distances.append(distance / scale if scale else distance)
    return max(distances) if not np.isnan(distances).any() else float("inf")


def run(model: Any, arrays: Arrays) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """The outputs, new states and gradients of a model, through all of SetupTrainer."""
    import jax
    import jax.numpy as jnp

    from relaxjax import IRModule, SetupTrainer, VirtualMachine, build
    from relaxjax.ir.types import is_float
    from relaxjax.losses import from_jax
    from relaxjax.optim import SGD
    from relaxjax.passes import DecomposeOpsForTraining

    kinds = model.outputs
    floats = [place for place, ty in enumerate(kinds) if is_float(ty.dtype)]

    def loss(*values: Any) -> Any:
        pairs = zip(floats, values[len(kinds) :], strict=True)
        return sum(jnp.sum(values[place] * cotangent) for place, cotangent in pairs)

    targets = [kinds[place] for place in floats]
    parameters = ", ".join(f"v{i}" for i in range(len(kinds) + len(targets)))
    named: Callable[..., Any] = eval(f"lambda {parameters}: loss({parameters})", {"loss": loss})
    options: dict[str, Any] = {"channels_last": False, "roll_blocks": False}
    setup = SetupTrainer(from_jax(named, len(kinds)), SGD(1.0), [*kinds, *targets], **options)
    mod = setup(model.mod)
    given = [arrays[f"input {i}"] for i in range(_inputs(model))]
    held = [*model.params.values(), *model.states.values()]
    cotangents = [arrays[f"cotangent {place}"] for place in floats]
    keys = [jax.random.key(0)] * (mod.attrs["state_num"] - len(model.states))
    values = [*given, *held, *keys]
    first, gradients = VirtualMachine(build(mod))["backbone_loss_adjoint"](*values, *cotangents)
    states = first[1:] if isinstance(first, tuple | list) else []
    forward = IRModule({"main": DecomposeOpsForTraining("backbone")(model.mod)["backbone"]})
    outputs = VirtualMachine(build(forward))["main"](*values)
    found = list(outputs) if isinstance(outputs, tuple | list) else [outputs]
    new = dict(zip(model.states, states[: len(model.states)], strict=True))
    return found[: len(kinds)], new, dict(zip(model.params, gradients, strict=True))


def _inputs(model: Any) -> int:
    return len(model.mod["backbone"].params) - len(model.params) - len(model.states)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["make", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtype", action="append", choices=list(TOLERANCES))
    parser.add_argument("--trace", action="store_true")
    given = parser.parse_args()
    dtypes = given.dtype or list(TOLERANCES)
    if given.what == "make":
        make(given.folder, given.names, dtypes)
        return 0
    return compare(given.folder, given.names, dtypes)


if __name__ == "__main__":
    sys.exit(main())
