"""What instruments are called for around a pass, and that their errors leave the context whole."""

from typing import Any

import pytest
from small_passes import BROKEN, NOTED

from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.context import PassContext
from relaxjax.passes.infrastructure.hooks import pass_instrument
from relaxjax.passes.infrastructure.info import PassInfo
from relaxjax.passes.infrastructure.sequential import Sequential

EMPTY = IRModule()


@pass_instrument
class Recorder:
    """Writes down each call of its hooks; raises in one of them where it is told to."""

    def __init__(self, name: str, log: list[str], fails_in: str = "", answer: Any = True) -> None:
        self.name, self.log, self.fails_in, self.answer = name, log, fails_in, answer

    def note(self, hook: str, info: PassInfo | None = None) -> None:
        self.log.append(f"{self.name} {hook}{f' {info.name}' if info else ''}")
        if hook == self.fails_in:
            raise ValueError(f"{self.name} fails")

    def enter_pass_ctx(self) -> None:
        self.note("enter")

    def exit_pass_ctx(self) -> None:
        self.note("exit")

    def should_run(self, mod: IRModule, info: PassInfo) -> Any:
        self.note("should", info)
        return self.answer

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.note("before", info)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.note("after", info)

    def run_failed_pass(self, mod: IRModule, info: PassInfo, error: BaseException) -> None:
        self.note("failed", info)


def test_the_order_of_hooks() -> None:
    log: list[str] = []
    with PassContext(instruments=[Recorder("a", log), Recorder("b", log)]):
        NOTED(EMPTY)
    assert log == [
        "a enter", "b enter",
        "a should Noted", "b should Noted",
        "a before Noted", "b before Noted",
        "a after Noted", "b after Noted",
        "a exit", "b exit",
    ]  # fmt: skip


def test_a_veto_holds_for_direct_calls_but_not_for_required_passes() -> None:
    log: list[str] = []
    veto = [Recorder("a", log, answer=False), Recorder("b", log)]
    with PassContext(instruments=veto):
        assert NOTED(EMPTY) is EMPTY
    assert log == ["a enter", "b enter", "a should Noted", "b should Noted", "a exit", "b exit"]
    with PassContext(instruments=veto, required_pass=["Noted"]):
        assert NOTED(EMPTY).attrs["noted"] is True


def test_a_veto_must_be_a_bool() -> None:
    instrument = Recorder("a", [], answer=None)
    message = "`should_run` of the instrument `Recorder` must return True or False, found None"
    with PassContext(instruments=[instrument]), pytest.raises(TypeError, match=message):
        NOTED(EMPTY)


def test_an_instrument_needs_no_base_class_and_no_decorator() -> None:
    class Counter:
        count = 0

        def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
            self.count += 1

    counter = Counter()
    with PassContext(instruments=[counter]):
        Sequential([NOTED, NOTED])(EMPTY)
    assert counter.count == 3


def test_pass_instrument_checks_the_class() -> None:
    with pytest.raises(TypeError, match="no hook `run_befor_pass`; did you mean `run_before_pass`"):

        @pass_instrument
        class Misspelt:
            def run_befor_pass(self, mod: IRModule, info: PassInfo) -> None: ...

    with pytest.raises(TypeError, match="the instrument `Empty` needs one of `enter_pass_ctx`, "):

        @pass_instrument()
        class Empty:
            pass

    with pytest.raises(TypeError, match="`pass_instrument` decorates a class, found 3"):
        pass_instrument(3)  # type: ignore[call-overload]  # wrong on purpose


@pytest.mark.parametrize("hook", ["should", "before", "after"])
def test_an_instrument_that_raises_leaves_the_context_whole(hook: str) -> None:
    log: list[str] = []
    default = PassContext.current()
    failing = Recorder("b", log, fails_in=hook)
    with PassContext(instruments=[Recorder("a", log), failing]) as context:
        with pytest.raises(ValueError, match="b fails") as error:
            NOTED(EMPTY)
        assert PassContext.current() is context
        failing.fails_in = ""
        assert NOTED(EMPTY).attrs["noted"] is True
    assert PassContext.current() is default
    method = {"should": "should_run", "before": "run_before_pass", "after": "run_after_pass"}[hook]
    assert error.value.__notes__ == [
        f"in `{method}` of the instrument `Recorder`",
        "in the pass `Noted`",
    ]
    told_of_failure = [line for line in log if "failed" in line]
    assert told_of_failure == (["a failed Noted"] if hook == "before" else [])


def test_every_instrument_is_told_of_a_pass_that_fails() -> None:
    log: list[str] = []
    with PassContext(instruments=[Recorder("a", log), Recorder("b", log)]):
        with pytest.raises(ArithmeticError):
            BROKEN(EMPTY)
        log.clear()
        with pytest.raises(ArithmeticError):
            Sequential([BROKEN])(EMPTY)
    failures = [line for line in log if "failed" in line]
    assert failures == [
        "a failed Broken", "b failed Broken", "a failed sequential", "b failed sequential",
    ]  # fmt: skip


def test_an_instrument_that_cannot_enter() -> None:
    """Those before it are left again, and the context is not entered."""
    log: list[str] = []
    default = PassContext.current()
    instruments = [Recorder("a", log), Recorder("b", log, fails_in="enter"), Recorder("c", log)]
    with pytest.raises(ValueError, match="b fails"), PassContext(instruments=instruments):
        pytest.fail("the context must not be entered")
    assert log == ["a enter", "b enter", "a exit"]
    assert PassContext.current() is default


def test_an_instrument_that_cannot_leave() -> None:
    """The others are left all the same, and so is the context."""
    log: list[str] = []
    default = PassContext.current()
    instruments = [Recorder("a", log, fails_in="exit"), Recorder("b", log)]
    with pytest.raises(ValueError, match="a fails"), PassContext(instruments=instruments):
        log.clear()
    assert log == ["a exit", "b exit"]
    assert PassContext.current() is default


def test_override_instruments() -> None:
    log: list[str] = []
    with PassContext(instruments=[Recorder("a", log)]) as context:
        context.override_instruments([Recorder("b", log)])
        NOTED(EMPTY)
    assert log == [
        "a enter", "a exit", "b enter",
        "b should Noted", "b before Noted", "b after Noted", "b exit",
    ]  # fmt: skip


def test_override_instruments_of_a_context_that_is_not_entered() -> None:
    log: list[str] = []
    context = PassContext(instruments=[Recorder("a", log)])
    context.override_instruments([Recorder("b", log)])
    assert log == []
    with context:
        pass
    assert log == ["b enter", "b exit"]


def test_override_with_an_instrument_that_cannot_enter_leaves_none() -> None:
    log: list[str] = []
    with PassContext(instruments=[Recorder("a", log)]) as context:
        with pytest.raises(ValueError, match="c fails"):
            context.override_instruments([Recorder("b", log), Recorder("c", log, "enter")])
        assert context.instruments == ()
    assert log == ["a enter", "a exit", "b enter", "c enter", "b exit"]


def test_the_default_context_can_be_watched_too() -> None:
    log: list[str] = []
    context = PassContext.current()
    context.override_instruments([Recorder("a", log)])
    NOTED(EMPTY)
    context.override_instruments(None)
    NOTED(EMPTY)
    assert log == ["a enter", "a should Noted", "a before Noted", "a after Noted", "a exit"]
