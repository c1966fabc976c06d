"""Training steps of losses in JAX that are given what is wrong: the error says what."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
import pytest
from small_net import BATCH, PARAMS, loss

import relaxjax
from relaxjax.optim import SGD

WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a flag as a budget": (
        lambda: relaxjax.train_step(loss, SGD(0.1), memory_budget=True),
        "`memory_budget` is True, which is no budget: write ",
    ),
    "a flag as a budget of a gradient": (
        lambda: relaxjax.value_and_grad(loss, memory_budget=True),
        "`memory_budget` is True, which is no budget: write ",
    ),
    "a flag as a policy": (
        lambda: relaxjax.value_and_grad(loss, memory_policy=True),  # type: ignore[arg-type]
        "`memory_policy` must be the name of one, but it is True: ",
    ),
    "a text as a count of devices": (
        lambda: relaxjax.train_step(loss, SGD(0.1), devices="2"),  # type: ignore[arg-type]
        "`devices` must be an integer of at least 1, but it is '2'",
    ),
    "pairs of parameters": (
        lambda: relaxjax.train_step(loss, optax.lookahead(optax.sgd(0.1), 5, 0.5))[0](PARAMS),
        "the optimizer optax is an optax.lookahead, which steps pairs of parameters",
    ),
    "integer": (
        lambda: relaxjax.train_step(loss, SGD(0.1))[0]({"a": jnp.ones(2), "n": jnp.arange(3)}),
        (
            "params['n'] is of dtype int32, which has no gradient: parameters are of "
            "floating-point dtype; keep it in the model state"
        ),
    ),
    "complex": (
        lambda: relaxjax.train_step(loss, SGD(0.1))[0]({"z": jnp.ones(2, "complex64")}),
        (
            "params['z'] is of dtype complex64, which optimizers here do not move: give its real "
            "and its imaginary part as two parameters"
        ),
    ),
    "one array twice": (
        lambda: given_twice(lambda state: BATCH, lambda w: {**PARAMS, "w0": w, "w2": w}),
        (
            "state.params['w0'] and state.params['w2'] are one array, and a step uses up the "
            "memory of its state: give a copy of it, by `jnp.copy`"
        ),
    ),
    "the state as a batch": (
        lambda: given_twice(
            lambda state: (BATCH[0], state.params["y"]),
            lambda w: {**PARAMS, "w0": w, "y": BATCH[1] + 1},
        ),
        "state.params['y'] and batch[1] are one array",
    ),
    "another optimizer's state": (
        lambda: relaxjax.train_step(loss, optax.adam(0.1))[1](
            relaxjax.train_step(loss, optax.sgd(0.1))[0](PARAMS), BATCH
        ),
        (
            "state.opt_state[0].count is missing, which this optimizer has for such parameters: "
            "give a step the state that its own `init` began"
        ),
    ),
    "an optimizer's state of more": (
        lambda: with_opt_state(lambda own: (*own, own[0])),
        "state.opt_state[2].count is nothing that this optimizer has for such parameters",
    ),
    "an optimizer's state by other names": (
        lambda: with_opt_state(
            lambda own: (own[0]._replace(mu={"v" + n: m for n, m in own[0].mu.items()}), own[1])
        ),
        "state.opt_state[0].mu['b0'] is missing",
    ),
    "an optimizer's state as a list": (
        lambda: with_opt_state(jax.tree.leaves),
        "state.opt_state[0].count is missing",
    ),
    "an optimizer's state of other parameters": (
        lambda: with_opt_state(
            lambda own: (
                relaxjax.train_step(loss, optax.adam(0.1))[0](
                    {**PARAMS, "w1": PARAMS["w1"].T}
                ).opt_state
            )
        ),
        (
            "state.opt_state[0].mu['w1'] is of shape (3, 16), but for such parameters this "
            "optimizer has shape (16, 3) there"
        ),
    ),
    "no count of steps": (
        lambda: with_count(None),
        "state.step counts the steps by one integer, but it is None",
    ),
    "a count of steps that is no integer": (
        lambda: with_count(jnp.ones(())),
        "state.step counts the steps by one integer, but it is float32 of shape ()",
    ),
    "parameters that are gone": (
        lambda: stepped_state({**PARAMS, "w0": gone(PARAMS["w0"])}),
        "params['w0'] was given to a program that used it up, by donation, and is gone",
    ),
    "a batch that is gone": (
        lambda: stepped_state(PARAMS, (gone(BATCH[0]), BATCH[1])),
        "batch[0] was given to a program that used it up, by donation, and is gone",
    ),
    "a loss that takes a key": (
        lambda: stepped(lambda params, batch, key: loss(params, batch)),
        "the loss is called as loss(params, batch), with a model state or a random key where",
    ),
    "a derivative of a step": (
        lambda: jax.grad(
            lambda scale: stepped_state(jax.tree.map(lambda array: scale * array, PARAMS))[1]
        )(1.0),
        "a training step has no derivative: take `relaxjax.value_and_grad` of the loss",
    ),
    "a derivative by the batch": (
        lambda: jax.grad(lambda x: stepped_state(PARAMS, (x, BATCH[1]))[1])(BATCH[0]),
        "a training step has no derivative: take `relaxjax.value_and_grad` of the loss",
    ),
    "a derivative by what the loss takes from around": (
        lambda: jax.grad(lambda scale: stepped(lambda p, b: scale * loss(p, b))[1])(1.0),
        "a training step has no derivative: take `relaxjax.value_and_grad` of the loss",
    ),
    "another mode": (
        lambda: stepped(lambda params, s, batch: (loss(params, batch), ("b", None)), "a"),
        "the loss returns the model state as 'b', but it was given as 'a': a step changes arrays",
    ),
    "no array for one": (
        lambda: stepped(lambda params, s, batch: (loss(params, batch), ("b", None)), jnp.ones(2)),
        "the loss returns the model state as 'b', but it was given as an array",
    ),
    "nothing": (lambda: relaxjax.train_step(loss, SGD(0.1))[0]({}), "params has no array to train"),
    "unhashable": (
        lambda: relaxjax.train_step(loss, SGD(0.1))[0]({"a": jnp.ones(2), "s": {1, 2}}),
        "the leaf ['s'] is a set, which is no array and cannot be hashed",
    ),
    "no pytree": (
        lambda: stepped_state(PARAMS, {1, 2}),
        "what is given is a set, which is no array and cannot be hashed",
    ),
    "words for a parameter": (
        lambda: relaxjax.train_step(loss, SGD(0.1))[0]({**PARAMS, "n": [np.array(["a"])]}),
        "params['n'][0] is an array of dtype <U1, which JAX does not have: make it one of numbers",
    ),
    "objects in a batch": (
        lambda: stepped_state(PARAMS, (*BATCH, np.array([None, {}]))),
        "batch[2] is an array of dtype object, which JAX does not have",
    ),
    "a parameter of another library": (
        lambda: relaxjax.train_step(loss, SGD(0.1))[0]({**PARAMS, "w1": Foreign()}),
        "the leaf ['w1'] is a Foreign, an array of another library, which a step would take for an",
    ),
    "a batch of another library": (
        lambda: stepped_state(PARAMS, (BATCH[0], Foreign())),
        "the leaf [1] is a Foreign, an array of another library",
    ),
    "a number as a key": (
        lambda: relaxjax.train_step(loss, SGD(0.1))[0](PARAMS, key=3),
        "`key` must be one key such as jax.random.key(0), but it is 3",
    ),
    "two keys": (
        lambda: relaxjax.train_step(loss, SGD(0.1))[0](
            PARAMS, key=jax.random.split(jax.random.key(0))
        ),
        "must be one key such as jax.random.key(0), but it is of dtype key<fry> and shape (2,)",
    ),
    "a budget and a policy": (
        lambda: stepped_state(PARAMS, memory_budget="50%", memory_policy="free"),
        "a memory budget and a memory policy are given, but a plan goes by one of them: leave the",
    ),
    "optimizer": (
        lambda: relaxjax.train_step(loss, 0.1),
        (
            "the optimizer must be a gradient transformation such as optax.adamw(1e-3), or one of "
            "relaxjax.optim such as Adam(1e-3), but it is 0.1"
        ),
    ),
    "loss": (
        lambda: relaxjax.train_step(1.0, SGD(0.1)),  # type: ignore[arg-type]
        "the loss must be a function of arrays, found 1.0",
    ),
    "state": (
        lambda: relaxjax.train_step(loss, SGD(0.1))[1](PARAMS, BATCH),  # type: ignore[arg-type]
        "a step takes the state that `init(params)` gives, found dict",
    ),
    "no scalar": (
        lambda: stepped(lambda params, batch: batch[0] @ params["w0"]),
        (
            "a loss must be one scalar of floating-point dtype, but the function returned "
            "float32 of shape (32, 16)"
        ),
    ),
    "no new state": (
        lambda: stepped(lambda params, state, batch: (loss(params, batch), state), jnp.ones(2)),
        (
            "a loss with a model state must return `(value, (model_state, aux))`, with None for no "
            "aux, but beside the value it returned "
        ),
    ),
    "another nesting": (
        lambda: stepped(lambda params, s, batch: (loss(params, batch), ([s], None)), jnp.ones(2)),
        (
            "the loss returns a model state nested as PyTreeDef([*]), but it was given one nested "
            "as PyTreeDef(*): a step must leave that as it is"
        ),
    ),
    "another type": (
        lambda: stepped(
            lambda params, s, batch: (loss(params, batch), ({"m": s["m"][:1]}, None)),
            {"m": jnp.ones(2)},
        ),
        (
            "the loss returns the model state['m'] as float32 of shape (1,), but it was given as "
            "float32 of shape (2,)"
        ),
    ),
}


def given_twice(batch: Callable[[Any], Any], params: Callable[[Any], Any]) -> Any:
    init, step = relaxjax.train_step(loss, SGD(0.1))
    own = jax.tree.map(jnp.copy, PARAMS)
    state = replace(init(own), params=params(own["w0"]))
    return step(state, batch(state))


def stepped_state(params: Any, batch: Any = BATCH, **options: Any) -> Any:
    init, step = relaxjax.train_step(loss, SGD(0.1), **options)
    return step(init(params), batch)


def with_opt_state(change: Callable[[Any], Any]) -> Any:
    init, step = relaxjax.train_step(loss, optax.adam(0.1))
    state = init(PARAMS)
    return step(replace(state, opt_state=change(state.opt_state)), BATCH)


def with_count(count: Any) -> Any:
    init, step = relaxjax.train_step(loss, SGD(0.1))
    return step(replace(init(PARAMS), step=count), BATCH)


def gone(array: Any) -> Any:
    """A copy of an array, whose memory a program took."""
    copy = jnp.array(array)
    copy.delete()
    return copy


class Foreign:
    """An array as other libraries have them, which JAX does not take."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.ones(2, dtype or "float32")


def stepped(loss: Callable[..., Any], *states: Any) -> Any:
    init, step = relaxjax.train_step(loss, SGD(0.1))
    return step(init(PARAMS, *states), BATCH)


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_what_is_wrong(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises((TypeError, ValueError, RuntimeError), match=re.escape(message)):
        call()
