"""What FuseOps gains: a program with its operators grouped against the same without.

    python benchmarks/fusion.py            # --quick for fewer rounds

`compiled` is the whole program under one `jax.jit`, where XLA fuses on its own; `by operator` is
how a function runs that cannot be one program (it depends on values, or spans devices): there each
group is one compiled program, where each operator was one. Ratios are of times, after by before.
"""

import argparse
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from surroundings import surroundings
from timing import in_turns, repeated, table

from relaxjax.ir.module import IRModule
from relaxjax.lowering import to_jax
from relaxjax.passes import FuseOps, Gradient, SimplifyGradient
from relaxjax.script import from_source

ROUNDS, QUICK_ROUNDS = 21, 5

MLP = """
@I.ir_module
class Model:
    @R.function
    def main(
        x: R.Tensor((128, 784), "float32"),
        w0: R.Tensor((784, 256), "float32"),
        b0: R.Tensor((256,), "float32"),
        w1: R.Tensor((256, 256), "float32"),
        b1: R.Tensor((256,), "float32"),
        w2: R.Tensor((256, 10), "float32"),
        b2: R.Tensor((10,), "float32"),
    ) -> R.Tensor((), "float32"):
        with R.dataflow():
            h0 = R.nn.relu(R.add(R.matmul(x, w0), b0))
            h1 = R.nn.relu(R.add(R.matmul(h0, w1), b1))
            h2 = R.nn.log_softmax(R.add(R.matmul(h1, w2), b2))
            loss = R.negative(R.mean(h2))
            R.output(loss)
        return loss
"""
CHAIN = """
@I.ir_module
class Model:
    @R.function
    def main(
        x: R.Tensor((512, 512), "float32"), y: R.Tensor((512,), "float32")
    ) -> R.Tensor((), "float32"):
        with R.dataflow():
            a = R.multiply(R.tanh(R.add(x, y)), R.exp(R.negative(R.square(x))))
            b = R.add(R.multiply(a, R.sigmoid(x)), R.divide(y, R.add(R.abs(x), R.const(1.0))))
            c = R.maximum(R.sqrt(R.add(R.square(b), R.const(1.0))), R.cos(b))
            total = R.sum(R.multiply(c, R.log(R.add(R.abs(a), R.const(2.0)))))
            R.output(total)
        return total
"""


def programs() -> list[tuple[str, IRModule, str]]:
    found = []
    for name, text in (("MLP, batch 128", MLP), ("20 elementwise operators", CHAIN)):
        forward = from_source(text)
        assert isinstance(forward, IRModule)
        adjoint = SimplifyGradient()(Gradient("main")(forward))
        found += [(f"{name}, forward", forward, "main"), (f"{name}, both", adjoint, "main_adjoint")]
    return found


def arguments(mod: IRModule, name: str) -> list[Any]:
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(size=p.ty.dims) / 16, "float32") for p in mod[name].params]


def row(label: str, how: str, runs: list[Callable[..., Any]], args: list[Any], rounds: int) -> Any:
    """The ratio of two programs' times, and what each takes."""

    def runner(run: Callable[..., Any]) -> Callable[[], object]:
        return lambda: jax.block_until_ready(run(*args))

    timed = {key: repeated(runner(run)) for key, run in zip(("before", "after"), runs, strict=True)}
    times = in_turns({key: run for key, (run, _) in timed.items()}, rounds)
    share = timed["after"][1] / timed["before"][1]
    low, middle, high = (q / share for q in times["after"].quartiles(times["before"]))
    took = [f"{1e3 * times[key].median() / timed[key][1]:.3f}" for key in timed]
    return (label, how, f"{middle:.2f}", f"{low:.2f}-{high:.2f}", *took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    rounds = QUICK_ROUNDS if parser.parse_args().quick else ROUNDS
    rows = []
    for label, before, name in programs():
        args = arguments(before, name)
        pair = [to_jax(mod, name) for mod in (before, FuseOps()(before))]
        found, wanted = (jax.tree.leaves(run(*args)) for run in reversed(pair))
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        compiled: list[Callable[..., Any]] = [jax.jit(run).lower(*args).compile() for run in pair]
        rows += [
            row(label, "compiled", compiled, args, rounds),
            row(label, "by operator", pair, args, rounds),
        ]
    print(", ".join(f"{key} {value}" for key, value in surroundings().items()))
    print(table(("program", "", "ratio", "quartiles", "before ms", "after ms"), rows))


if __name__ == "__main__":
    main()
