"""Declaring passes with `pass_factory`: their options, their names, and what they must return."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pytest

import relaxjax.ops.binary
from relaxjax.ir import BlockBuilder, Function, IRModule, TensorType, Var
from relaxjax.ir.span import Span, located
from relaxjax.passes import Gradient, PassInfo, get_pass
from relaxjax.passes.infrastructure.base import FACTORIES, PassFactory, pass_factory


@pytest.fixture(autouse=True)
def _no_trace_in_the_registry() -> Iterator[None]:
    """Passes that a test declares are gone after it."""
    before = dict(FACTORIES)
    yield
    FACTORIES.clear()
    FACTORIES.update(before)


def module(*names: str) -> IRModule:
    """A module of functions that add their parameter to itself."""
    builder = BlockBuilder()
    for name in names or ("main",):
        x = Var("x", TensorType((3,), "float32"))
        with builder.function(name, [x]):
            builder.emit_func_output(builder.emit(relaxjax.ops.binary.add(x, x)))
    return builder.get()


def test_a_factory_gives_passes_that_remember_their_options() -> None:
    @pass_factory(opt_level=2)
    def Tag(mod: IRModule, name: str, value: int = 1) -> IRModule:
        """Tag the module.

        With an attribute.
        """
        return mod.with_attr(name, value)

    assert isinstance(Tag, PassFactory)
    assert Tag("a")(module()).attrs["a"] == 1
    assert Tag("a", value=2)(module()).attrs["a"] == 2
    assert Tag("a", value=2).options == {"name": "a", "value": 2}
    assert Tag("a").info == PassInfo(2, "Tag", (), False)
    assert repr(Tag("a", 2)) == "Tag(name='a', value=2)"
    count: Any = np.int64(2)
    assert repr(Tag("a", count)) == "Tag(name='a', value=2)"


def test_a_factory_is_known_by_name_signature_summary_and_level() -> None:
    @pass_factory(opt_level=3, required=("Normalize",))
    def Tag(mod: IRModule, name: str, value: int = 1) -> IRModule:
        """Tag the module.

        With an attribute.
        """
        return mod.with_attr(name, value)

    assert get_pass("Tag") is Tag
    assert (Tag.name, Tag.opt_level, Tag.kind) == ("Tag", 3, "module")
    assert Tag.summary == "Tag the module."
    assert Tag.info.required == ("Normalize",)
    assert str(inspect.signature(Tag)) == "(name: str, value: int = 1)"
    assert repr(Tag) == "Tag(name: str, value: int = 1)"
    assert inspect.getdoc(Tag) == "Tag the module.\n\nWith an attribute."


def test_a_function_pass_runs_on_each_function() -> None:
    @pass_factory(opt_level=0, kind="function")
    def TagFunctions(function: Function, mod: IRModule, value: int = 1) -> Function:
        """Tag functions."""
        return function.with_attr("size", len(mod) + value)

    before = module("f", "g")
    after = TagFunctions(2)(before)
    assert [after[name].attrs["size"] for name in ("f", "g")] == [4, 4]
    assert "size" not in before["f"].attrs


def test_what_changes_nothing_gives_the_very_module() -> None:
    @pass_factory(opt_level=0, kind="function")
    def Same(function: Function, mod: IRModule) -> Function:
        """Do nothing."""
        return function

    @pass_factory(opt_level=0)
    def SameModule(mod: IRModule) -> IRModule:
        """Do nothing."""
        return mod

    mod = module("f", "g")
    assert Same()(mod) is mod
    assert SameModule()(mod) is mod


def test_assigning_into_the_module_changes_the_result_only() -> None:
    @pass_factory(opt_level=0)
    def Assign(mod: IRModule) -> IRModule:
        """Assign into the module."""
        mod["g"] = mod["f"]
        return mod

    before = module("f")
    after = Assign()(before)
    assert list(before) == ["f"]
    assert list(after) == ["f", "g"]


def test_a_function_pass_may_not_assign_into_the_module() -> None:
    @pass_factory(opt_level=0, kind="function")
    def Assign(function: Function, mod: IRModule) -> Function:
        """Assign into the module."""
        mod["g"] = function
        return function

    before = module("f")
    with pytest.raises(ValueError, match="the pass `Assign` assigns into the module: it may only"):
        Assign()(before)
    assert list(before) == ["f"]


def test_a_pass_declared_again_takes_the_place_of_the_first() -> None:
    def Twice(mod: IRModule) -> IRModule:
        return mod

    pass_factory(opt_level=0)(Twice)
    again = pass_factory(opt_level=1)(Twice)
    assert get_pass("Twice") is again


def test_a_name_belongs_to_one_pass() -> None:
    def Normalize(mod: IRModule) -> IRModule:
        return mod

    message = (
        r"the pass `Normalize` is declared already, by `Normalize` of `relaxjax.passes.structure."
        r"normalize` at .*normalize.py:\d+: give another name to `.*Normalize` of `.*factory` at "
    )
    with pytest.raises(ValueError, match=message):
        pass_factory(opt_level=0)(Normalize)


def test_a_pass_is_of_a_module_or_of_a_function() -> None:
    match = "`kind` must be one of module, function, found 'dataflow'"
    with pytest.raises(ValueError, match=match):
        pass_factory(opt_level=0, kind="dataflow")  # type: ignore[call-overload]  # wrong on purpose


def test_an_opt_level_is_an_integer() -> None:
    with pytest.raises(TypeError, match="the opt level of the pass `P` must be an int, found 'x'"):
        PassInfo("x", "P")  # type: ignore[arg-type]  # wrong on purpose


def test_required_is_no_single_name() -> None:
    message = r"`required` takes a list of names such as \[\"Normalize\"\], found 'Gradient'"
    with pytest.raises(TypeError, match=message):
        PassInfo(0, "P", "Gradient")  # type: ignore[arg-type]  # wrong on purpose


def test_an_unknown_pass_suggests_near_misses() -> None:
    with pytest.raises(KeyError, match="there is no pass `Normalise`; did you mean `Normalize`"):
        get_pass("Normalise")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: f(), r"Options\(name, depth\): the option `name` is missing"),
        (lambda f: f("a", 1, 2), r"Options\(name, depth\) takes 2 options, but 3 were given"),
        (lambda f: f("a", name="b"), r"Options\(name, depth\): the option `name` is given twice"),
        (
            lambda f: f("a", dept=1),
            r"Options\(name, depth\) has no option `dept`; did you mean `depth`\?",
        ),
        (lambda f: f(3), "Options: the option `name` must be str, but 3 of type int was given"),
        (
            lambda f: f("a", depth="x"),
            "Options: the option `depth` must be int or None, but 'x' of type str was given",
        ),
        (
            lambda f: f("a", depth=True),
            "Options: the option `depth` must be int or None, but True of type bool was given",
        ),
    ],
)
def test_wrong_options(make: Callable[[Any], object], message: str) -> None:
    @pass_factory(opt_level=0)
    def Options(mod: IRModule, name: str, depth: int | None = None) -> IRModule:
        """Take options."""
        return mod

    with pytest.raises(TypeError, match=message):
        make(Options)


def test_a_text_is_no_list_of_its_letters() -> None:
    message = "the option `target_index` must be int or a list of int, but 'zwei' of type str"
    with pytest.raises(TypeError, match=message):
        Gradient("main", target_index="zwei")  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("names", [3, [1, "b"], {1: 2}, [True]])
def test_a_list_is_checked_item_by_item(names: object) -> None:
    @pass_factory(opt_level=0)
    def Listed(mod: IRModule, names: str | Sequence[int] | None = None) -> IRModule:
        """Take numbers."""
        return mod

    listed: Any = Listed
    assert listed(names=(1, 2)).options == {"names": (1, 2)}
    message = "Listed: the option `names` must be str or a list of int or None, but "
    with pytest.raises(TypeError, match=re.escape(message)):
        listed(names=names)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sizes": "ab"}, "`sizes` must be a dict from str to a list of int or None, but 'ab' of"),
        ({"sizes": {"a": 1}}, "`sizes` must be a dict from str to a list of int or None, but {'a'"),
        ({"sizes": {1: [1]}}, "`sizes` must be a dict from str to a list of int or None, but {1:"),
        ({"any_keys": [1]}, "`any_keys` must be a dict from anything to int or None, but [1] of"),
        (
            {"change": "x"},
            "`change` must be a function or int or None, but 'x' of type str was given",
        ),
        (
            {"pairs": [3]},
            "`pairs` must be a list of str or a tuple, but [3] of type list was given",
        ),
    ],
)
def test_mappings_functions_and_tuples_are_checked(options: dict[str, Any], said: str) -> None:
    @pass_factory(opt_level=0)
    def Tables(
        mod: IRModule,
        sizes: Mapping[str, Sequence[int]] | None = None,
        any_keys: Mapping[Any, int] | None = None,
        change: Callable[[Function], bool] | int | None = None,
        pairs: Sequence[str | tuple[Any, ...]] = (),
    ) -> IRModule:
        """Take tables."""
        return mod

    tables: Any = Tables
    right = {"sizes": {"a": [1]}, "any_keys": {2: 3}, "change": bool, "pairs": ["a", ("b", 1)]}
    assert tables(**right).options == right
    with pytest.raises(TypeError, match=re.escape(f"Tables: the option {said}")):
        tables(**options)


@pytest.mark.parametrize("program", [module(), module()["main"]])
def test_a_program_in_the_place_of_an_option_is_not_printed(program: Any) -> None:
    found = f"must be str or GlobalVar, but {type(program).__name__} was given$"
    with pytest.raises(TypeError, match=found):
        Gradient(program)


def test_protocols_and_anything_are_not_checked() -> None:
    """A pass itself knows best what these must hold."""

    class Small(Protocol):
        def size(self) -> int: ...

    @pass_factory(opt_level=0)
    def Loose(
        mod: IRModule,
        small: Small | None = None,
        anything: Any = 0,
        part: float = 0.5,
        flag: bool = False,
    ) -> IRModule:
        """Take anything."""
        return mod

    loose: Any = Loose
    for options in ({"small": 3}, {"anything": "x"}, {"part": 1}, {"flag": True}):
        assert loose(**options).options == options


def test_a_pass_takes_a_module() -> None:
    mod = module()
    message = r"the pass `Normalize` takes an IRModule, found Function: write `IRModule.from_expr"
    with pytest.raises(TypeError, match=message):
        get_pass("Normalize")()(mod["main"])
    with pytest.raises(TypeError, match="the pass `Normalize` takes an IRModule, found int"):
        get_pass("Normalize")()(3)  # type: ignore[arg-type]  # wrong on purpose


def test_a_pass_must_return_a_module() -> None:
    @pass_factory(opt_level=0)
    def Forgetful(mod: IRModule) -> IRModule:
        """Forget to return."""
        return None  # type: ignore[return-value]  # wrong on purpose

    @pass_factory(opt_level=0)
    def Confused(mod: IRModule) -> IRModule:
        """Return a function."""
        return mod["main"]  # type: ignore[no-any-return]  # wrong on purpose

    message = "`Forgetful` must return an IRModule, but it returned None: is its `return` missing?"
    with pytest.raises(TypeError, match=message):
        Forgetful()(module())
    match = "`Confused` must return an IRModule, but it returned Function"
    with pytest.raises(TypeError, match=match):
        Confused()(module())


def test_a_function_pass_must_return_a_function() -> None:
    @pass_factory(opt_level=0, kind="function")
    def Wrong(function: Function, mod: IRModule) -> Function:
        """Return the body."""
        return function.body  # type: ignore[return-value]  # wrong on purpose

    with pytest.raises(TypeError, match="`Wrong` must return a Function, but it returned SeqExpr"):
        Wrong()(module())


def test_an_error_keeps_its_type_and_names_pass_function_and_line() -> None:
    @pass_factory(opt_level=0, kind="function")
    def Fails(function: Function, mod: IRModule) -> Function:
        """Fail in the second function."""
        if function.global_symbol == "g":
            with located(Span("model.py", 7)):
                raise KeyError("lost")
        return function

    with pytest.raises(KeyError, match="lost") as error:
        Fails()(module("f", "g"))
    assert error.value.__notes__ == [
        "  at model.py:7:1",
        "in the function `g`",
        "in the pass `Fails`",
    ]


def test_an_error_with_a_line_leads_to_the_function_of_a_module_pass() -> None:
    """The function is the one in whose text the line lies, even where the pass does not say it."""

    @pass_factory(opt_level=0)
    def Fails(mod: IRModule) -> IRModule:
        """Fail somewhere."""
        with located(Span("model.py", 7)):
            raise RuntimeError("broken")

    mod = module("f", "g")
    spans = {"f": Span("model.py", 2, end_line=4), "g": Span("model.py", 6, end_line=9)}
    mod = mod.with_functions({name: _spanned(mod[name], span) for name, span in spans.items()})
    with pytest.raises(RuntimeError, match="broken") as error:
        Fails()(mod)
    assert error.value.__notes__ == [
        "  at model.py:7:1",
        "in the function `g`",
        "in the pass `Fails`",
    ]


def test_an_error_without_a_line_shows_the_function() -> None:
    @pass_factory(opt_level=0, kind="function")
    def Fails(function: Function, mod: IRModule) -> Function:
        """Fail."""
        raise ValueError("broken")

    mod = module("f")
    mod = mod.with_function("f", _spanned(mod["f"], Span("model.py", 2, end_line=4)))
    with pytest.raises(ValueError, match="broken") as error:
        Fails()(mod)
    assert error.value.__notes__[0] == "  at model.py:2:1"


def _spanned(function: Function, span: Span) -> Function:
    body, params = function.body, function.params
    return Function(params, body, function.ret_ty, function.pure, function.attrs, span=span)
