"""Small trainable models that several tests share."""

from functools import cache
from typing import Any

import jax
import numpy as np
import optax

from relaxjax import SetupTrainer, VirtualMachine, build
from relaxjax.ir import IRModule, SymbolicVar, TensorType
from relaxjax.losses import CrossEntropyLoss, MSELoss
from relaxjax.optim import SGD
from relaxjax.script import ir as I
from relaxjax.script import relax as R
from relaxjax.training import EpochReport, Trainer

BATCH, FEATURES, HIDDEN, CLASSES = 8, 5, 7, 3


@I.ir_module
class Classifier:
    """Two layers, four parameters, no state."""

    I.module_attrs({"param_num": 4, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor((BATCH, FEATURES), "float32"),
        w0: R.Tensor((FEATURES, HIDDEN), "float32"),
        b0: R.Tensor((HIDDEN,), "float32"),
        w1: R.Tensor((HIDDEN, CLASSES), "float32"),
        b1: R.Tensor((CLASSES,), "float32"),
    ) -> R.Tensor((BATCH, CLASSES), "float32"):
        with R.dataflow():
            lv0 = R.matmul(x, w0)
            lv1 = R.add(lv0, b0)
            lv2 = R.nn.relu(lv1)
            lv3 = R.matmul(lv2, w1)
            out = R.add(lv3, b1)
            R.output(out)
        return out


@I.ir_module
class Counting:
    """`x * w` for any batch, a second output `x`, and a state that counts the calls."""

    I.module_attrs({"param_num": 1, "state_num": 1})

    @R.function
    def backbone(
        x: R.Tensor(("n", 2), "float32"),
        w: R.Tensor((2,), "float32"),
        calls: R.Tensor((), "float32"),
    ) -> R.Tuple(
        R.Tensor(("n", 2), "float32"), R.Tensor(("n", 2), "float32"), R.Tensor((), "float32")
    ):
        with R.dataflow():
            out = R.multiply(x, w)
            twice = R.add(x, x)
            new_calls = R.add(calls, R.const(1, "float32"))
            R.output(out, twice, new_calls)
        return (out, twice, new_calls)


def trainable(mod: Any, loss: Any, optimizer: Any, *loss_args: TensorType) -> IRModule:
    """The module with its loss, its adjoint and the optimizer."""
    result: IRModule = SetupTrainer(loss, optimizer, loss_args)(mod)
    return result


def trainer_of(
    mod: Any, loss: Any, optimizer: Any, *loss_args: TensorType, **options: Any
) -> Trainer:
    """A trainer of a model, set up with options of `SetupTrainer`."""
    made: Any = SetupTrainer(loss, optimizer, loss_args, **options)(mod)
    return Trainer(made, VirtualMachine(build(made)))


def classifier(optimizer: Any = None, **options: Any) -> Trainer:
    """A trainer of the classifier, by mean cross entropy against class ids, with drawn parameters.

    With options of `Trainer`, it is as they make it.
    """
    mod, vm = _built_classifier(optimizer or SGD(0.1))
    made = Trainer(mod, vm, **options)
    if not options:
        made.xavier_uniform_init_params(seed=0)
    return made


@cache
def _built_classifier(optimizer: Any) -> tuple[IRModule, VirtualMachine]:
    scores = TensorType((BATCH, CLASSES), "float32")
    labels = TensorType((BATCH,), "int32")
    mod = trainable(Classifier, CrossEntropyLoss(), optimizer, scores, labels)
    return mod, VirtualMachine(build(mod))


def counting(**options: Any) -> Trainer:
    """A trainer of the counting model, by the sum of squared errors."""
    scores = TensorType((SymbolicVar("n"), 2), "float32")
    mod = trainable(Counting, MSELoss("sum"), SGD(0.1), scores, scores)
    return Trainer(mod, VirtualMachine(build(mod)), **options)


def batch(seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Random inputs and labels for the classifier."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(BATCH, FEATURES)).astype("float32")
    return x, rng.integers(0, CLASSES, BATCH).astype("int32")


def trained_by_optax(
    tx: optax.GradientTransformation, params: dict[str, Any], steps: int
) -> tuple[Any, list[float]]:
    """The classifier trained by jit, grad and optax, and its losses."""

    def loss(params: dict[str, Any], x: Any, labels: Any) -> Any:
        hidden = jax.nn.relu(x @ params["w0"] + params["b0"][None])
        scores = hidden @ params["w1"] + params["b1"][None]
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    @jax.jit
    def step(params: Any, state: Any, x: Any, labels: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, x, labels)
        updates, state = tx.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    state, losses = tx.init(params), []
    for seed in range(steps):
        with jax.numpy_dtype_promotion("standard"):  # optax's adam mixes dtypes
            params, state, value = step(params, state, *batch(seed))
        losses.append(float(value))
    return params, losses


class Told:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.started: list[tuple[int, int, int | None]] = []
        self.losses: list[float] = []
        self.reports: list[EpochReport] = []

    def start(self, epoch: int, epochs: int, steps: int | None) -> None:
        self.started.append((epoch, epochs, steps))

    def step(self, loss: Any) -> None:
        self.losses.append(float(loss))

    def end(self, report: EpochReport) -> None:
        self.reports.append(report)
