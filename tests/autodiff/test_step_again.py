"""A step on a state like one before: what is known of that is taken, and nothing that is not."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import Mock

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from adjoint_checks import signed_array

import relaxjax
from relaxjax.autodiff import step_again
from relaxjax.autodiff.train_step import TrainStep


@jax.tree_util.register_pytree_with_keys_class
@dataclass(frozen=True)
class Layer:
    """A module with an option and a function among its leaves, as those of equinox."""

    weight: Any
    rate: float = 0.5
    activation: Callable[..., Any] = jnp.tanh

    def tree_flatten_with_keys(self) -> Any:
        names = "weight", "rate", "activation"
        keyed = [(jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in names]
        return keyed, None

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> "Layer":
        return cls(*children)


def loss(params: Any, batch: Any) -> Any:
    inputs, scale = batch
    layer = params["layer"]
    return jnp.mean(layer.activation(inputs @ layer.weight) ** 2) * scale * layer.rate


def stateful(params: Any, state: Any, batch: Any, key: Any) -> Any:
    inputs, scale = batch
    noise = jax.random.normal(key, inputs.shape)
    mean = 0.9 * state["mean"] + 0.1 * inputs.mean(0)
    value = jnp.mean(((inputs + noise - mean[None]) @ params["layer"].weight) ** 2) * scale
    return value, ({"mean": mean, "name": state["name"]}, {"noise": noise.sum()})


def params(rate: float = 0.5) -> Any:
    return {"layer": Layer(signed_array(4, 3), rate)}


def batch(rows: int = 5, seed: int = 2) -> Any:
    return signed_array(rows, 4, seed=seed), 2.0


@pytest.fixture
def firsts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The batches of those steps of which nothing was known."""
    found = list[Any]()
    first = TrainStep._first

    def noted(self: TrainStep, state: Any, batch: Any, call: Any) -> Any:
        found.append(batch)
        return first(self, state, batch, call)

    monkeypatch.setattr(TrainStep, "_first", noted)
    return found


def begun(tx: Any = None, **given: Any) -> tuple[TrainStep, Any]:
    init, step = relaxjax.train_step(loss, optax.adam(0.1) if tx is None else tx)
    return step, init(params(**given))


def test_a_model_state_a_key_and_what_is_beside_the_loss(firsts: list[Any]) -> None:
    found = []
    for is_known in (True, False):
        init, step = relaxjax.train_step(stateful, optax.adam(0.1), has_aux=True)
        begin = {"mean": jnp.zeros(4), "name": "mean"}
        state = init(params(), model_state=begin, key=jax.random.key(0))
        values = []
        for seed in range(3):
            if not is_known:
                step._again.clear()
            state, value = step(state, batch(seed=seed))
            values.append(value)
        found.append((values, replace(state, key=jax.random.key_data(state.key))))
    assert len(firsts) == 1 + 3
    chex.assert_trees_all_equal(*found)


def test_options_stay_and_each_other_one_is_a_first_step(firsts: list[Any]) -> None:
    step, state = begun()
    for _ in range(2):
        state, _ = step(state, batch())
    assert state.params["layer"].activation is jnp.tanh
    assert len(firsts) == 1
    whole = replace(state, params={"layer": replace(state.params["layer"], rate=1.0)})
    expected = loss(whole.params, batch())
    state, value = step(whole, batch())
    chex.assert_trees_all_close(value, expected, rtol=1e-6)
    assert (len(firsts), state.params["layer"].rate) == (2, 1.0)


def test_batches_of_other_kinds_are_first_steps_once_each(firsts: list[Any]) -> None:
    step, state = begun(optax.sgd(0.1))
    inputs, scale = batch()
    kinds = [batch(), batch(rows=6), (np.asarray(inputs), scale), (inputs, np.float32(scale))]
    for _ in range(2):
        for one in kinds:
            expected = loss(state.params, one)
            state, value = step(state, one)
            chex.assert_trees_all_close(value, expected, rtol=1e-6)
    assert len(firsts) == len(kinds)


def test_one_array_at_two_places_of_a_batch(firsts: list[Any]) -> None:
    init, step = relaxjax.train_step(
        lambda params, batch: jnp.mean((batch[0] @ params - batch[1]) ** 2), optax.sgd(0.1)
    )
    state, inputs = init(signed_array(4, 4)), batch()[0]
    for _ in range(2):
        state, _ = step(state, (inputs, inputs))
    assert len(firsts) == 1


