"""The collector of garbage is out of the way, and walks what was made meanwhile once."""

import gc
from collections.abc import Iterator

import pytest
from small_passes import BROKEN

from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.context import PassContext
from relaxjax.passes.infrastructure.decorators import module_pass
from relaxjax.passes.infrastructure.pause_gc import collector_paused


@pytest.fixture
def collected() -> Iterator[list[int]]:
    """The generations that are collected, one after the other."""
    found: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append(info["generation"])

    gc.collect()
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def test_many_new_objects_are_walked_once(collected: list[int]) -> None:
    with collector_paused():
        made = [[number] for number in range(2 * gc.get_threshold()[0])]
        assert not collected
    assert len(made) > 0
    assert collected == [1]


def test_few_new_objects_are_left_alone(collected: list[int]) -> None:
    with collector_paused():
        pass
    assert not collected
    assert gc.isenabled()


@module_pass(opt_level=0, name="Collected")
def COLLECTED(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod.with_attr("collects", gc.isenabled())


def test_the_collector_rests_while_a_pass_runs_and_goes_on_after_it() -> None:
    assert COLLECTED(IRModule()).attrs["collects"] is False
    assert gc.isenabled()
    with pytest.raises(ArithmeticError, match="broken"):
        BROKEN(IRModule())
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        COLLECTED(IRModule())
        assert not gc.isenabled()
    finally:
        gc.enable()
