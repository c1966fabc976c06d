"""The convolutions and batch norms of a model of the suite one by one, by XLA, us and PyTorch.

    taskset -c 0 python benchmarks/model_layers.py ResNet-18
    taskset -c 0 python benchmarks/model_layers.py U-Net --rounds 31

Each row is a layer as it stands in the program that is trained, and how often it does: forward,
the gradient of its data, that of its weight. Images lie channels last, with PyTorch too. XLA's own
is what `jax.vjp` makes of `lax.conv_general_dilated`. Of a batch norm with its ReLU the second row
is forward and backward together, because in a program of its own JAX's gradient computes
the result again.

Times are medians of CPU milliseconds over interleaved rounds; GFLOP/s are of ours. The share is
that of all calls of a layer in the time of our whole step, which is forward, backward and Adam.
"""

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from models import MODELS
from models.convnets import batch_norm
from models.stored import stored
from operator_case import Case, floats
from operators import agree, module_of
from operators import our_programs as forward_and_adjoint
from suite import trainings
from surroundings import surroundings, temp_bytes
from timing import Times, in_turns, repeated, table
from whole_image_models import EPSILON

from relaxjax.ir.expr import Call
from relaxjax.ir.op import Op
from relaxjax.ir.walk import post_order
from relaxjax.ops.emit import call, dims_of
from relaxjax.ops.nn.array_convolution import Convolution, TransposedConvolution
from relaxjax.ops.nn.layouts import pad_pairs
from relaxjax.passes import ChannelsLast

ROUNDS = 15
NORM, TRANSPOSED = "nn.batch_norm", "nn.conv2d_transpose"
HEAD = ("layer", "", "of them", "xla ms", "ours ms", "torch ms", "GFLOP/s", "share", "ours MiB")
LAYOUTS = {"data_layout": "NHWC", "kernel_layout": "HWIO", "out_layout": "NHWC"}
Run = Callable[..., Any]


@dataclass(frozen=True)
class Layer:
    """An operator, the shapes of its data and weight, and strides and padding of a convolution."""

    op: str
    data: tuple[int, ...]
    weight: tuple[int, ...]
    strides: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    more: tuple[int, ...] = ()

    @staticmethod
    def of(found: Call) -> "Layer":
        name = str(found.op.name).removeprefix("relax.")  # type: ignore[attr-defined]  # of an Op
        data, weight = (tuple(map(int, dims_of(arg))) for arg in found.args[:2])
        if name == NORM:
            return Layer(name, data, weight)
        if found.attrs["kernel_layout"] != LAYOUTS["kernel_layout"]:
            outputs, inputs, *size = weight
            weight = (*size, inputs, outputs)
        sides = tuple(found.attrs["strides"]), tuple(found.attrs["padding"])
        more = tuple(found.attrs["output_padding"]) if name == TRANSPOSED else ()
        return Layer(name, data, weight, *sides, more)

    def __str__(self) -> str:
        channels = self.data[-1]
        image = "x".join(map(str, self.data[1:3]))
        if self.op == NORM:
            return f"batch norm, ReLU: {channels} channels of {image}"
        size = "x".join(map(str, self.weight[:2]))
        by = f" by {self.strides[0]}" if self.strides[0] > 1 else ""
        kind = "transposed " if self.op == TRANSPOSED else ""
        return f"{kind}{size}{by}: {channels} to {self.weight[3]} channels of {image}"

    def attrs(self) -> dict[str, Any]:
        if self.op == NORM:
            return {"axis": 3}
        found = {"strides": list(self.strides), "padding": list(self.padding), **LAYOUTS}
        return {**found, "output_padding": list(self.more)} if self.more else found

    def values(self) -> list[Any]:
        random = np.random.default_rng(0)
        return [draw(random) for draw in self.draws()]

    def draws(self) -> tuple[Any, ...]:
        if self.op == NORM:
            return floats(*self.data), floats(*self.weight, center=1), floats(*self.weight)
        return floats(*self.data), floats(*self.weight, scale=0.1)


def layers(name: str) -> Counter[Layer]:
    """Those of a model, as they are trained, and how often."""
    mod = ChannelsLast()(stored(MODELS[name]()).module)
    wanted = {f"relax.{op}" for op in ("nn.conv2d", TRANSPOSED, NORM)}
    calls = (expr for expr in post_order(mod["main"]) if isinstance(expr, Call))
    return Counter(
        Layer.of(one) for one in calls if isinstance(one.op, Op) and one.op.name in wanted
    )


def xla_form(layer: Layer) -> Run:
    """The layer as plain JAX."""
    if layer.op == NORM:
        return lambda x, gamma, beta: jax.nn.relu(batch_norm(x, gamma, beta)[0])
    pads = tuple(pad_pairs(list(layer.padding)))
    transposed = layer.op == TRANSPOSED  # of the convolution whose result is the data
    layouts = "NHWC", "HWOI" if transposed else "HWIO", "NHWC"
    of: Any = Convolution(layer.strides, pads, (1, 1), 1, *layouts)
    return partial(
        (TransposedConvolution(of, layer.more) if transposed else of).by_xla, dtype=jnp.float32
    )


def xla_programs(layer: Layer) -> dict[str, Run]:
    form = xla_form(layer)

    def adjoints(*args: Any) -> Any:
        *given, g = args
        out, pullback = jax.vjp(form, *given)
        return out, pullback(g)

    return programs(layer, form, adjoints)


