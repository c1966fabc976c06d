"""The context: which passes run, what is called around them, and that errors leave it whole."""

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.config import OPTIONS, register_config
from relaxjax.passes.infrastructure.context import PassContext, build_config
from relaxjax.passes.infrastructure.decorators import module_pass
from relaxjax.passes.infrastructure.hooks import pass_instrument
from relaxjax.passes.infrastructure.info import PassInfo
from relaxjax.passes.infrastructure.sequential import Sequential

EMPTY = IRModule()


@module_pass(opt_level=1, name="Noted")
def NOTED(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod.with_attr("noted", True)


@module_pass(opt_level=0, name="Broken")
def BROKEN(mod: IRModule, ctx: PassContext) -> IRModule:
    raise ArithmeticError("broken")


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


def test_the_defaults() -> None:
    context = PassContext()
    assert (context.opt_level, context.required_pass, context.disabled_pass) == (2, (), ())
    assert (context.instruments, dict(context.config), context.trace) == ((), {}, None)


def test_contexts_nest() -> None:
    default = PassContext.current()
    assert PassContext.current() is default
    with PassContext(opt_level=3) as outer:
        assert PassContext.current() is outer
        with PassContext(opt_level=1) as inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
        with outer:
            assert PassContext.current() is outer
        assert PassContext.current() is outer
    assert PassContext.current() is default


def test_an_error_inside_leaves_the_context() -> None:
    default = PassContext.current()
    with pytest.raises(KeyError), PassContext():
        raise KeyError
    assert PassContext.current() is default


def test_each_thread_has_contexts_of_its_own() -> None:
    seen: list[int] = []
    with PassContext(opt_level=4):
        thread = threading.Thread(target=lambda: seen.append(PassContext.current().opt_level))
        thread.start()
        thread.join()
    assert seen == [2]


def enabled(level: int, context: PassContext, name: str = "Normalize") -> bool:
    return context.pass_enabled(PassInfo(level, name))


def test_the_rule_of_enabling() -> None:
    context = PassContext(1, ["Broken", "Noted"], ["Normalize", "Noted"])
    assert enabled(1, context, "DeadCodeElimination")
    assert not enabled(2, context, "DeadCodeElimination")
    assert enabled(9, context, "Broken"), "required passes run whatever their level"
    assert not enabled(0, context, "Normalize"), "disabled passes never run"
    assert not enabled(0, context, "Noted"), "disabled wins over required"


def test_only_a_sequence_asks_whether_a_pass_is_enabled() -> None:
    with PassContext(disabled_pass=["Noted"]):
        assert Sequential([NOTED])(EMPTY) is EMPTY
        assert NOTED(EMPTY).attrs["noted"] is True
    with PassContext(opt_level=0):
        assert Sequential([NOTED])(EMPTY) is EMPTY
        assert NOTED(EMPTY).attrs["noted"] is True


def test_a_pass_is_known_from_its_declaration_on() -> None:
    """Also a class of passes of which none was ever made, and one without a decorator."""
    with pytest.raises(ValueError, match="`disabled_pass` names `NeverMade`, but there is no such"):
        PassContext(disabled_pass=["NeverMade"])

    @module_pass(opt_level=1)
    class NeverMade:
        def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
            return mod

    info = PassInfo(1, "Undecorated")
    assert PassContext(disabled_pass=["NeverMade", info.name]).disabled_pass[0] == "NeverMade"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"opt_level": "3"}, TypeError, "`opt_level` must be an int, found '3'"),
        ({"opt_level": True}, TypeError, "`opt_level` must be an int, found True"),
        (
            {"disabled_pass": "Normalize"},
            TypeError,
            r"`disabled_pass` takes a list of names such as \[\"Normalize\"\], found 'Normalize'",
        ),
        ({"required_pass": [3]}, TypeError, r"`required_pass` takes a list of names .* \[3\]"),
        (
            {"required_pass": ["Normalise"]},
            ValueError,
            r"`required_pass` names `Normalise`, but there is no such pass; did you mean `Normal",
        ),
        (
            {"disabled_pass": ["Notd"]},
            ValueError,
            r"`disabled_pass` names `Notd`, but there is no such pass; did you mean `Noted`\?",
        ),
        ({"instruments": 3}, TypeError, "`instruments` takes a list of instruments, found 3"),
        (
            {"instruments": [Recorder]},
            TypeError,
            r"the instrument `Recorder` is a class: write `Recorder\(...\)`",
        ),
        (
            {"instruments": ["x"]},
            TypeError,
            "'x' is no instrument: it has none of `enter_pass_ctx`, `exit_pass_ctx`, `should_run`",
        ),
        (
            {"trace": 3},
            TypeError,
            r"`trace` must be a function of \(module, info, is_before\), .*3",
        ),
        ({"config": {"x": 1}}, ValueError, "there is no config option `x`"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        PassContext(**arguments)


def test_names_may_come_in_sets() -> None:
    """As seed and TVM code writes them."""
    assert PassContext(disabled_pass={"Noted"}).disabled_pass == ("Noted",)


def test_relay_build_config() -> None:
    calls: list[bool] = []
    context = build_config(3, {"Broken"}, ["Noted"], lambda mod, info, before: calls.append(before))
    assert (context.opt_level, context.required_pass) == (3, ("Broken",))
    with context:
        assert Sequential([NOTED])(EMPTY) is EMPTY
        NOTED(EMPTY)
    assert calls == [True, False, True, False]


@pytest.fixture
def depth_option() -> Iterator[None]:
    """Three settings that only these tests know."""
    register_config("fusion.max_depth", int, "How many operators one fused function may hold.")
    register_config("fusion.share", float, "Which share of all operators may be fused.")
    register_config("fusion.layouts", dict, "Layouts by operator.")
    yield
    for name in ("max_depth", "share", "layouts"):
        del OPTIONS[f"fusion.{name}"]


@pytest.mark.usefixtures("depth_option")
def test_config() -> None:
    assert PassContext.list_configs()["fusion.max_depth"] == {
        "type": "int",
        "doc": "How many operators one fused function may hold.",
    }
    with PassContext(config={"fusion.max_depth": 5}):
        assert PassContext.current().config["fusion.max_depth"] == 5
    others = {"fusion.share": 1, "fusion.layouts": {"relax.nn.conv2d": "NHWC"}}
    assert PassContext(config=others).config == others
    with pytest.raises(TypeError, match=r"`fusion\.max_depth` must be of type int, found True"):
        PassContext(config={"fusion.max_depth": True})
    with pytest.raises(
        ValueError, match=r"no config option `fusion\.depth`; did you mean `fusion\.max"
    ):
        PassContext(config={"fusion.depth": 5})
    again = register_config("fusion.share", float, "Which share of all operators may be fused.")
    assert OPTIONS["fusion.share"] is again  # as a cell of a notebook that is run again has it
    message = (
        r"the config option `fusion\.max_depth` is registered already, of type int: How many "
        r"operators one fused function may hold\.; give the other one another name"
    )
    with pytest.raises(ValueError, match=message):
        register_config("fusion.max_depth", int, "")


def test_the_trace_sees_every_pass_from_both_sides() -> None:
    seen: list[tuple[IRModule, str, bool]] = []
    sequence = Sequential([NOTED], name="outer")
    with PassContext(trace=lambda mod, info, before: seen.append((mod, info.name, before))):
        result = sequence(EMPTY)
    assert [(name, before) for _, name, before in seen] == [
        ("outer", True),
        ("Noted", True),
        ("Noted", False),
        ("outer", False),
    ]
    assert [mod for mod, _, _ in seen] == [EMPTY, EMPTY, result, result]


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


def test_a_context_shows_what_was_asked_of_it() -> None:
    context = PassContext(opt_level=3, disabled_pass=["FoldConstant"])
    assert repr(context) == "PassContext(opt_level=3, disabled_pass=['FoldConstant'])"


@module_pass(opt_level=0, name="Collected")
def COLLECTED(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod.with_attr("collects", gc.isenabled())


def test_the_collector_rests_while_a_pass_runs_and_goes_on_after_it() -> None:
    assert COLLECTED(EMPTY).attrs["collects"] is False
    assert gc.isenabled()
    with pytest.raises(ArithmeticError, match="broken"):
        BROKEN(EMPTY)
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        COLLECTED(EMPTY)
        assert not gc.isenabled()
    finally:
        gc.enable()
