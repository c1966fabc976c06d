"""NaN and infinities in a training: what notices them, and what is blamed."""

import inspect
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from small_models import batch, classifier, trainer_of

from relaxjax import TensorType, from_source
from relaxjax.losses import MSELoss
from relaxjax.optim import SGD, Adam
from relaxjax.training import Callback, Lines, NumericsError, Trainer

QUIET = Lines(lambda line: None)
SCRIPT = """
@I.ir_module
class Model:
    I.module_attrs({"param_num": 1, "state_num": 0})

    @R.function
    def backbone(x: R.Tensor((3,), "float32"), w: R.Tensor((3,), "float32")):
        with R.dataflow():
            scaled = R.multiply(x, w)
            root = R.sqrt(scaled)
            out = R.multiply(root, root)
            R.output(out)
        return out
"""
VALUES = TensorType((3,), "float32")
ONES, ZEROS = np.ones(3, "float32"), np.zeros(3, "float32")
BELOW = np.array([1, -1, 1], "float32")


def trainer(**options: Any) -> Trainer:
    backbone: Any = from_source(SCRIPT, file="model.py")
    made = trainer_of(backbone, MSELoss(), SGD(0.01), VALUES, VALUES, **options)
    made.load_params([ONES])
    return made


def fit(made: Trainer, batches: list[Any], **options: Any) -> None:
    made.fit(batches, 1, reporter=QUIET, check_numerics=True, **options)


def test_where_all_is_well_the_steps_are_those_without_the_check() -> None:
    plain, checked = classifier(Adam(0.1)), classifier(Adam(0.1))
    data = [batch(seed) for seed in range(20)]
    expected = plain.fit(data, 2, reporter=QUIET)
    found = checked.fit(data, 2, reporter=QUIET, check_numerics=True)
    assert [report.loss for report in found] == pytest.approx([r.loss for r in expected], rel=1e-6)
    one, other = plain.export_params(), checked.export_params()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("steps_per_call", [1, 2, 3])
def test_the_error_names_the_step_the_binding_and_the_line(steps_per_call: int) -> None:
    made = trainer()
    batches = [(ONES, ZEROS)] * 4 + [(BELOW, ZEROS)] + [(ONES, ZEROS)] * 3
    with pytest.raises(NumericsError) as caught:
        fit(made, batches, steps_per_call=steps_per_call)
    text = str(caught.value)
    assert text.startswith("step 5: the loss is nan\n  `")
    assert "1 of its 3 values are NaN\n    = L.sqrt(" in text
    assert "in `backbone_loss_adjoint`" in text
    assert "at model.py:10:13" in text


def test_the_trainer_keeps_the_state_of_before_the_bad_step() -> None:
    made, healthy = trainer(), trainer()
    good = [(ONES, ZEROS)] * 2
    with pytest.raises(NumericsError, match="step 3:"):
        fit(made, [*good, (BELOW, ZEROS), *good])
    fit(healthy, good)
    np.testing.assert_array_equal(made.export_params()["w"], healthy.export_params()["w"])


def test_a_gradient_alone_may_be_bad() -> None:
    """The root is 0 where its derivative is infinite, and 0 times that is NaN."""
    match = r"step 1: the loss is 0.66\d+, a gradient is not finite\n(.|\n)*for the derivative of"
    with pytest.raises(NumericsError, match=match):
        fit(trainer(), [(np.array([1, 0, 1], "float32"), ZEROS)])


def test_an_infinity_before_a_nan_is_named_too() -> None:
    made = trainer()
    made.load_params([ONES * 10])
    with pytest.raises(NumericsError) as caught:
        made.check_numerics(np.array([1, 3e38, 1], "float32"), ZEROS)
    first, *others = str(caught.value).splitlines()
    assert first == "  `scaled`: 1 of its 3 values are infinite"
    assert sum("1 of its 3 values are NaN" in line for line in others) == 1


def test_a_bad_batch_is_named_as_such() -> None:
    match = r"step 1: the loss is nan\n  the argument `x`: 1 of its 3 values are NaN"
    with pytest.raises(NumericsError, match=match):
        fit(trainer(), [(np.array([1, np.nan, 1], "float32"), ZEROS)])


def test_a_bad_parameter_is_named_as_such() -> None:
    made = trainer()
    made.load_params([np.array([1, np.inf, 1], "float32")])
    with pytest.raises(NumericsError, match="the argument `w`: 1 of its 3 values are infinite"):
        made.check_numerics(ONES, ZEROS)


def test_a_sound_batch_passes() -> None:
    trainer().check_numerics(ONES, ZEROS)
    trainer(loss_scale="dynamic").check_numerics(ONES, ZEROS)


