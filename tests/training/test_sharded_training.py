"""Trainings on eight devices, in a process of its own, against the same on one.

All dtypes of all models are tried if `RELAXJAX_FULL` is set.
"""

import pytest
from full import FULL
from several_devices import printed_lines
from spread_models import MODELS

PROGRAM = """
import jax
import numpy as np
from spread_models import MODELS, state_bytes

jax.config.update("jax_enable_x64", {dtype!r} == "float64")
jax.config.update("jax_disable_most_optimizations", True)
model = MODELS[{name!r}]({dtype!r})
alone, expected = model.losses(20)
first, later = (1e-9, 1e-9) if {dtype!r} == "float64" else (1e-5, 1e-3)


def compare(**options):
    trainer, losses = model.losses(20, **options)
    apart = abs(losses - expected)
    assert apart[0] < first, apart
    assert apart.max() < later, apart
    assert len(trainer.export_params()["{param}"].sharding.device_set) == 8
    return state_bytes(alone) / state_bytes(trainer)


print(round(compare(devices=8), 1))
print(7.6 < compare(mesh={{"data": 8}}, sharding="fsdp") <= 8)
print(1 < compare(mesh={{"data": 4, "model": 2}}, sharding=model.mixed) <= 2)
"""
# One of the parameters of each.
PARAMS = {"layers": "w0", "images": "k", "gpt": "params_table", "lstm": "params_h"}
PARAMS |= {"experts": "params_widen", "recommender": "params_users"}
CASES = [(name, dtype) for dtype in ("float64", "float32") for name in MODELS]
SOME = [("layers", "float32"), ("experts", "float32")]


@pytest.mark.parametrize(("name", "dtype"), CASES if FULL else SOME)
def test_losses_are_those_of_one_device_and_each_has_its_share(name: str, dtype: str) -> None:
    program = PROGRAM.format(name=name, dtype=dtype, param=PARAMS[name])
    assert printed_lines(program, 8) == ["1.0", "True", "True"]


RESIDUAL = """
import jax
import numpy as np
import optax
from relaxjax.training import Trainer
from whole_residual_models import resnet18

jax.config.update("jax_disable_most_optimizations", True)
model = resnet18("float32", (8, 8, 16, 16), batch=16, size=16, classes=8, stem_size=3)
expected = None
for options in ({}, {"devices": 8}, {"devices": 8, "sharding": "fsdp"}):
    trainer = Trainer.from_jax(
        lambda params, batch: model.plain(*params, *batch),
        model.params, optax.sgd(0.01, 0.9), model.inputs, **options,
    )
    losses = np.array([trainer.update(model.inputs) for _ in range(5)])
    expected = losses if expected is None else expected
    assert abs(losses[0] - expected[0]) < 1e-5, losses - expected
    print(abs(losses - expected).max() < 1e-3, losses[-1] < losses[0])
"""


@pytest.mark.skipif(not FULL, reason="three steps of ResNet-18 are compiled: RELAXJAX_FULL=1")
def test_a_residual_network_trains_as_on_one_device() -> None:
    """Its statistics are those of the whole batch, of which each device has two images."""
    assert printed_lines(RESIDUAL, 8) == ["True True"] * 3
