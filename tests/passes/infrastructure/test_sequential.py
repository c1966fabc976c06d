"""Sequences of passes, and the passes that passes require."""

from collections.abc import Iterator
from typing import Any

import pytest

from relaxjax.ir.module import IRModule
from relaxjax.passes import ModulePass, PassContext, PassInfo, Sequential, module_pass
from relaxjax.passes.infrastructure.base import FACTORIES, pass_factory

EMPTY = IRModule()


@pytest.fixture(autouse=True)
def _declared() -> Iterator[None]:
    """Passes declared for one test: `First`, `Second` that requires it, `Circle`, `WithOption`."""
    before = dict(FACTORIES)

    @pass_factory(opt_level=0)
    def First(mod: IRModule) -> IRModule:
        """Come first."""
        return ran(mod, "First")

    @pass_factory(opt_level=0, required=("First",))
    def Second(mod: IRModule) -> IRModule:
        """Come second."""
        return ran(mod, "Second")

    @pass_factory(opt_level=0, required=("Roundabout",))
    def Circle(mod: IRModule) -> IRModule:
        """Require what requires this."""
        return mod

    @pass_factory(opt_level=0, required=("Circle",))
    def Roundabout(mod: IRModule) -> IRModule:
        """Require what requires this."""
        return mod

    @pass_factory(opt_level=0)
    def WithOption(mod: IRModule, name: str, other: int) -> IRModule:
        """Need options."""
        return mod

    yield
    FACTORIES.clear()
    FACTORIES.update(before)


def ran(mod: IRModule, name: str) -> IRModule:
    return mod.with_attr("ran", (*mod.attrs.get("ran", ()), name))


def noting(name: str, opt_level: int = 0, required: tuple[str, ...] = ()) -> ModulePass:
    """A user's pass that writes its name down in the module."""
    return ModulePass(lambda mod, _: ran(mod, name), PassInfo(opt_level, name, required))


def order(*passes: Any) -> tuple[str, ...]:
    return tuple(Sequential(passes)(EMPTY).attrs.get("ran", ()))


def test_passes_run_in_order() -> None:
    assert order(noting("a"), noting("b"), noting("a")) == ("a", "b", "a")


def test_no_passes() -> None:
    assert Sequential([])(EMPTY) is EMPTY
    assert Sequential()(EMPTY) is EMPTY


def test_info() -> None:
    sequence = Sequential([noting("a")], 2, "outer", ["First"])
    assert sequence.info == PassInfo(2, "outer", ("First",))
    assert Sequential().info == PassInfo(0, "sequential")
    assert repr(sequence) == "Sequential([a()])"


def test_levels_and_names_decide() -> None:
    passes = [noting("a", 0), noting("b", 1), noting("c", 3)]
    with PassContext(opt_level=1):
        assert order(*passes) == ("a", "b")
    with PassContext(opt_level=1, required_pass=["c"], disabled_pass=["a"]):
        assert order(*passes) == ("b", "c")


def test_a_sequence_in_a_sequence_is_a_pass() -> None:
    inner = Sequential([noting("a")], opt_level=3, name="inner")
    assert order(inner, noting("b")) == ("b",)
    with PassContext(opt_level=3):
        assert order(inner, noting("b")) == ("a", "b")
    with PassContext(opt_level=3, disabled_pass=["inner"]):
        assert order(inner, noting("b")) == ("b",)


def test_what_is_required_runs_before() -> None:
    assert order(FACTORIES["Second"]()) == ("First", "Second")
    assert order(noting("x", required=("Second",))) == ("First", "Second", "x")


def test_what_has_run_is_not_run_again() -> None:
    first, second = FACTORIES["First"](), FACTORIES["Second"]()
    assert order(first, second) == ("First", "Second")
    assert order(second, second) == ("First", "Second", "Second")
    assert order(noting("x", required=("First", "Second"))) == ("First", "Second", "x")


def test_what_is_required_runs_whatever_its_level() -> None:
    with PassContext(opt_level=0):
        assert order(noting("a", 2), noting("b", required=("a",))) == ("a", "b")


def test_a_user_pass_of_the_sequence_can_be_required() -> None:
    assert order(noting("b", required=("a",)), noting("a")) == ("a", "b", "a")


def test_what_only_a_left_out_pass_requires_does_not_run() -> None:
    assert order(noting("x", opt_level=4, required=("First",))) == ()


def test_a_sequence_can_require_too() -> None:
    inner = Sequential([noting("a")], required=["First"])
    assert order(inner) == ("First", "a")
    assert tuple(inner(EMPTY).attrs["ran"]) == ("a",), "a direct call runs only what is called"


@pytest.mark.parametrize(
    ("required", "message"),
    [
        ("Frist", r"`x` requires `Frist`, but no pass of this name is .*; did you mean `First`\?"),
        (
            "WithOption",
            r"without its options `name`, `other`: put `WithOption\(...\)` into the sequence",
        ),
        (
            "Circle",
            "passes require one another in a circle: `x` -> `Circle` -> `Roundabout` -> `Circle`",
        ),
    ],
)
def test_requirements_that_cannot_be_met(required: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        order(noting("x", required=(required,)))


def test_a_requirement_that_is_disabled() -> None:
    message = "`Second` requires `First`, which the context disables: disable `Second` too, or nei"
    with PassContext(disabled_pass=["First"]), pytest.raises(ValueError, match=message):
        order(FACTORIES["Second"]())


def test_what_is_no_pass() -> None:
    with pytest.raises(TypeError, match="`Sequential` takes passes, found 3"):
        Sequential([3])  # type: ignore[list-item]  # wrong on purpose
    with pytest.raises(TypeError, match=r"takes passes, found First\(\): write `First\(...\)`"):
        Sequential([FACTORIES["First"]])  # type: ignore[list-item]  # wrong on purpose
    with pytest.raises(TypeError, match=r"`Sequential` takes a list of passes, found First\(\)"):
        Sequential(FACTORIES["First"]())  # type: ignore[arg-type]  # wrong on purpose

    @module_pass(opt_level=0)
    class Own:
        def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
            return mod

    with pytest.raises(TypeError, match=r"`Sequential` takes passes, found .*: write `Own\(...\)`"):
        Sequential([Own])  # type: ignore[list-item]  # wrong on purpose


def test_an_error_names_all_passes_around_it() -> None:
    def fail(mod: IRModule, ctx: PassContext) -> IRModule:
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost") as error:
        Sequential([ModulePass(fail, PassInfo(0, "fail"))], name="outer")(EMPTY)
    assert error.value.__notes__ == ["in the pass `fail`", "in the pass `outer`"]