def our_programs(layer: Layer) -> dict[str, Run]:
    def relax(*args: Any) -> Any:
        if layer.op != NORM:
            return call(layer.op, *args, **layer.attrs())
        running = call("zeros_like", args[1]), call("ones_like", args[1])
        return call("nn.relu", call(layer.op, *args, *running, **layer.attrs())[0])

    case = Case(str(layer), relax, relax, layer.draws())
    values = layer.values()
    return programs(layer, *forward_and_adjoint(module_of(case, values), values))


def programs(layer: Layer, form: Run, adjoints: Run) -> dict[str, Run]:
    """What is timed: XLA leaves out of a program what its result does not need."""
    if layer.op == NORM:
        return {"forward": lambda *args: form(*args[:-1]), "both": adjoints}
    return {
        "forward": lambda x, w, g: form(x, w),
        "of the data": lambda x, w, g: adjoints(x, w, g)[1][0],
        "of the weight": lambda x, w, g: adjoints(x, w, g)[1][1],
    }


def torch_programs(layer: Layer, arrays: list[Any]) -> dict[str, Callable[[], Any]]:
    """The same by PyTorch, on tensors that lie as its steps have them where images go last."""
    torch, functional = import_module("torch"), import_module("torch.nn.functional")
    torch.set_num_threads(import_module("torch_contestant").threads())
    last = {"memory_format": torch.channels_last}
    x, w, *rest, g = (torch.from_numpy(np.array(array)) for array in arrays)
    x, g = (image.permute(0, 3, 1, 2).contiguous(**last) for image in (x, g))
    if layer.op == NORM:
        given = [tensor.requires_grad_() for tensor in (x, w, *rest)]

        def forward() -> Any:
            out = functional.batch_norm(x, None, None, *given[1:], training=True, eps=EPSILON)
            return functional.relu(out)

        return {"forward": forward, "both": lambda: torch.autograd.grad(forward(), given, g)}
    w = w.permute(*((2, 3) if layer.op == TRANSPOSED else (3, 2)), 0, 1).contiguous(**last)
    sides = list(layer.strides), list(layer.padding[:2]), [1, 1]
    transposed, more = layer.op == TRANSPOSED, list(layer.more) or [0, 0]

    def gradient(*mask: bool) -> Any:
        return torch.ops.aten.convolution_backward(g, x, w, None, *sides, transposed, more, 1, mask)

    def convolved() -> Any:
        with torch.no_grad():
            return torch.ops.aten.convolution(x, w, None, *sides, transposed, more, 1)

    return {
        "forward": convolved,
        "of the data": lambda: gradient(True, False, False),
        "of the weight": lambda: gradient(False, True, False),
    }


def measured(layer: Layer, rounds: int) -> Iterator[tuple[str, dict[str, float], float, int]]:
    """Of each direction the milliseconds of each contestant, and ours in GFLOP/s and bytes."""
    values = layer.values()
    out = jax.eval_shape(xla_form(layer), *values)
    args = [*values, jnp.asarray(np.random.default_rng(1).normal(size=out.shape), "float32")]
    torch_runs = torch_programs(layer, args) if find_spec("torch") else {}
    ours, plain = our_programs(layer), xla_programs(layer)
    # Of a transposed convolution the data has the positions that are multiplied by the kernel.
    positions = (layer.data if layer.op == TRANSPOSED else out.shape)[:-1]
    work = 0 if layer.op == NORM else 2 * math.prod(positions) * math.prod(layer.weight)
    for direction in ours:
        compiled = [jax.jit(one[direction]).lower(*args).compile() for one in (plain, ours)]
        agree(f"{layer}, {direction}", *(program(*args) for program in compiled))

        def runner(program: Any) -> Run:
            return lambda: jax.block_until_ready(program(*args))

        runs = dict(zip(("xla", "ours"), map(runner, compiled), strict=True))
        runs |= {"torch": torch_runs[direction]} if torch_runs else {}
        counted = {name: repeated(run) for name, run in runs.items()}
        times = in_turns({name: run for name, (run, _) in counted.items()}, rounds)
        took = {name: milliseconds(times[name]) / count for name, (_, count) in counted.items()}
        yield direction, took, work / took["ours"] / 1e6, temp_bytes(compiled[1])


def milliseconds(times: Times) -> float:
    return 1e3 * times.median("cpu")


def steps(name: str, rounds: int) -> dict[str, float]:
    """The milliseconds of whole steps."""
    contestants = ["ours", *(["torch"] if find_spec("torch") else [])]
    times = in_turns(trainings(name, MODELS[name](), contestants), rounds)
    return {contestant: milliseconds(found) for contestant, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", choices=["ResNet-18", "U-Net", "ResNet-50", "MobileNet"])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    args = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in surroundings().items()))
    whole, rows = steps(args.model, args.rounds), []
    for layer, count in layers(args.model).items():
        for direction, took, rate, temp in measured(layer, args.rounds):
            times = (
                f"{took[name]:.2f}" if name in took else "" for name in ("xla", "ours", "torch")
            )
            share = 100 * count * took["ours"] / whole["ours"]
            last = f"{rate:.0f}" if rate else "", f"{share:.1f} %", f"{temp / 2**20:.2f}"
            rows.append((str(layer), direction, str(count), *times, *last))
    print(table(HEAD, rows))
    print("step: " + ", ".join(f"{name} {took:.1f} ms" for name, took in whole.items()))


if __name__ == "__main__":
    main()