def test_parameters_that_were_put_in_are_those_that_are_moved(firsts: list[Any]) -> None:
    step, state = begun(optax.sgd(0.1))
    state, _ = step(state, batch())
    weight = signed_array(4, 3, seed=9)
    expected = loss({"layer": Layer(weight)}, batch())
    put = {"layer": replace(state.params["layer"], weight=jnp.array(weight))}
    state, value = step(replace(state, params=put), batch())
    chex.assert_trees_all_close(value, expected, rtol=1e-6)
    wide = {"layer": replace(state.params["layer"], weight=signed_array(4, 6))}
    state, _ = step(replace(state, params=wide), batch())
    assert (len(firsts), state.params["layer"].weight.shape) == (2, (4, 6))


def test_arrays_put_into_the_dicts_of_the_last_state(firsts: list[Any]) -> None:
    step, state = begun(optax.sgd(0.1))
    for _ in range(2):
        state, _ = step(state, batch())
    for weight in (signed_array(4, 3, seed=9), np.asarray(signed_array(4, 6))):
        state.params["layer"] = replace(state.params["layer"], weight=weight)
        expected = loss(state.params, batch())
        state, value = step(state, batch())
        chex.assert_trees_all_close(value, expected, rtol=1e-6)
    assert (len(firsts), state.params["layer"].weight.shape) == (2, (4, 6))


def test_a_state_that_nobody_has_is_freed() -> None:
    step, state = begun(optax.sgd(0.1))
    for _ in range(3):
        state, _ = step(state, batch())
    weight = weakref.ref(state.params["layer"].weight)
    del state
    assert weight() is None


def test_another_precision_is_a_first_step(firsts: list[Any]) -> None:
    step, state = begun(optax.sgd(0.1))
    for precision in (None, None, "highest", "highest"):
        with jax.default_matmul_precision(precision) if precision else jax.enable_x64(False):
            state, _ = step(state, batch())
    assert len(firsts) == 2


def test_keys_of_an_optimizer_are_taken_as_at_first(firsts: list[Any]) -> None:
    tx = optax.noisy_sgd(0.1, key=jax.random.key(3))
    step, state = begun(tx)
    keys = []
    for _ in range(2):
        state, _ = step(state, batch())
        (key,) = (x for x in jax.tree.leaves(state.opt_state) if step_again.has_keys(x))
        keys.append(str(jax.random.key_data(key)))
    assert len(firsts) == 2
    assert len({*keys}) == 2


def test_kinds_beyond_the_most_are_asked_anew(
    firsts: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_again.Again, "most", 1)
    step, state = begun(optax.sgd(0.1))
    for rows in (5, 6, 5, 6):
        state, _ = step(state, batch(rows=rows))
    assert len(firsts) == 3


def test_what_is_wrong_is_told_as_at_first(firsts: list[Any]) -> None:
    step, first = begun(optax.sgd(0.1))
    state, _ = step(first, batch())
    state, _ = step(state, batch())
    assert len(firsts) == 1
    weight = state.params["layer"].weight
    wrong = {
        "given to a step before": (first, batch()),
        "which has no numbers to compute with": (
            state,
            (jax.ShapeDtypeStruct((5, 4), "float32"), 2.0),
        ),
        "are one array": (replace(state, step=weight), batch()),
        "takes the state that `init": (weight, batch()),
    }
    for message, arguments in wrong.items():
        with pytest.raises((RuntimeError, TypeError, ValueError), match=message):
            step(*arguments)
    state, _ = step(state, batch())
    assert int(state.step) == 3


def test_a_step_is_traced_where_jax_traces_it(firsts: list[Any]) -> None:
    step, state = begun(optax.sgd(0.1))
    state, _ = step(state, batch())
    leaves, tree = jax.tree.flatten(state)

    def value(weight: Any, inputs: Any) -> Any:
        put = [weight if leaf is state.params["layer"].weight else leaf for leaf in leaves]
        return step(jax.tree.unflatten(tree, put), (inputs, 2.0))[1]

    given = jnp.copy(state.params["layer"].weight), batch()[0]
    chex.assert_trees_all_close(jax.jit(value)(*given), step(state, batch())[1], rtol=1e-6)
    assert len(firsts) == 2


