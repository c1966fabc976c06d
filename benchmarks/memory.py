"""Memory plans: budgets kept, peaks predicted, and how long planning takes.

    python benchmarks/memory.py budgets       # at 80 to 30 % of all that is kept else
    python benchmarks/memory.py prediction    # predicted peaks of steps with Adam against XLA's
    python benchmarks/memory.py planning      # seconds for chains of 2,000 and 5,000 bindings
    python benchmarks/memory.py offload       # what residuals on the host leave on a GPU, predicted

Budgets and predictions are counts of bytes by XLA, the same on a busy machine as on a quiet one.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import jax
from models import ADJOINT, MODELS, prepared
from models.stepped import stepped
from models.stored import stored
from surroundings import surroundings
from timing import table

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.structural import structural_hash
from relaxjax.ir.types import TensorType
from relaxjax.lowering.memory import temporary_bytes
from relaxjax.ops.platform import lowering_for
from relaxjax.passes import (
    CanonicalizeBindings,
    EliminateCommonSubexpr,
    Gradient,
    LegalizeOps,
    MemoryPlanError,
    SimplifyGradient,
)
from relaxjax.passes.infrastructure.pause_gc import collector_paused
from relaxjax.passes.memory.planning.planner import POLICIES
from relaxjax.passes.memory.planning.recompute import rematerialized
from relaxjax.passes.memory.rematerialize import AUTO, OFFLOAD, decided, planned
from relaxjax.passes.memory.report.memory_report import memory
from relaxjax.script import relax as R

sys.path.insert(0, str(Path(__file__).parents[1] / "programs"))

from whole_image_models import unet
from whole_residual_models import resnet18
from whole_sequence_models import transformer

SHARES = (0.8, 0.6, 0.4, 0.35, 0.3)

# Within these, a plan is taken to need what is predicted, and none is read that was kept on disk.
FIGURE = "relaxjax.passes.memory.rematerialize._figure"
AS_PREDICTED = patch(FIGURE, lambda *_: lambda plan: plan.peak)
NONE_KEPT = patch.dict(os.environ, RELAXJAX_COMPILATION_CACHE="off")


def chain(layers: int, rows: int, width: int) -> IRModule:
    """The adjoint of layers with a GELU each."""
    builder = BlockBuilder()
    x = Var("x", TensorType((rows, width), "float32"))
    weights = [Var(f"w{i}", TensorType((width, width), "float32")) for i in range(layers)]
    with builder.function("main", [x, *weights]):
        with builder.dataflow():
            y = x
            for weight in weights:
                y = builder.emit(R.nn.gelu(R.matmul(y, weight)))
            loss = builder.emit_output(R.sum(y * y))
        builder.emit_func_output(loss)
    mod = Gradient("main", weights, lazy=True)(builder.get())
    for one in (SimplifyGradient(), LegalizeOps(), EliminateCommonSubexpr()):
        mod = one(mod)
    return CanonicalizeBindings()(mod)


SMALL: dict[str, Callable[[], IRModule]] = {
    "MLP of 64 layers": lambda: chain(64, 256, 32),
    "GPT": lambda: prepared(
        transformer("float32", batch=4, length=64, heads=4, width=64, words=256), True
    ),
    "ResNet-18": lambda: prepared(
        resnet18("float32", widths=(8, 16, 32, 64), batch=8, size=32), True
    ),
    "U-Net": lambda: prepared(unet("float32", batch=4, size=32, few=8, classes=4), True),
}


def budgets(names: list[str]) -> None:
    """Of the adjoints of small models, or of those of the suite that are named."""
    rows = []
    for name in names or SMALL:
        mod = prepared(MODELS[name](), True) if names else SMALL[name]()
        whole = temporary_bytes(mod, ADJOINT)
        for share in SHARES:
            start = time.process_time()
            try:
                found = decided(mod, ADJOINT, share)
            except MemoryPlanError as error:
                rows.append((name, f"{share:.0%}", f"none: {error}", "", "", ""))
                continue
            seconds = f"{time.process_time() - start:.1f}"
            taken = temporary_bytes(planned(mod, ADJOINT, found), ADJOINT) / whole
            parts = "" if found.parts is None else str(found.parts.number)
            extra = f"{found.plan.extra / found.planner.total:.1%}"
            rows.append((name, f"{share:.0%}", f"{taken:.0%}", extra, parts, seconds))
            print(*rows[-1], file=sys.stderr)
    print(table(("model", "budget", "taken", "computed again", "parts", "s"), rows))


def prediction(names: list[str]) -> None:
    """Of the steps that SetupTrainer makes by each policy, and where nobody asks for one."""
    rows, near, count = [], 0, 0
    for name in names or MODELS:
        model = stored(MODELS[name]())
        mod, caller = stepped(prepared(model), ADJOINT, len(model.params))
        found: dict[int, list[str]] = {}
        sizes: dict[int, tuple[int, int]] = {}
        for policy in (AUTO, *POLICIES):
            plan = decided(mod, ADJOINT, policy=policy, caller=caller).plan
            whole = rematerialized(mod, ADJOINT, plan)
            program = structural_hash(whole)
            if program not in found:
                taken = temporary_bytes(whole, caller.name, donate=caller.donate)
                sizes[program] = plan.size, taken
            found.setdefault(program, []).append(policy)
        for program, policies in found.items():
            predicted, taken = sizes[program]
            ratio = predicted / max(taken, 1)
            near += 0.9 <= ratio <= 1.1
            count += 1
            mebibytes = (f"{predicted / 2**20:.2f}", f"{taken / 2**20:.2f}")
            rows.append((name, ", ".join(policies), *mebibytes, f"{ratio:.2f}"))
            print(*rows[-1], file=sys.stderr)
        jax.clear_caches()
    print(table(("model", "policies", "predicted MiB", "XLA MiB", "ratio"), rows))
    print(f"{near} of {count} programs within 10 %")


def planning(names: list[str]) -> None:
    """All that is done to decide, but to compile: what XLA counts is taken to be as predicted."""
    for layers in (112, 278):
        mod, rows = chain(layers, 64, 32), []
        policies = [(policy, None, policy) for policy in (AUTO, *POLICIES[1:])]
        shares = [(f"{share:.0%}", share, None) for share in SHARES]
        for told, budget, policy in (*policies, *shares):
            start = time.process_time()
            with collector_paused(), AS_PREDICTED, NONE_KEPT:
                found = decided(mod, ADJOINT, budget, policy)
            seconds = f"{time.process_time() - start:.2f}"
            peak = f"{found.plan.peak / found.planner.none.peak:.2f}"
            extra = f"{found.plan.extra / found.planner.total:.1%}"
            parts = "" if found.parts is None else str(found.parts.number)
            rows.append((told, seconds, peak, extra, parts))
        print(f"{len(found.planner.program.steps)} bindings")
        print(table(("plan", "s", "peak", "computed again", "parts"), rows))


def offload(names: list[str]) -> None:
    """Of the adjoints in their forms for a GPU, by the bytes that are live: none is here."""
    rows = []
    for name in names or ("MLP of 64 layers", "ResNet-50", "U-Net", "GPT of 8 layers"):
        with lowering_for("cuda"):
            mod = prepared(MODELS[name](), True)
            start = time.process_time()
            away = memory(mod, ADJOINT, policy=OFFLOAD)
            seconds = f"{time.process_time() - start:.1f}"
            free, whole = memory(mod, ADJOINT, policy="free"), away.peak_of_all_kept
        shares = (f"{report.peak / whole:.2f}" for report in (free, away))
        host = sum(row.bytes for row in away.on_host)
        mebibytes = (f"{size / 2**20:.0f}" for size in (whole, host))
        rows.append((name, *mebibytes, *shares, seconds))
        print(*rows[-1], file=sys.stderr)
    print(table(("model", "MiB kept", "MiB on the host", "by free", "by offload", "s"), rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=tuple(_WHAT))
    parser.add_argument("models", nargs="*", help="some of the models; else all")
    args = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in surroundings().items()))
    _WHAT[args.what](args.models)


_WHAT = {"budgets": budgets, "prediction": prediction, "planning": planning, "offload": offload}


if __name__ == "__main__":
    main()
