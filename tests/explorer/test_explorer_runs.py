"""What the explorer sees where it runs a program: times of kernels, and numbers of bindings."""

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_module as module

from relaxjax import SetupTrainer, VirtualMachine, build, explore, value_and_grad
from relaxjax.cli.demo import MLP, trainable
from relaxjax.explorer.document import Exchange, Number, Numbers
from relaxjax.explorer.explorer import _communication_of
from relaxjax.explorer.printed import Places
from relaxjax.explorer.step_numbers import LEAST, _Seen
from relaxjax.ir import IRModule, Span, TensorType
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import SGD
from relaxjax.training import CommunicationReport, Trainer
from relaxjax.training.devices.communication import Exchange as TrainingExchange

MODEL = """
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((8, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.exp(a)
            loss = R.sum(b)
            R.output(loss)
        return loss
"""


def loss(w: Any, x: Any) -> Any:
    hidden = jnp.tanh(x @ w)
    return jnp.mean(hidden * hidden)


W = jnp.asarray(np.random.default_rng(0).normal(size=(4, 4)), "float32")
X = jnp.asarray(np.random.default_rng(1).normal(size=(8, 4)), "float32")


def by_var(numbers: Numbers | None) -> dict[str, Number]:
    assert numbers is not None
    return {value.var: value for value in numbers.values}


def gradients(numbers: Numbers | None) -> dict[str | None, Number]:
    return {value.gradient_of: value for value in by_var(numbers).values()}


def test_numbers_are_those_of_the_values_and_gradients_of_a_loss() -> None:
    found = explore(loss, W, X, numbers=True).document.numbers
    assert found is not None
    assert found.origin == "the numbers given"
    hidden = np.tanh(np.asarray(X @ W))
    seen = by_var(found)["hidden"]
    assert (seen.count, seen.nan, seen.infinite, seen.zeros) == (32, 0, 0, 0)
    assert seen.low == pytest.approx(hidden.min(), rel=1e-6)
    assert seen.high == pytest.approx(hidden.max(), rel=1e-6)
    assert seen.rms == pytest.approx(np.sqrt(np.mean(hidden**2)), rel=1e-6)
    assert sum(seen.octaves) == 32
    gradient = jax.grad(loss)(W, X)
    assert gradients(found)["w"].rms == pytest.approx(float(jnp.sqrt(jnp.mean(gradient**2))), 1e-5)


def test_octaves_count_numbers_by_their_size() -> None:
    seen = _Seen()
    seen.add(np.asarray([1.0, -1.5, 2.0, 0.25, 0.0, np.nan, np.inf, 1e-30], "float32"))
    number = seen.number("x", None)
    assert (number.count, number.nan, number.infinite, number.zeros) == (8, 1, 1, 1)
    assert (number.low, number.high) == (-1.5, 2.0)
    octaves = {number.first + at + LEAST: n for at, n in enumerate(number.octaves) if n}
    assert octaves == {LEAST: 1, -2: 1, 0: 2, 1: 1}


