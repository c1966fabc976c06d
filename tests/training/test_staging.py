"""Memory for the batches of a call: filled, read, and filled again."""

from typing import Any

import numpy as np
import pytest
from small_models import batch, classifier

from relaxjax.training import Lines
from relaxjax.training.batches.feeding import Stage


def rows(number: int, dtype: str = "float32") -> tuple[Any, Any]:
    return np.full((4, 2), number, dtype), np.full(4, number)


class Losses:
    """A stand-in for losses on a device, which knows whether it was waited for."""

    waited = False

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self.waited = True
        return np.zeros(2)


def filled(stage: Stage, *numbers: int) -> Any:
    slot = stage.slot(rows(numbers[0]), len(numbers))
    for number in numbers:
        slot.add(rows(number))
    return slot


@pytest.mark.parametrize("reuse", [False, True])
def test_a_slot_holds_the_batches_side_by_side(reuse: bool) -> None:
    slot = filled(Stage(reuse), 1, 2)
    inputs, targets = slot.whole()
    np.testing.assert_array_equal(inputs, np.stack([rows(1)[0], rows(2)[0]]))
    np.testing.assert_array_equal(targets, np.stack([rows(1)[1], rows(2)[1]]))
    assert inputs.ctypes.data % 64 == 0


def test_two_slots_take_turns_and_are_waited_for() -> None:
    stage, readers = Stage(reuse=True), [Losses() for _ in range(3)]
    memory = []
    for number, losses in enumerate(readers):
        memory.append(filled(stage, number, number).whole()[0].ctypes.data)
        stage.read_by(losses)
    assert memory[0] == memory[2] != memory[1]
    assert [losses.waited for losses in readers] == [True, False, False]


def test_batches_of_another_kind_get_memory_of_their_own() -> None:
    stage = Stage(reuse=True)
    for number in range(2):
        filled(stage, number, number)
    slot = stage.slot(rows(0, "float16"), 2)
    slot.add(rows(7, "float16"))
    assert slot.whole()[0].dtype == "float16"
    assert slot.count == 1


def test_without_reuse_nothing_is_overwritten() -> None:
    stage = Stage()
    slots = [filled(stage, number, number) for number in range(4)]
    assert [slot.whole()[0][0, 0, 0] for slot in slots] == [0, 1, 2, 3]


def test_many_calls_through_two_slots_train_as_single_steps_do() -> None:
    data = [batch(seed) for seed in range(12)]
    plain, shared = classifier(), classifier()
    plain.fit(data, 2, reporter=Lines(lambda line: None), steps_per_call=1)
    shared.fit(data, 2, reporter=Lines(lambda line: None), steps_per_call=2)
    for name, expected in plain.export_params().items():
        np.testing.assert_allclose(shared.export_params()[name], expected, rtol=1e-5, atol=1e-6)


def test_a_trainer_keeps_its_memory_from_one_fit_to_the_next() -> None:
    """New pages cost more than what is copied to them."""
    data, quiet, trainer = (
        [batch(seed) for seed in range(3)],
        Lines(lambda line: None),
        classifier(),
    )
    trainer.fit(data, 2, reporter=quiet)
    slots = set(map(id, trainer.stage._slots))
    trainer.fit(data, 3, reporter=quiet)
    assert len(slots) == 2
    assert set(map(id, trainer.stage._slots)) == slots


def test_what_is_not_filled_holds_zeros() -> None:
    """It is brought to the dtype of the program with the rest, so it must not be just anything."""
    batch = np.ones((64, 64)), np.ones(64)
    slot = Stage().slot(batch, 4)
    slot.add(batch)
    inputs, targets = slot.whole()
    assert inputs[0].all()
    assert not inputs[1:].any()
    assert not targets[1:].any()
