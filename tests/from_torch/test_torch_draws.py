"""Projections of an LSTM beside plain loops, and dropout to a value other than 0."""

from typing import Any

import numpy as np
import pytest
from aten_results import value

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Constant, Var
from relaxjax.ir.types import TensorType
from relaxjax.losses import MSELoss
from relaxjax.lowering import VirtualMachine, build
from relaxjax.optim import SGD
from relaxjax.passes import SetupTrainer
from relaxjax.torch.aten import TABLE
from relaxjax.training import Trainer

RANDOM = np.random.default_rng(5)
STEPS, BATCH, WIDTH, HIDDEN, OUT = 4, 2, 3, 5, 2


def normal(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype("float32")


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def run(x: Any, hidden: Any, memory: Any, weights: list[Any], biases: list[Any]) -> Any:
    outputs = []
    for now in x:
        gates = now @ weights[0].T + hidden @ weights[1].T + sum(biases)
        enter, forget, new, leave = np.split(gates, 4, axis=-1)
        memory = sigmoid(forget) * memory + sigmoid(enter) * np.tanh(new)
        hidden = (sigmoid(leave) * np.tanh(memory)) @ weights[2].T
        outputs.append(hidden)
    return np.stack(outputs)


@pytest.mark.parametrize("has_biases", [True, False])
@pytest.mark.parametrize("both_ways", [True, False])
def test_an_lstm_with_projections(has_biases: bool, both_ways: bool) -> None:
    directions = 1 + both_ways
    x, states = normal(STEPS, BATCH, WIDTH), normal(directions, BATCH, OUT)
    memories = normal(directions, BATCH, HIDDEN)
    params, wanted = [], []
    for direction in range(directions):
        weights = [normal(4 * HIDDEN, WIDTH), normal(4 * HIDDEN, OUT), normal(OUT, HIDDEN)]
        biases = [normal(4 * HIDDEN), normal(4 * HIDDEN)] if has_biases else []
        params += [*weights[:2], *biases, weights[2]]
        order = -1 if direction else 1
        given = states[direction], memories[direction], weights, biases
        wanted.append(run(x[::order], *given)[::order])

    def ours(x: Any, *given: Any) -> Any:
        rest = has_biases, 1, 0.0, False, both_ways, False
        return TABLE["aten.lstm.input"].rule(x, list(given), [Constant(p) for p in params], *rest)

    found = value(ours, x, states, memories)
    np.testing.assert_allclose(found, np.concatenate(wanted, -1), rtol=2e-5, atol=1e-6)


def dropped(name: str, p: float) -> Trainer:
    """A trainer of a model that drops, of images of ones."""
    x = Var("x", TensorType((64, 8, 4), "float32"))
    w = Var("w", TensorType((), "float32"))
    builder = BlockBuilder()
    with builder.function("backbone", [x, w]):
        with builder.dataflow():
            found = TABLE[f"aten.{name}.default"].rule(x, p, True)
            result = builder.emit_output(found * w)
        builder.emit_func_output(result)
    mod = builder.get().with_attrs({"param_num": 1, "state_num": 0})
    types = [TensorType((64, 8, 4), "float32")] * 2
    setup = SetupTrainer(MSELoss(reduction="sum"), SGD(1.0), types)(mod)
    trainer = Trainer(setup, VirtualMachine(build(setup)))
    trainer.load_params({"w": np.ones((), "float32")})
    return trainer


@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout"])
def test_dropout_to_the_value_that_selu_tends_to(name: str) -> None:
    """The mean and the variance stay, so a loss of squares beside 0 is that of the input."""
    x = normal(64, 8, 4)
    zeros = np.zeros_like(x)
    trainer = dropped(name, 0.3)
    np.testing.assert_array_equal(trainer.predict(x), x)
    loss = float(trainer.update(x, zeros))
    assert loss != pytest.approx(float((x**2).sum()), rel=1e-6)
    assert loss / x.size == pytest.approx(1, abs=0.2)


def test_dropout_of_all_or_nothing() -> None:
    x = normal(2, 3, 4)
    rule = TABLE["aten.alpha_dropout.default"].rule
    np.testing.assert_array_equal(value(lambda x: rule(x, 0.0, True), x), x)
    np.testing.assert_array_equal(value(lambda x: rule(x, 0.5, False), x), x)
    np.testing.assert_array_equal(value(lambda x: rule(x, 1.0, True), x), x * 0)