def plain(params: Any, mean: Any, batch: Any, key: Any) -> Any:
    noise = jax.random.normal(key, batch.shape)
    value = jnp.mean(((batch + noise - mean) @ (params["w"] + params["v"])) ** 2)
    return value, (0.9 * mean + 0.1 * batch.mean(0, keepdims=True), {"noise": noise.sum()})


def begun_plain() -> tuple[TrainStep, Any]:
    init, step = relaxjax.train_step(plain, optax.adam(0.1), has_aux=True)
    given = {"w": signed_array(4, 3), "v": signed_array(4, 3, seed=7)}
    key = jax.random.key_data(jax.random.key(0))
    return step, init(given, model_state=jnp.zeros((1, 4)), key=key)


def test_jax_takes_a_state_of_arrays_alone_as_it_is_nested(
    firsts: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_again, "_by_leaves", lambda *_: pytest.fail("it is taken apart"))
    found = []
    for is_known in (True, False):
        step, state = begun_plain()
        values = []
        for seed in range(3):
            if not is_known:
                step._again.clear()
            state, value = step(state, batch(seed=seed)[0])
            values.append(value)
        found.append((state, values))
    assert len(firsts) == 1 + 3
    chex.assert_trees_all_equal(*found)


def test_what_is_wrong_with_a_state_of_arrays_alone_uses_up_nothing(firsts: list[Any]) -> None:
    step, first = begun_plain()
    state, _ = step(first, batch()[0])
    gone = first.params["w"]
    wrong = {
        "given to a step before": replace(state, params={**state.params, "w": gone}),
        "are one array": replace(state, params={**state.params, "v": state.params["w"]}),
    }
    for message, given in wrong.items():
        with pytest.raises((RuntimeError, ValueError), match=message):
            step(given, batch()[0])
    state, _ = step(state, batch()[0])
    assert (int(state.step), len(firsts)) == (2, 1 + len(wrong))


def test_numbers_are_watched_where_jax_is_told_so(firsts: list[Any]) -> None:
    step, state = begun(optax.sgd(0.1))
    state, _ = step(state, batch())
    missing = jnp.full((5, 4), jnp.nan), 2.0
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        step(state, missing)
    assert len(firsts) == 2


def test_another_state_of_the_same_batches_is_a_first_step_once(firsts: list[Any]) -> None:
    init, step = relaxjax.train_step(
        lambda params, batch: jnp.mean((batch[0] @ params["w"]) ** 2), optax.sgd(0.1)
    )
    narrow, wide = init({"w": signed_array(4, 3)}), init({"w": signed_array(4, 6)})
    for _ in range(3):
        narrow, wide = step(narrow, batch())[0], step(wide, batch())[0]
    assert len(firsts) == 2
    assert (narrow.params["w"].shape, wide.params["w"].shape) == ((4, 3), (4, 6))


def test_states_of_arrays_in_other_places_are_first_steps(firsts: list[Any]) -> None:
    init, step = relaxjax.train_step(
        lambda params, batch: jnp.mean((batch[0] @ params["w"]) ** 2), optax.sgd(0.1)
    )
    placed = jax.device_put(init({"w": signed_array(4, 3)}), jax.devices()[0])
    for _ in range(2):
        placed, _ = step(placed, batch())
    free = init({"w": signed_array(4, 3)})
    for _ in range(2):
        free, _ = step(free, batch())
    assert len(firsts) == 2
    assert (placed.params["w"].committed, free.params["w"].committed) == (True, False)


def test_the_kinds_of_the_last_state_are_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    step, state = begun_plain()
    for _ in range(2):
        state, _ = step(state, batch()[0])
    asked = Mock(wraps=step_again._kinds)
    monkeypatch.setattr(step_again, "_kinds", asked)
    state, _ = step(state, batch()[0])
    asked.assert_not_called()
    step(replace(state), batch()[0])
    asked.assert_called_once()


def test_one_place_alone_is_picked_as_a_tuple() -> None:
    assert step_again._chosen([])("ab") == ()
    assert step_again._chosen([1])("ab") == ("b",)
    assert step_again._chosen([1, 0])("ab") == ("b", "a")
