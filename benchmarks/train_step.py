"""How many steps a second the Trainer makes, against the same loop by hand in JAX and optax.

    python benchmarks/train_step.py --optimizer sgd --rounds 9

The model is the three-layer perceptron of TVM's tutorial, in batches of 64. All contestants train
on the same batches in turns, round after round; what counts is the median of the rounds, by the
clock and by the CPU time of the process, which other programs on the machine disturb less. The
optax loop is one jitted and donated step, as its documentation has it.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from relaxjax.ir.types import TensorType
from relaxjax.losses import CrossEntropyLoss
from relaxjax.lowering import VirtualMachine, build
from relaxjax.optim import SGD, Adam, from_optax
from relaxjax.passes import SetupTrainer
from relaxjax.script import from_source
from relaxjax.training import Lines, Trainer

BATCH = 64
BATCHES = 16

OPTIMIZERS: dict[str, tuple[Any, Any]] = {
    "sgd": (SGD(0.01), optax.sgd(0.01)),
    "adam": (Adam(1e-3), optax.adam(1e-3)),
    "adamw": (from_optax(optax.adamw(1e-3)), optax.adamw(1e-3)),
}


def script(hidden: int, layers: int) -> str:
    """A perceptron as a script."""
    sizes = [784, *[hidden] * (layers - 1), 10]
    params, body, last = [], [], "x"
    for i, (rows, columns) in enumerate(pairwise(sizes)):
        params.append(f'w{i}: R.Tensor(({rows}, {columns}), "float32")')
        params.append(f'b{i}: R.Tensor(({columns},), "float32")')
        body.append(f"h{i} = R.add(R.matmul({last}, w{i}), b{i})")
        last = f"h{i}"
        if i < layers - 1:
            body.append(f"r{i} = R.nn.relu(h{i})")
            last = f"r{i}"
    lines = "\n            ".join(body)
    return f"""
@I.ir_module
class MLP:
    I.module_attrs({{"param_num": {2 * layers}, "state_num": 0}})

    @R.function
    def backbone(x: R.Tensor(({BATCH}, 784), "float32"), {", ".join(params)}):
        with R.dataflow():
            {lines}
            R.output({last})
        return {last}
"""


def trainer(optimizer: Any, layers: int) -> Trainer:
    loss_args = [TensorType((BATCH, 10), "float32"), TensorType((BATCH,), "int32")]
    backbone: Any = from_source(script(128, layers))
    mod = SetupTrainer(CrossEntropyLoss(), optimizer, loss_args)(backbone)
    made = Trainer(mod, VirtualMachine(build(mod, jax.devices()[0])))
    made.xavier_uniform_init_params()
    return made


class ByHand:
    """The loop of optax's documentation."""

    def __init__(self, tx: Any, params: dict[str, Any], layers: int) -> None:
        def loss(params: dict[str, Any], x: Any, labels: Any) -> Any:
            for i in range(layers):
                x = x @ params[f"w{i}"] + params[f"b{i}"]
                x = jax.nn.relu(x) if i < layers - 1 else x
            return optax.softmax_cross_entropy_with_integer_labels(x, labels).mean()

        def step(params: Any, state: Any, x: Any, labels: Any) -> Any:
            value, gradients = jax.value_and_grad(loss)(params, x, labels)
            updates, state = tx.update(gradients, state, params)
            return optax.apply_updates(params, updates), state, value

        self.step = jax.jit(step, donate_argnums=(0, 1))
        self.params = jax.tree.map(jnp.asarray, params)
        self.state = tx.init(self.params)

    def epoch(self, batches: Any) -> None:
        losses = []
        for x, labels in batches:
            self.params, self.state, loss = self.step(self.params, self.state, x, labels)
            losses.append(loss)
        float(np.mean(jax.device_get(losses)))


def seconds(epoch: Callable[[], Any]) -> tuple[float, float]:
    """What an epoch takes by the clock, and of CPU time."""
    clock, cpu = time.perf_counter(), time.process_time()
    epoch()
    return time.perf_counter() - clock, time.process_time() - cpu


def contestants(name: str, layers: int, steps: int, steps_per_call: int) -> dict[str, Any]:
    """Each contestant's epoch of so many steps."""
    rng = np.random.default_rng(0)
    shapes = [(BATCH, 784)] * BATCHES
    images = [rng.normal(size=shape).astype("float32") for shape in shapes]
    labels = [rng.integers(0, 10, BATCH).astype("int32") for _ in images]
    batches = list(zip(images, labels, strict=True)) * (steps // BATCHES)
    ours, theirs = OPTIMIZERS[name]
    plain, several = trainer(ours, layers), trainer(ours, layers)
    by_hand = ByHand(theirs, plain.export_params(), layers)
    quiet = Lines(lambda line: None)
    return {
        "optax by hand": lambda: by_hand.epoch(batches),
        "Trainer.fit": lambda: plain.fit(batches, 1, reporter=quiet),
        f"Trainer.fit, {steps_per_call} steps a call": lambda: several.fit(
            batches, 1, reporter=quiet, steps_per_call=steps_per_call
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd")
    parser.add_argument("--layers", type=int, default=3, help="more of them: more parameters")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--steps", type=int, default=64, help=f"a round, a multiple of {BATCHES}")
    parser.add_argument("--steps-per-call", type=int, default=8)
    args = parser.parse_args()
    epochs = contestants(args.optimizer, args.layers, args.steps, args.steps_per_call)
    for epoch in epochs.values():
        epoch()  # compiles
    names = list(epochs)
    rounds = []
    for _ in range(args.rounds):
        names.append(names.pop(0))  # nobody is always the first
        rounds.append({name: seconds(epochs[name]) for name in names})
    medians = {
        name: [statistics.median(found[name][which] for found in rounds) for which in (0, 1)]
        for name in epochs
    }
    clock, cpu = medians["optax by hand"]
    print(f"{args.optimizer}, {args.layers} layers, on {jax.devices()[0]}; ratios by clock, CPU")
    for name, (by_clock, by_cpu) in medians.items():
        speed = args.steps / by_clock
        print(f"  {name:30} {speed:9.1f} steps/s  {clock / by_clock:5.2f}  {cpu / by_cpu:5.2f}")


if __name__ == "__main__":
    main()
