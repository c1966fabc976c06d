"""Find how to train a model on many devices that are not here: what fits, and what is fastest.

The file holds a script, as `relaxjax train` takes it. Meshes, shardings and memory policies are
tried for so many devices of a kind:

    relaxjax plan model.py --devices 64 --hardware h100 --loss cross_entropy
    relaxjax plan model.py --devices 8 --hardware a100 --memory 40GiB --half bfloat16
    relaxjax plan model.py --devices 64,512,4096 --hardware h100 --sharding fsdp --compile 0
    relaxjax plan model.py --devices 16 --hardware mine --hardware-file mine.json
    relaxjax plan model.py --devices 64 --hardware h100 --sharding fsdp \\
        --sharding "w0=-,model;w1=model" --policy minimal

The table shows of each the bytes of a device, the time of a step by a roofline and what limits it,
and the bytes that a device exchanges. No step is run. For up to 64 devices all are compiled for as
many virtual ones of the CPU, for up to 512 the best few; the others are marked "predicted, not
run". Below the table stands the command for the best that fits.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from relaxjax.ir.module import IRModule
from relaxjax.ir.tables import aligned, shown_bytes
from relaxjax.passes import BindSymbolicVars, SetupTrainer
from relaxjax.passes.memory.planning.budget import budget_in_bytes
from relaxjax.trainable.names import OPTIM_STATE
from relaxjax.trainable.sharding import Distribution
from relaxjax.training.devices.device_plan import (
    MOST_VIRTUAL,
    Candidate,
    Prediction,
    candidates,
    held_bytes,
    ordered,
    predicted,
)
from relaxjax.training.devices.hardware import BUILT_IN, hardware
from relaxjax.training.devices.step_counts import StepCounts, counted
from relaxjax.training.layout import Layout

from .devices import sharding_of, sharding_text
from .failure import InputError, bad_input
from .files import WHAT_IS_READ, read_module
from .numbers import count, positive
from .own import add_load, own_losses
from .parser import parsed
from .train import add_optimizer
from .train_setup import (
    LOSSES,
    Known,
    in_half_precision,
    input_types,
    optimizer,
    scores_type,
    target_type,
    with_backbone,
)

_TITLES = ("mesh", "sharding", "policy", "bytes a device", "step", "limit", "exchanged", "how")
_POLICIES = ("none", "free", "minimal")
_PREDICTED, _COMPILED = "predicted, not run", "compiled"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawTextHelpFormatter
    parser.add_argument("file", metavar="FILE", help=WHAT_IS_READ)
    parser.add_argument(
        "--devices",
        metavar="N",
        type=numbers,
        required=True,
        help="how many devices, or several numbers for one table: 64,512,4096",
    )
    parser.add_argument(
        "--hardware", metavar="NAME", required=True,
        help=f"what they are: {', '.join(BUILT_IN)}, or one of --hardware-file",
    )  # fmt: skip
    parser.add_argument(
        "--hardware-file", metavar="FILE", help="a file of JSON that describes more hardware"
    )
    parser.add_argument(
        "--memory", metavar="BYTES", help="what a device may hold, such as 80GiB (all it has)"
    )
    parser.add_argument(
        "--sharding", metavar="HOW", type=sharding_of, action="append",
        help="what to split: data, fsdp, or patterns such as w0=-,model;w1=model;\n"
        "may be given several times (data and fsdp)",
    )  # fmt: skip
    parser.add_argument(
        "--compile", metavar="N", type=count, default=3,
        help="compile so many of the best for as many virtual devices, where these are\n"
        "65 to 512 (3); up to 64 devices all are compiled",
    )  # fmt: skip
    parser.add_argument(
        "--loss", metavar="NAME", type=Known("loss", LOSSES, own_losses), default="cross_entropy",
        help="the loss, as of `relaxjax train` (cross_entropy)",
    )  # fmt: skip
    parser.add_argument(
        "--batch", metavar="N", type=positive(int), help="the samples of a batch (the model's own)"
    )
    parser.add_argument(
        "--states", metavar="N", type=count, default=0,
        help="how many arguments are states, where the script does not say so (0)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    add_load(parser)
    add_optimizer(parser.add_argument_group("the optimizer"))


def run(args: argparse.Namespace) -> int:
    with bad_input():
        setup, samples = _model(args)
        on = hardware(args.hardware, args.hardware_file)
        memory = on.memory
        if args.memory is not None:
            memory = budget_in_bytes(args.memory, lambda: on.memory)
        found = _planned(args, setup, samples)
        rows = ordered(found, memory)
        rows = ordered(_with_compiled(args, rows), memory)
    if args.json:
        print(json.dumps([_to_json(row, memory) for row in rows], indent=2))
    else:
        print("\n".join(_shown(args, rows, memory)))
    return 0 if rows[0].bytes <= memory else 1


def numbers(text: str) -> list[int]:
    """Numbers of devices, each of them once."""
    try:
        return [*dict.fromkeys(int(positive(int)(one)) for one in text.split(","))]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be a number, or several such as 64,512,4096, found {text}"
        ) from None


Setup = Callable[[Candidate, bool], IRModule]


def _model(args: argparse.Namespace) -> tuple[Setup, int]:
    """What makes a candidate's module of the model, to compile it or not, and a batch's samples."""
    mod = in_half_precision(with_backbone(read_module(args.file), 1, args.states), args.half)
    (wanted,) = input_types(mod)
    first = (wanted.dims or (None,))[0]
    samples: Any = first if args.batch is None else args.batch
    if isinstance(first, int) and samples != first:
        raise InputError(f"the model takes batches of {first}, not of {samples}")
    if not isinstance(samples, int):
        raise InputError("the model takes batches of any size: give one by --batch")
    if not isinstance(first, int):
        mod = BindSymbolicVars({str(first): samples})(mod)
    loss, types = {**LOSSES, **own_losses()}[args.loss](), [scores_type(mod)]
    types.append(target_type(mod, args.loss))

    def setup(candidate: Candidate, is_compiled: bool) -> IRModule:
        return SetupTrainer(
            loss,
            optimizer(args, 1),
            types,
            legalize=is_compiled,
            loss_scale=args.loss_scale,
            memory_policy=candidate.policy if is_compiled else None,
            mesh=candidate.mesh,
            sharding=candidate.sharding,
        )(mod)

    return setup, samples


def _planned(args: argparse.Namespace, setup: Setup, samples: int) -> list[Prediction]:
    """All candidates, by the counts of what is compiled for fewer devices."""
    policies = _POLICIES if args.policy is None else [args.policy]
    shardings = args.sharding or ["data", "fsdp"]
    tried = [one for n in args.devices for one in candidates(n, shardings, policies, samples)]
    held, possible = {}, []
    refused: Exception | None = None
    for one in tried:
        key = str(one.mesh), str(one.sharding)
        if key not in held:
            held[key] = _held(setup, one)
        if isinstance(held[key], Exception):
            refused = held[key]
        else:
            possible.append(one)
    if not possible and refused is not None:
        raise refused
    wanted = {one.devices for one in possible}
    possible = [one for one in possible if one.probes()[-1].devices <= MOST_VIRTUAL]
    left_out = wanted - {one.devices for one in possible}
    if left_out:
        raise InputError(
            f"a plan for {min(left_out)} devices follows from what is compiled for up to "
            f"{MOST_VIRTUAL}, which their number must allow: give one such as {2 * MOST_VIRTUAL}"
        )
    probes = list({str(p): p for one in possible for p in one.probes()}.values())
    counts = dict(zip(map(str, probes), _compiled(args, probes), strict=True))
    on, dtype = hardware(args.hardware, args.hardware_file), args.half or "float32"
    return [
        predicted(
            one,
            [counts[str(p)] for p in one.probes()],
            held[str(one.mesh), str(one.sharding)],
            on,
            dtype,
        )
        for one in possible
    ]


def _held(setup: Setup, candidate: Candidate) -> Any:
    """The bytes that a device holds between steps, or why the mesh cannot be."""
    try:
        mod = setup(candidate, False)
    except ValueError as error:
        return error
    spread = Distribution.of(mod)
    assert spread is not None
    return held_bytes(Layout.of(mod).variables, spread)


def _with_compiled(args: argparse.Namespace, rows: Sequence[Prediction]) -> list[Prediction]:
    """The rows, of which the first few have what XLA counts for as many devices."""
    can_be = [row for row in rows if MOST_VIRTUAL < row.candidate.devices <= 8 * MOST_VIRTUAL]
    few = can_be[: args.compile]
    counts = _compiled(args, [row.candidate for row in few])
    known = {id(row): one for row, one in zip(few, counts, strict=True)}
    return [replace(row, compiled=known.get(id(row), row.compiled)) for row in rows]


def _compiled(args: argparse.Namespace, wanted: Sequence[Candidate]) -> list[StepCounts]:
    """What XLA counts of candidates, in a process of its own with as many devices of the CPU."""
    if not wanted:
        return []
    most = max(candidate.devices for candidate in wanted)
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={most}"
    listed = [[dict(one.mesh), one.sharding, one.policy] for one in wanted]
    done = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import probe; probe()", *args.given],
        input=json.dumps(listed),
        capture_output=True,
        text=True,
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
    )
    if done.returncode:
        raise InputError(f"the model could not be compiled for {most} devices: {done.stderr}")
    return [StepCounts.of_json(one) for one in json.loads(done.stdout.splitlines()[-1])]


def probe() -> None:
    """Compile the candidates that come in, and print what XLA counts. Equal ones are made once."""
    setup, _ = _model(parsed(sys.argv[1:]))
    known: dict[str, StepCounts] = {}
    found = []
    for mesh, sharding, policy in json.load(sys.stdin):
        candidate = Candidate(mesh, sharding, policy)
        mod = setup(candidate, True)
        key = mod.without_attr(OPTIM_STATE).script()  # whose numbers are many, and count nothing
        known[key] = known.get(key) or counted(mod, candidate.mesh)
        found.append(known[key].to_json())
    print(json.dumps(found))


def _shown(args: argparse.Namespace, rows: Sequence[Prediction], memory: int) -> list[str]:
    fits = rows[0].bytes <= memory
    table = aligned([_TITLES, *(_row(row, memory) for row in rows)])
    if fits:
        end = f"the fastest that fits: {_command(args, rows[0].candidate)}"
    else:
        least = min(rows, key=lambda row: row.bytes)
        end = (
            f"nothing fits into {shown_bytes(memory)}: the least is {shown_bytes(least.bytes)}; "
            "give more devices, a smaller batch, or patterns by --sharding"
        )
    return [*table, "", end]


def _row(row: Prediction, memory: int) -> tuple[str, ...]:
    one = row.candidate
    return (
        ",".join(f"{name}={size}" for name, size in one.mesh.items()),
        sharding_text(one.sharding),
        one.policy,
        shown_bytes(row.bytes) + ("" if row.bytes <= memory else ", too many"),
        f"{row.seconds * 1e3:.3g} ms",
        row.limit,
        shown_bytes(int(row.exchanged)),
        _PREDICTED if row.compiled is None else _COMPILED,
    )


def _to_json(row: Prediction, memory: int) -> dict[str, Any]:
    one = row.candidate
    return {
        "mesh": dict(one.mesh),
        "sharding": one.sharding,
        "policy": one.policy,
        "bytes": row.bytes,
        "predicted_bytes": row.counts.bytes,
        "fits": row.bytes <= memory,
        "seconds": row.seconds,
        "limit": row.limit,
        "flops": row.counts.flops,
        "exchanged": row.exchanged,
        "how": _PREDICTED if row.compiled is None else _COMPILED,
    }


def _command(args: argparse.Namespace, one: Candidate) -> str:
    """The command line of a training by a candidate."""
    words = ["relaxjax", "train", args.file, "--data", "DATA", "--loss", args.loss]
    words += ["--optim", args.optim, "--out", "RUN"]
    if args.batch is not None:
        words += ["--batch", str(args.batch)]
    if args.half is not None:
        words += ["--half", args.half]
    words += ["--mesh", ",".join(f"{name}={size}" for name, size in one.mesh.items())]
    words += ["--sharding", sharding_text(one.sharding), "--policy", one.policy]
    return shlex.join(words)