def test_a_batch_that_was_changed_since_is_said() -> None:
    """A list is taken to stay as it is; of what a loader gives, the step has a copy."""
    x = BELOW.copy()

    class Changing(Callback):
        def step(self, step: int, loss: Any) -> None:
            np.asarray(loss)  # the step has read the batch
            x[:] = 1

    options: Any = {"reporter": QUIET, "check_numerics": True, "callbacks": [Changing()]}
    match = "step 1: the loss is nan; run again binding by binding, all of it is finite: the batch"
    with pytest.raises(NumericsError, match=match):
        trainer().fit([(x, ZEROS)], 1, **options)
    x[:] = BELOW
    with pytest.raises(NumericsError, match="step 1: the loss is nan\n  `root`: 1 of its 3 values"):
        trainer().fit(iter([(x, ZEROS)]), 1, **options)


def test_flags_are_read_in_the_middle_of_an_epoch_too() -> None:
    seen = []

    def endless(epoch: int) -> Any:
        for number in range(1000):
            seen.append(number)
            yield (BELOW, ZEROS)

    with pytest.raises(NumericsError, match="step 1:"):
        trainer().fit(endless, 1, reporter=QUIET, check_numerics=True)
    assert len(seen) < 40


@pytest.mark.parametrize(("loss_scale", "fails"), [("dynamic", False), (2.0**127, True)])
def test_loss_scaling_may_leave_out_steps(loss_scale: Any, fails: bool) -> None:
    """Where it can lower the scale, gradients that are not finite are its own affair."""
    made = trainer(loss_scale=loss_scale)
    batches = [(ONES * 100, -ONES * 1e4)] * 2
    if loss_scale == "dynamic":
        made._load(made.layout.optimizer, [np.float32(2.0**127), *made._state.optimizer[1:]])
        fit(made, batches)
        assert made.loss_scale == 2.0**125
    else:
        with pytest.raises(NumericsError, match=r"step 1: the loss is 1.*a gradient is not finite"):
            fit(made, batches)
    assert fails == (loss_scale != "dynamic")


def test_a_batch_of_which_nothing_counts_is_named() -> None:
    x, labels = batch(0)
    match = "all of `targets` is -100, which counts for nothing, and the mean over none is NaN: "
    with pytest.raises(NumericsError, match=match):
        classifier().check_numerics(x, np.full_like(labels, -100))
    with pytest.raises(NumericsError, match=r"^(?!.*counts for nothing)"):
        fit(classifier(), [(x * np.nan, labels)])


def stepping(p: Any, x: Any) -> Any:
    def step(carry: Any, shift: Any) -> Any:
        lower = carry * p - shift
        return jnp.sqrt(lower), None  # of a number below 0 in the last step

    return jnp.sum(lax.scan(step, x, jnp.array([0, 0, 2.0]))[0])


def repeated(p: Any, x: Any) -> Any:
    def step(x: Any) -> Any:
        return x + jnp.log(x - 2)  # of a number below 0

    return jnp.sum(p * lax.while_loop(lambda x: jnp.all(x < 3), step, lax.stop_gradient(x)))


def in_parts(p: Any, x: Any) -> Any:
    return jnp.mean(jnp.log(jnp.mean(p) - x))  # of 0


def at_zero(p: Any, x: Any) -> Any:
    def step(carry: Any, _: Any) -> Any:
        return jnp.sqrt(carry * p), None  # whose derivative is infinite

    return jnp.sum(lax.scan(step, x - 1, None, length=2)[0])


@pytest.mark.parametrize(
    ("loss", "wanted", "accumulate"),
    [
        (stepping, "4 of its 4 values are NaN\n    = L.sqrt(lower)", 1),
        (repeated, "4 of its 4 values are NaN\n    = L.log(", 1),
        (in_parts, "2 of its 2 values are infinite\n    = L.log(", 2),
        (at_zero, "4 of its 4 values are infinite\n    = L.div(", 1),
    ],
)
def test_what_is_bad_in_a_loop_is_named_by_its_line_there(
    loss: Any, wanted: str, accumulate: int
) -> None:
    ones = jnp.ones(4)
    made = Trainer.from_jax(loss, ones, optax.sgd(0.1), ones, accumulate=accumulate)
    with pytest.raises(NumericsError) as caught:
        made.check_numerics(ones)
    text = str(caught.value)
    assert wanted in text
    lines, first = inspect.getsourcelines(loss)
    bad = next(place for place, line in enumerate(lines) if "# " in line)
    assert f"test_numerics.py:{first + bad}:" in text.split("  `")[1]
