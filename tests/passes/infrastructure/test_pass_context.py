"""The context: which passes run, what is called around them, and that errors leave it whole."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from small_passes import NOTED

from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.config import OPTIONS, register_config
from relaxjax.passes.infrastructure.context import PassContext, build_config
from relaxjax.passes.infrastructure.decorators import module_pass
from relaxjax.passes.infrastructure.info import PassInfo
from relaxjax.passes.infrastructure.instruments import PassHistory
from relaxjax.passes.infrastructure.sequential import Sequential

EMPTY = IRModule()


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
            {"instruments": [PassHistory]},
            TypeError,
            r"the instrument `PassHistory` is a class: write `PassHistory\(...\)`",
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
        (
            {"config": {"x": 1}},
            ValueError,
            "there is no config option `x`.*: there are .*, and each pass takes its options as arg",
        ),
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
    match = r"no config option `fusion\.depth`; did you mean `fusion\.max"
    with pytest.raises(ValueError, match=match):
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


def test_a_context_shows_what_was_asked_of_it() -> None:
    context = PassContext(opt_level=3, disabled_pass=["FoldConstant"])
    assert repr(context) == "PassContext(opt_level=3, disabled_pass=['FoldConstant'])"
