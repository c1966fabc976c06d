"""What a trainer of a loss in JAX refuses: the loss, its arguments, and what is asked of it."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.tree_util import Partial
from losses_to_train import BATCH, PARAMS, QUIET, loss, plain

from relaxjax import Trainer
from relaxjax.training import accuracy, evaluate

pytestmark = pytest.mark.usefixtures("quickly_compiled")


def of_donated() -> Trainer:
    given = jax.tree.map(jnp.copy, PARAMS)
    jax.block_until_ready(jax.jit(lambda p: p, donate_argnums=0, keep_unused=True)(given))
    for array in jax.tree.leaves(given):
        array.delete()
    return Trainer.from_jax(loss, given, optax.sgd(0.1), BATCH)


def updated(trainer: Trainer, x: Any) -> Any:
    return trainer.update({**BATCH, "x": x})


def with_a_leak() -> Trainer:
    leaked: list[Any] = []
    jax.jit(leaked.append)(1.0)
    return Trainer.from_jax(
        lambda params, batch: loss(params, batch) * leaked[0], PARAMS, optax.sgd(0.1), BATCH
    )


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "not scalar": (
        lambda: Trainer.from_jax(lambda p, b: b["x"] @ p["w0"], PARAMS, optax.sgd(0.1), BATCH),
        TypeError,
        (
            "a loss must be one scalar of floating-point dtype, but the function returned float32 "
            "of shape (32, 16)"
        ),
    ),
    "integers": (
        lambda: Trainer.from_jax(loss, {**PARAMS, "n": jnp.arange(3)}, optax.sgd(0.1), BATCH),
        TypeError,
        "params['n'] is of dtype int32, which has no gradient",
    ),
    "optimizer": (
        lambda: Trainer.from_jax(loss, PARAMS, 0.1, BATCH),
        TypeError,
        "the optimizer must be a gradient transformation such as optax.adamw(1e-3)",
    ),
    "budget": (
        lambda: Trainer.from_jax(loss, PARAMS, optax.sgd(0.1), BATCH, memory_budget=True),
        TypeError,
        "`memory_budget` is True, which is no budget: write ",
    ),
    "mesh": (
        lambda: Trainer.from_jax(loss, PARAMS, optax.sgd(0.1), BATCH, mesh=[4]),  # type: ignore[arg-type]
        TypeError,
        "a mesh is a jax.sharding.Mesh, or the sizes of its axes such as",
    ),
    "an optimizer of another tree": (
        lambda: Trainer.from_jax(
            loss, PARAMS, optax.masked(optax.sgd(0.1), {"w0": True, "other": False}), BATCH
        ),
        ValueError,
        "the optimizer optax cannot begin with the parameters",
    ),
    "loss": (
        lambda: Trainer.from_jax(1.0, PARAMS, optax.sgd(0.1), BATCH),  # type: ignore[arg-type]
        TypeError,
        "the loss must be a function of arrays, found 1.0",
    ),
    "forward": (
        lambda: plain(forward=3),
        TypeError,
        "`forward` must be a function of parameters and inputs, found 3",
    ),
    "evaluation": (
        lambda: plain(evaluation=3),
        TypeError,
        "`evaluation` must be a function of parameters and a batch, found 3",
    ),
    "an evaluation of many numbers": (
        lambda: plain(evaluation=lambda params, batch: batch["x"]),
        TypeError,
        "a loss must be one scalar of floating-point dtype, but the function returned float32",
    ),
    "two arguments of an evaluation": (
        lambda: plain(evaluation=lambda params, batch: 1.0).evaluate(BATCH["x"], BATCH["y"]),
        TypeError,
        "a trainer from JAX takes a batch as one argument, nested as the example",
    ),
    "how to roll": (
        lambda: plain(roll_blocks="yes"),
        ValueError,
        "`roll_blocks` must be True, False or \"auto\", found 'yes'",
    ),
    "how to scale": (
        lambda: plain(loss_scale=-1),
        ValueError,
        '`loss_scale` must be "dynamic", a positive number or None, but it is -1',
    ),
    "no flag": (
        lambda: plain(has_aux="no"),
        TypeError,
        "`has_aux` must be True or False, but it is 'no'",
    ),
    "a leaf of another shape": (
        lambda: plain().update({**BATCH, "y": BATCH["y"][:7]}),
        ValueError,
        (
            "batch['y'] is of shape (7, 3), but that of the example is of shape (32, 3): a trainer "
            "has one program, for batches like its example; leave out a smaller last one"
        ),
    ),
    "stacked batches of another shape": (
        lambda: plain().update_many(jax.tree.map(lambda array: array[None, :5], BATCH)),
        ValueError,
        "batch['x'] of several batches is of shape (1, 5, 8), but that of the example is of shape",
    ),
    "one batch for several": (
        lambda: plain().update_many(BATCH),
        ValueError,
        "of shape (32, 8): it is one batch; stack several along a new first dimension, as by",
    ),
    "a leaf that is missing": (
        lambda: plain().update({"x": BATCH["x"]}),
        ValueError,
        (
            "a batch is nested as the example was that the trainer was made with, PyTreeDef({'x': "
            "*, 'y': *}), but batch['y'] is missing"
        ),
    ),
    "a list for an array": (
        lambda: plain().update({**BATCH, "y": BATCH["y"].tolist()}),
        ValueError,
        (
            "but batch['y'] is a list of 32, where the example had an array: make it one, by "
            "numpy.asarray"
        ),
    ),
    "an empty list for an array": (
        lambda: plain().fit([{**BATCH, "y": []}], reporter=QUIET),
        ValueError,
        "but batch['y'] is a list of 0, where the example had an array: make it one",
    ),
    "None for an array": (
        lambda: plain().evaluate({**BATCH, "y": None}),
        ValueError,
        "but batch['y'] is None, where the example had an array: give one",
    ),
    "an array for a whole batch": (
        lambda: plain().update(BATCH["x"]),
        ValueError,
        "but batch is an array, where the example had a dict of 2: nest it alike",
    ),
    "a leaf more": (
        lambda: plain().fit([{**BATCH, "z": 1.0}], reporter=QUIET),
        ValueError,
        "but batch['z'] is none of its leaves",
    ),
    "a tuple for a list": (
        lambda: Trainer.from_jax(
            lambda p, b: loss(p, {"x": b[0], "y": b[1]}),
            PARAMS,
            optax.sgd(0.1),
            list(BATCH.values()),
        ).update(tuple(BATCH.values())),
        ValueError,
        "PyTreeDef([*, *]), but batch is a tuple of 2, where the example had a list of 2: nest it",
    ),
    "another function": (
        lambda: Trainer.from_jax(
            lambda p, b: loss(p, b), PARAMS, optax.sgd(0.1), {**BATCH, "of": Partial(min)}
        ).update({**BATCH, "of": Partial(max)}),
        ValueError,
        "but it is PyTreeDef({'of': CustomNode(Partial[",
    ),
    "another option": (
        lambda: Trainer.from_jax(
            lambda p, b: loss(p, b), PARAMS, optax.sgd(0.1), {**BATCH, "mode": "a"}
        ).update({**BATCH, "mode": "b"}),
        ValueError,
        "batch['mode'] is 'b', but the example had 'a' there",
    ),
    "two arguments": (
        lambda: plain().update(BATCH["x"], BATCH["y"]),
        TypeError,
        "a trainer from JAX takes a batch as one argument, nested as the example",
    ),
    "no forward function": (
        lambda: plain().predict(BATCH["x"]),
        TypeError,
        "a loss does not tell what its model predicts: give Trainer.from_jax the model by forward=",
    ),
    "accuracy": (
        lambda: accuracy(plain(), [BATCH]),
        TypeError,
        "the metric `accuracy` compares scores with classes, and of a loss from JAX nobody knows",
    ),
    "no batches": (lambda: evaluate(plain(), [], []), ValueError, "there is nothing to measure on"),
    "donated arrays": (of_donated, RuntimeError, "params['b0'] was given to a program that used"),
    "a pattern without a list": (
        lambda: plain(trainable="w*"),
        TypeError,
        "`trainable` is 'w*': write it as a list of patterns for names, such as ['w*']",
    ),
    "a scale of the loss": (
        lambda: plain(loss_scale="dyn"),
        ValueError,
        "`loss_scale` must be \"dynamic\", a positive number or None, but it is 'dyn'",
    ),
    "a loss that takes no key": (
        lambda: plain(key=jax.random.key(0)),
        TypeError,
        "the loss is called as loss(params, batch, key), with a model state or a random key where",
    ),
    "a batch that is traced": (
        lambda: jax.jit(partial(updated, plain()))(BATCH["x"]),
        TypeError,
        "so it takes no batch that JAX traces",
    ),
    "a derivative by the batch": (
        lambda: jax.grad(partial(updated, plain()))(BATCH["x"]),
        TypeError,
        "so it takes no batch that JAX traces",
    ),
    "shapes alone": (
        lambda: Trainer.from_jax(
            loss, jax.eval_shape(lambda: PARAMS), optax.sgd(0.1), jax.eval_shape(lambda: BATCH)
        ),
        TypeError,
        "params['b0'] is a jax.ShapeDtypeStruct, which has no numbers to compute with",
    ),
    "inside of jit": (
        lambda: jax.jit(
            lambda params: Trainer.from_jax(loss, params, optax.sgd(0.1), BATCH).update(BATCH)
        )(PARAMS),
        TypeError,
        "Trainer.from_jax cannot be called inside of what JAX traces, such as jax.jit",
    ),
    "a masked array": (
        lambda: plain().update({**BATCH, "y": np.ma.masked_array(BATCH["y"], BATCH["y"] > 0)}),
        TypeError,
        "batch['y'] is a masked array, whose mask would be lost",
    ),
    "times": (
        lambda: plain().update({**BATCH, "y": np.zeros(np.shape(BATCH["y"]), "datetime64[s]")}),
        TypeError,
        "no numbers of one dtype: an array of them has dtype datetime64[s]",
    ),
    "an example with words": (
        lambda: Trainer.from_jax(loss, PARAMS, optax.sgd(0.1), {**BATCH, "s": [np.array(["a"])]}),
        TypeError,
        "batch['s'][0] is an array of dtype <U1, which JAX does not have: make it one of numbers",
    ),
    "a number as a key": (
        lambda: Trainer.from_jax(loss, PARAMS, optax.sgd(0.1), BATCH, key=3),
        TypeError,
        "`key` must be one key such as jax.random.key(0), but it is 3",
    ),
    "an array that is traced": (
        with_a_leak,
        TypeError,
        "the loss uses an array from around it that JAX is tracing",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_what_is_wrong(name: str) -> None:
    make, kind, message = WRONG[name]
    with pytest.raises(kind, match=re.escape(message)):
        make()