def test_a_loop_is_looked_at_step_by_step() -> None:
    def scanned(w: Any, x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            hidden = carry @ row
            return hidden, None

        return jax.lax.scan(step, x, w)[0].sum()

    weights = jnp.stack([2 * jnp.eye(4)] * 6)
    found = by_var(explore(scanned, weights, jnp.ones((2, 4)), numbers=True).document.numbers)
    seen = found["hidden"]
    assert seen.count == 6 * 2 * 4
    assert (seen.low, seen.high) == (2.0, 64.0)
    assert seen.octaves == (8,) * 6


def test_numbers_that_are_not_finite_are_counted() -> None:
    data = {"x": np.full((8, 4), 100, "float32"), "w": np.eye(4, dtype="float32")}
    found = explore(module(MODEL), numbers=True, data=data).document.numbers
    seen = by_var(found)["b"]
    assert (seen.infinite, seen.low, seen.rms, seen.octaves) == (32, None, None, ())
    assert found is not None
    assert found.origin == "the numbers given"


def test_what_is_not_given_is_random_and_always_the_same() -> None:
    document = explore(module(MODEL), numbers=True, data=[np.ones((8, 4), "float32")]).document
    assert document.numbers is not None
    assert document.numbers.origin == "random numbers for 1 of 2 arguments"
    again = explore(module(MODEL), numbers=True, data={"x": np.ones((8, 4), "float32")}).document
    assert again.numbers == document.numbers
    assert by_var(document.numbers)["x"].low == 1


def test_shapes_of_a_loss_are_filled_with_random_numbers() -> None:
    shape = jax.ShapeDtypeStruct((8, 4), jnp.float32)
    found = explore(value_and_grad(loss), W, shape, numbers=True).document.numbers
    assert found is not None
    assert found.origin == "random numbers for 1 of 2 arguments"


def a_trainer() -> Trainer:
    mod = trainable(0.1)
    trainer = Trainer(mod, VirtualMachine(build(mod)))
    trainer.xavier_uniform_init_params(seed=0)
    return trainer


def test_a_trainer_is_run_with_its_own_parameters_on_a_batch() -> None:
    trainer = a_trainer()
    batch = np.full((64, 784), 0.5, "float32"), np.zeros(64, "int32")
    found = explore(trainer, numbers=True, data=batch).document.numbers
    assert found is not None
    assert found.origin == "the batch given"
    weights = next(iter(trainer.export_params().values()))
    assert by_var(found)["w0"].high == pytest.approx(float(weights.max()), rel=1e-6)
    assert (by_var(found)["x"].low, by_var(found)["x"].high) == (0.5, 0.5)
    assert {"w0", "w1", "w2"} <= set(gradients(found))
    loss = float(trainer.update(*batch))
    assert by_var(found)["gv"].high == pytest.approx(loss, rel=1e-5)
    drawn = explore(trainer, numbers=True).document.numbers
    assert drawn is not None
    assert drawn.origin == "a batch of random numbers"


def test_a_profile_tells_which_bindings_a_kernel_computes() -> None:
    document = explore(loss, W, X, profile=True).document
    profile = document.profile
    assert profile is not None
    assert profile.milliseconds > 0
    lines = document.line_numbers(len(document.stages) - 1)["loss_adjoint"]
    names = {document.lines[number].var for number in lines}
    computed = [name for kernel in profile.kernels for name in kernel.bindings]
    assert "hidden" in computed
    assert set(computed) <= names
    assert document.numbers is None


def on_a_mesh(batch: Any) -> Trainer:
    params = {"w": np.ones((4, 4), "float32")}
    return Trainer.from_jax(
        lambda p, x: jnp.mean(jnp.tanh(x @ p["w"])), params, SGD(0.1), batch, mesh={"data": 1}
    )


def test_a_training_on_a_mesh_tells_what_its_devices_exchange() -> None:
    trainer = on_a_mesh(np.ones((8, 4), "float32"))
    found = explore(trainer).document.communication
    assert found is not None
    assert found.mesh == {"data": 1}
    assert explore(a_trainer()).document.communication is None


def test_exchanges_have_the_places_of_their_lines() -> None:
    places = Places()
    span = Span(__file__, 3, 0)
    told = TrainingExchange("all-reduce", 64, 2, ("data",), "backward", "w", span, False)
    found = _communication_of(CommunicationReport({"data": 4}, (told,)), places)
    assert found.exchanges == (Exchange("all-reduce", 64, 2, ("data",), "backward", "w", 0, False),)
    (place,) = places.places()
    assert place.line == 3


def test_exchanges_that_are_not_known_are_told_of() -> None:
    targets = [TensorType((64, 10), "float32"), TensorType((64,), "int32")]
    mod = SetupTrainer(CrossEntropyLoss(), SGD(0.1), targets, mesh={"data": 1})(cast(Any, MLP))
    trainer = Trainer(mod, VirtualMachine(build(mod)), zero_init_param_state=False)
    document = explore(trainer).document
    assert document.communication is None
    assert document.notes[-1].startswith("what the devices exchange is not known: ")


def test_nothing_to_run_is_told_of() -> None:
    document = explore(IRModule({}), profile=True).document
    assert document.profile is None
    assert document.notes == ("there is no function that could be run",)


@pytest.mark.parametrize(
    ("subject", "args", "data", "message"),
    [
        (loss, (W, X), (1,), "a loss written in JAX is run with its own arguments: leave out"),
        (module(MODEL), (), {"y": X}, "`data` has an array for `y`, but the function takes `x`"),
        (module(MODEL), (), [X] * 3, "`data` has 3 arrays, but the function takes 2: `x`, `w`"),
        (module(MODEL), (), {"x": W}, "`main_adjoint`"),
    ],
)
def test_data_that_does_not_fit_is_refused(
    subject: Any, args: Any, data: Any, message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        explore(subject, *args, numbers=True, data=data)
