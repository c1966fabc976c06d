"""A training step that the device has no memory for: what was asked for, and what to try.

The shapes are beyond the addresses that a process has, so that each platform fails at once.
"""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.errors import JaxRuntimeError

import relaxjax
from relaxjax import Trainer
from relaxjax.autodiff.out_of_memory import ToldOfMemory
from relaxjax.training import Lines, OutOfMemoryError

pytestmark = pytest.mark.usefixtures("quickly_compiled")

# Newer compilers end the process where a product has many more numbers than that.
SAMPLES = 2**17 if jax.__version_info__ >= (0, 12) else 2**23
BATCH = np.zeros((SAMPLES, 2), "float32")
QUIET = Lines(lambda line: None)


def loss(w: Any, batch: Any) -> Any:
    scores = batch @ w
    return jnp.mean(jnp.tanh(scores @ scores.T) ** 2)


def of_huge_scores() -> Trainer:
    return Trainer.from_jax(loss, jnp.eye(2), optax.sgd(0.1), BATCH)


def test_fit_says_what_was_asked_for_and_where_it_goes() -> None:
    trainer = of_huge_scores()
    with pytest.raises(OutOfMemoryError) as caught:
        trainer.fit([BATCH], reporter=QUIET)
    message, peak = str(caught.value), trainer.memory().peak
    assert peak >= 4 * SAMPLES**2
    assert re.search(r"XLA asked for \d+\.\d GiB \(\d[\d,]+ bytes\) at once\. As planned", message)
    assert f"a step holds {peak / 2**30:.1f} GiB beside its arguments and results" in message
    assert f"test_out_of_memory.py:{loss.__code__.co_firstlineno + 2}" in message
    assert isinstance(caught.value.__cause__, JaxRuntimeError)


def test_a_step_says_it_before_its_loss_is_read() -> None:
    with pytest.raises(OutOfMemoryError, match=r"XLA asked for .* none can need less than"):
        of_huge_scores().update(BATCH)


def small_trainer(**options: Any) -> Trainer:
    def deep(w: Any, batch: Any) -> Any:
        for _ in range(8):
            batch = jnp.tanh(batch @ w)
        return jnp.mean(batch**2)

    return Trainer.from_jax(deep, jnp.eye(64), optax.sgd(0.1), jnp.ones((2**13, 64)), **options)


def test_the_budget_to_try_can_be_kept() -> None:
    report = small_trainer().memory()
    said = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 123456 bytes."
    expected = pytest.raises(OutOfMemoryError, match=r"120\.6 KiB \(123,456 bytes\)")
    with expected as caught, ToldOfMemory(lambda: report):
        raise JaxRuntimeError(said)
    found = re.search(r'Try memory_budget=("\d+MiB"), or smaller batches', str(caught.value))
    assert found is not None
    planned = small_trainer(memory_budget=found[1].strip('"')).memory()
    assert planned.budget is not None
    assert planned.bytes_by_xla <= planned.budget <= 0.9 * report.peak


def test_other_errors_stay_as_they_are() -> None:
    expected = pytest.raises(JaxRuntimeError, match=r"^INVALID_ARGUMENT: no$")
    with expected, ToldOfMemory(lambda: pytest.fail("nobody asks")):
        raise JaxRuntimeError("INVALID_ARGUMENT: no")


def test_a_step_of_ones_own_loop_says_it_too() -> None:
    init, step = relaxjax.train_step(loss, optax.sgd(0.1))
    state = init(jnp.eye(2))
    with pytest.raises(OutOfMemoryError, match=r"none can need less than \d+\.\d GiB"):
        step(state, BATCH)
