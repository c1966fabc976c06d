"""Pairs of places, of which one counts an axis, are places of each row by itself."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_main

import relaxjax
from relaxjax.ir import Call, IRModule
from relaxjax.ir.function import Function
from relaxjax.ir.op import operator_name
from relaxjax.lowering import to_jax
from relaxjax.passes import SplitBatch
from relaxjax.passes.memory.batch.own_rows import OWN_ROWS
from relaxjax.passes.simplification.apply_laws import rewritten


def by_own_rows(mod: IRModule) -> IRModule:
    function = mod["main"]
    assert isinstance(function, Function)
    return mod.with_function("main", rewritten(function, OWN_ROWS))


def numbers(mod: IRModule) -> Any:
    """The numbers of the axes of the only gather or scatter."""
    calls = [b.value for b in mod["main"].body.bindings() if isinstance(b.value, Call)]
    (found,) = (
        call for call in calls if (operator_name(call) or "").startswith(("lax.ga", "lax.sc"))
    )
    (own,) = found.attrs["dimension_numbers"].values()
    return own


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def check(f: Any, *args: Any, axes: list[int], of_places: list[int]) -> None:
    """That `f` takes axes of its table by those of its places, and gives the same by them."""
    mod = relaxjax.from_jax(f, *args)
    changed = by_own_rows(mod)
    found = numbers(changed)
    assert list(found["operand_batching_dims"]) == axes
    name = "start_indices_batching_dims"
    assert list(found.get(name, found.get("scatter_indices_batching_dims"))) == of_places
    np.testing.assert_array_equal(to_jax(changed, "main")(*args), to_jax(mod, "main")(*args))


PLACES = np.array([3, 0, 4, 4, -1], "int32")


def test_the_second_of_two_places() -> None:
    check(lambda x, i: x[i, jnp.arange(5)], normal(6, 5, 2), PLACES, axes=[1], of_places=[0])


def test_the_first_of_two_places() -> None:
    check(lambda x, i: x[jnp.arange(5), i], normal(5, 6, 2), PLACES, axes=[0], of_places=[0])


def test_one_of_three_places_that_stand_in_a_matrix() -> None:
    places = np.array([[1, 0], [2, 2], [0, 1]], "int32")

    def f(x: Any, i: Any) -> Any:
        return x[i, jnp.arange(3)[:, None], i]

    check(f, normal(3, 3, 4, 2), places, axes=[1], of_places=[0])


def test_two_that_count_two_axes() -> None:
    places = np.array([[1, 0, 3], [2, 2, 0]], "int32")

    def f(x: Any, i: Any) -> Any:
        return x[jnp.arange(3), i, jnp.arange(2)[:, None]]

    check(f, normal(3, 4, 2), places, axes=[0, 2], of_places=[1, 0])


def test_numbers_that_are_known() -> None:
    check(lambda x, i: x[i, np.arange(5)], normal(6, 5, 2), PLACES, axes=[1], of_places=[0])


@pytest.mark.parametrize("mode", ["fill", "clip", "promise_in_bounds"])
def test_places_outside_are_as_before(mode: str) -> None:
    places = np.array([3, 0, 9, 4, 0] if mode != "promise_in_bounds" else PLACES, "int32")

    def f(x: Any, i: Any) -> Any:
        return x.at[i, jnp.arange(5)].get(mode=mode)

    check(f, normal(6, 5, 2), places, axes=[1], of_places=[0])


@pytest.mark.parametrize("kind", ["add", "set", "multiply", "min", "max"])
def test_what_changes_places(kind: str) -> None:
    def f(x: Any, i: Any, y: Any) -> Any:
        return getattr(x.at[i, jnp.arange(5)], kind)(y)

    check(f, normal(6, 5, 2), PLACES, normal(5, 2), axes=[1], of_places=[0])


def test_a_place_that_is_no_count_of_its_axis_stays() -> None:
    x, cubes, square = normal(6, 7, 2), normal(6, 5, 5, 2), normal(5, 5)
    for f, args in [
        (lambda x, i: x[i, jnp.arange(5)], (x, PLACES)),  # of a part of it
        (lambda x, i: x[i, jnp.arange(5)[::-1]], (x[:, :5], PLACES)),
        (lambda x, i: x[i, i], (x, PLACES)),
        (lambda x, i: x[i, (jnp.arange(5) + 1) % 5], (x[:, :5], PLACES)),
        (lambda x, i: x[i, np.array([0, 1, 2, 4, 3])], (x[:, :5], PLACES)),
        (lambda x, i: x[i, jnp.arange(10).reshape(5, 2)[:, 0]], (normal(6, 10, 2), PLACES)),
    ]:
        mod = relaxjax.from_jax(f, *args)
        assert by_own_rows(mod)["main"] is mod["main"]
    diagonal = relaxjax.from_jax(lambda x: x[jnp.arange(5), jnp.arange(5)], square)
    one = by_own_rows(diagonal)  # which the second place stays beside
    assert list(numbers(one)["operand_batching_dims"]) == [0]
    twice = by_own_rows(
        relaxjax.from_jax(lambda x, i: x[i, jnp.arange(5), jnp.arange(5)], cubes, PLACES)
    )
    assert list(numbers(twice)["operand_batching_dims"]) == [1]


def test_numbers_that_a_dtype_cannot_tell_stay() -> None:
    """An int8 of 200 is a negative number."""
    body = """
    k = L.iota(dtype="int8", shape=[200, 1], dimension=0)
    p = L.concatenate(i, k, dimension=1)
    y = L.gather(x, p, dimension_numbers={"GatherDimensionNumbers": {"offset_dims": [],
        "collapsed_slice_dims": [0, 1], "start_index_map": [0, 1], "operand_batching_dims": [],
        "start_indices_batching_dims": []}}, slice_sizes=[1, 1], unique_indices=False,
        indices_are_sorted=False, mode={"GatherScatterMode": "CLIP"})
    return y
    """
    mod = parse_main(body, x=(3, 200), i='R.Tensor((200, 1), "int8")')
    assert by_own_rows(mod)["main"] is mod["main"]


def test_the_last_states_of_samples_are_taken_in_parts() -> None:
    """Of sequences of several lengths, with the adjoint of what reads them."""

    def loss(w: Any, x: Any, lengths: Any) -> Any:
        states = jnp.tanh(x @ w).swapaxes(0, 1)
        return (states[lengths - 1, jnp.arange(4)] ** 2).sum()

    w, x, lengths = normal(3, 2), normal(4, 5, 3), np.array([5, 1, 3, 3], "int32")
    gradient = relaxjax.value_and_grad(loss, memory_policy="none")
    split = SplitBatch("loss_adjoint", 2, {"x": 0, "lengths": 0})(gradient.module(w, x, lengths))
    assert "scan" in split.script()
    value, (found, *_) = to_jax(split, "loss_adjoint")(w, x, lengths)
    wanted, slope = jax.value_and_grad(loss)(w, x, lengths)
    np.testing.assert_allclose(value, wanted, rtol=1e-5)
    np.testing.assert_allclose(found, slope, rtol=1e-5)
