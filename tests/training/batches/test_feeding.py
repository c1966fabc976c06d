"""How batches become calls of the device."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_models import batch, classifier

from relaxjax import Trainer
from relaxjax.training import Lines
from relaxjax.training.batches.feeding import Call, ahead, calls

QUIET = Lines(lambda line: None)


def batches(*sizes: int) -> list[Any]:
    return [(np.full((size, 2), i), np.full(size, i)) for i, size in enumerate(sizes)]


def shape(call: Call) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    inputs, targets = call.batch
    return call.steps, inputs.shape, targets.shape


def test_a_batch_may_say_how_many_steps_a_call_makes_once_for_all_of_its_shapes() -> None:
    asked = []

    def size(batch: Any) -> int:
        asked.append(batch)
        return 2 if len(batch[0]) == 4 else 1

    given = batches(4, 4, 3, 4, 3)
    found = list(calls(given, size))
    assert [(call.steps, call.is_stacked) for call in found] == [
        (2, True),
        (1, False),
        (1, True),
        (1, False),
    ]
    assert asked == [given[0], given[2]]


def test_single_steps_are_the_batches_themselves() -> None:
    given = batches(4, 4)
    found = list(calls(given, 1))
    assert [(call.steps, call.is_stacked) for call in found] == [(1, False)] * 2
    assert all(call.batch is mine for call, mine in zip(found, given, strict=True))


def test_a_call_of_several_steps_stacks_them_and_the_last_may_not_be_full() -> None:
    found = list(calls(batches(4, 4, 4, 4, 4), 2))
    assert list(map(shape, found)) == [(n, (2, 4, 2), (2, 4)) for n in (2, 2, 1)]
    np.testing.assert_array_equal(found[1].batch[1], [[2] * 4, [3] * 4])
    np.testing.assert_array_equal(found[2].batch[1][0], [4] * 4)


def test_a_batch_of_another_shape_is_not_stacked() -> None:
    found = list(calls(batches(4, 3, 3, 4), 2))
    assert [shape(call)[:2] for call in found] == [(1, (2, 4, 2)), (2, (2, 3, 2)), (1, (2, 4, 2))]


def test_random_keys_are_not_stacked() -> None:
    keyed = [(jax.random.key(number), y) for number, (_, y) in enumerate(batches(4, 4))]
    assert [call.is_stacked for call in calls(keyed, 2)] == [False, False]


def test_several_inputs_are_stacked_each() -> None:
    several = [([x, y], [y]) for x, y in batches(4, 4)]
    (call,) = calls(several, 2)
    inputs, targets = call.batch
    assert call.steps == 2
    assert [x.shape for x in inputs] == [(2, 4, 2), (2, 4)]
    assert [y.shape for y in targets] == [(2, 4)]


@pytest.mark.parametrize("skip", [0, 1, 4])
def test_calls_end_where_they_have_to(skip: int) -> None:
    """As they do for a checkpoint, which is written at the very step that it is due at."""
    found = list(calls(batches(*[4] * 8), 3, skip, ends=lambda step: step in (2, 4, 7)))
    ends = [skip + sum(call.steps for call in found[: n + 1]) for n in range(len(found))]
    assert ends == [end for end in (2, 4, 7, 8) if end > skip]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_skipping_at_the_end_of_a_call_leaves_the_other_calls_as_they_are(size: int) -> None:
    """So a resumed training makes the very calls that an uninterrupted one makes."""
    given = batches(4, 4, 4, 3, 3, 4, 4)
    whole = list(calls(given, size))
    done = 0
    for index, call in enumerate(whole):
        done += call.steps
        rest = list(calls(given, size, skip=done))
        assert list(map(shape, rest)) == list(map(shape, whole[index + 1 :]))


@pytest.mark.parametrize("depth", [0, 1, 2, 9])
def test_calls_are_placed_ahead_in_their_order(depth: int) -> None:
    events: list[str] = []

    def place(batch: Any, count: int | None) -> Any:
        assert count is None  # none of these is stacked
        events.append(f"place {batch}")
        return batch

    letters: Any = "abc"  # which stand in for batches
    for call in ahead([Call(1, name) for name in letters], depth, place):
        events.append(f"use {call.batch}")
    uses = [event for event in events if event.startswith("use")]
    assert uses == ["use a", "use b", "use c"]
    before_first = events[: events.index("use a")]
    assert len(before_first) == min(3, depth + 1 if depth else 0)


@pytest.mark.parametrize(
    "options",
    [{}, {"steps_per_call": 1}, {"steps_per_call": 1, "check_numerics": True}, {"prefetch": 2}],
)
def test_a_loader_may_write_a_batch_over_the_last_one(options: dict[str, Any]) -> None:
    """Though the device may still be reading it."""
    plain, other = classifier(), classifier()
    pairs = [batch(seed) for seed in range(30)]
    buffers = tuple(map(np.empty_like, pairs[0]))
    for trainer in (plain, other):
        trainer.xavier_uniform_init_params(seed=4)

    def reused(epoch: int) -> Any:
        for pair in pairs:
            for buffer, array in zip(buffers, pair, strict=True):
                buffer[:] = array
            yield buffers

    plain.fit(pairs, 1, reporter=QUIET, steps_per_call=1)
    other.fit(reused, 1, reporter=QUIET, **options)
    np.testing.assert_allclose(
        other.export_params()["w1"], plain.export_params()["w1"], rtol=1e-4, atol=1e-6
    )


def test_batches_without_arrays_are_steps_of_their_own() -> None:
    """A loss of the parameters alone, such as a penalty, has nothing to stack."""

    def loss(params: Any, count: Any, batch: None) -> Any:
        return jnp.sum(params**2), (count + 1, None)

    def trainer() -> Trainer:
        start = jnp.ones(3), optax.sgd(0.1), None
        return Trainer.from_jax(loss, *start, model_state=jnp.int32(0))

    several, alone = trainer(), trainer()
    several.fit([None] * 3, 1, reporter=QUIET, steps_per_call=2)
    for _ in range(3):
        alone.update(None)
    assert int(several.model_state) == 3
    chex.assert_trees_all_equal(several.params, alone.params)
    with pytest.raises(ValueError, match="by their arrays, but these have none: call `update`"):
        alone.update_many(None)
