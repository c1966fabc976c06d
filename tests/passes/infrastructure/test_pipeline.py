"""Pipelines as text: what is read, what is written, and what is shown where the text is wrong."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaxjax.ir import GlobalVar, IRModule, TensorType, Var
from relaxjax.passes.infrastructure.base import FACTORIES, pass_factory
from relaxjax.passes.infrastructure.decorators import module_pass
from relaxjax.passes.infrastructure.kinds import Pass
from relaxjax.passes.infrastructure.pipeline import PipelineError, parse_pipeline, pipeline_text
from relaxjax.passes.infrastructure.sequential import Sequential


@pytest.fixture(scope="module", autouse=True)
def _declared() -> Iterator[None]:
    """Two passes declared for these tests: one with options, one without."""
    before = dict(FACTORIES)

    @pass_factory(opt_level=0)
    def Differentiate(
        mod: IRModule,
        func_name: str | GlobalVar,
        require_grads: Any = None,
        target_index: int = 0,
        target_name: str | None = None,
        scale: float = 1.0,
    ) -> IRModule:
        """Take options of every kind."""
        return mod

    @pass_factory(opt_level=0)
    def Plain(mod: IRModule) -> IRModule:
        """Take none."""
        return mod

    yield
    FACTORIES.clear()
    FACTORIES.update(before)


def names(text: str) -> list[str]:
    return [item.info.name for item in parse_pipeline(text).passes]


def options(text: str) -> dict[str, Any]:
    (item,) = parse_pipeline(text).passes
    return dict(item.options)


def test_names() -> None:
    assert names("Plain") == ["Plain"]
    assert names("Plain,DeadCodeElimination,Plain") == ["Plain", "DeadCodeElimination", "Plain"]
    assert names(" Plain ,\n Normalize , ") == ["Plain", "Normalize"]
    assert names("Plain{}, Normalize{ }") == ["Plain", "Normalize"]
    assert names("") == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("main", "main"),
        ("relax.nn.relu-2", "relax.nn.relu-2"),
        ('"two words"', "two words"),
        ("'single \\ quotes'", "single \\ quotes"),
        (r'"a \"b\" ☃ \n"', 'a "b" ☃ \n'),
        ('"3"', "3"),
        ("3", 3),
        ("-3", -3),
        ("2.5", 2.5),
        ("-1e-3", -0.001),
        (".5", 0.5),
        ("1.", 1.0),
        ("-inf", float("-inf")),
        ("50%", "50%"),
        ("1.5GiB", "1.5GiB"),
        ("True", True),
        ("true", True),
        ("False", False),
        ("false", False),
        ("None", None),
        ("[]", []),
        ("[x]", ["x"]),
        ("[ x, 3, [y, None], ]", ["x", 3, ["y", None]]),
        ('{relax.nn.conv2d=[NHWC, OHWI], "two words"=1}', None),
    ],
)
def test_values(text: str, value: object) -> None:
    found = options(f"Differentiate{{func_name=main, require_grads={text}}}")["require_grads"]
    if text.startswith("{"):
        value = {"relax.nn.conv2d": ["NHWC", "OHWI"], "two words": 1}
    assert (type(found), found) == (type(value), value)


def test_an_option_may_be_shortened_while_it_is_clear() -> None:
    assert options("Differentiate{func=main}") == {"func_name": "main"}
    assert options("Differentiate{func=main,target_i=1}") == {
        "func_name": "main",
        "target_index": 1,
    }


ROUND_TRIPS = [
    "",
    "Plain",
    "Plain,Normalize,Plain",
    "Differentiate{func_name=main}",
    "Differentiate{func_name=main,require_grads=[x,y],target_index=1}",
    'Differentiate{func_name="two words",scale=0.5}',
    'Differentiate{func_name="True",require_grads=[None,"None",1.0,-inf,"nan",[]]}',
    'Differentiate{func_name=f,require_grads={relax.nn.conv2d=[NHWC],"a b"={}}}',
]


@pytest.mark.parametrize("text", ROUND_TRIPS)
def test_the_text_of_a_pipeline_reads_back(text: str) -> None:
    assert pipeline_text(parse_pipeline(text)) == text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(name=st.text(), value=VALUES)
def test_any_option_reads_back(name: str, value: object) -> None:
    text = pipeline_text(FACTORIES["Differentiate"](name, value))
    (read,) = parse_pipeline(text).passes
    assert dict(read.options) == (
        {"func_name": name} if value is None else {"func_name": name, "require_grads": value}
    )


def test_the_text_of_passes_made_in_python() -> None:
    make: Any = FACTORIES["Differentiate"]
    assert pipeline_text(make(GlobalVar("main"))) == "Differentiate{func_name=main}"
    assert (
        pipeline_text(make("main", ("x",), 0)) == "Differentiate{func_name=main,require_grads=[x]}"
    )
    passes: list[Pass] = [FACTORIES["Plain"](), FACTORIES["Normalize"]()]
    assert pipeline_text(passes) == "Plain,Normalize"
    assert pipeline_text(Sequential([Sequential(passes), *passes])) == (
        "Plain,Normalize,Plain,Normalize"
    )


def test_the_text_keeps_what_differs_from_the_default_in_type_alone() -> None:
    make: Any = FACTORIES["Differentiate"]
    assert pipeline_text(make("f", scale=1)) == "Differentiate{func_name=f,scale=1}"
    assert pipeline_text(make("f", scale=1.0)) == "Differentiate{func_name=f}"


def test_what_has_no_text() -> None:
    make: Any = FACTORIES["Differentiate"]
    x = Var("x", TensorType((3,), "float32"))
    message = (
        "the option `require_grads` of `Differentiate` holds .* of type Var, which has no text"
    )
    with pytest.raises(PipelineError, match=message):
        pipeline_text(make("f", [x]))

    @module_pass(opt_level=0)
    def own(mod: IRModule, ctx: object) -> IRModule:
        return mod

    with pytest.raises(PipelineError, match="the pass `own` is not declared with `pass_factory`: "):
        pipeline_text(own)
    match = "the sequence `s` has an opt level or requirements of "
    with pytest.raises(PipelineError, match=match):
        pipeline_text(Sequential([], opt_level=1, name="s"))


WRONG = r"""
Plain,Normalise
      ^^^^^^^^^
there is no pass `Normalise`; did you mean `Normalize`?

Differentiate{func_name=f,target_indx=1}
                          ^^^^^^^^^^^
`Differentiate` has no option `target_indx`: its options are `func_name`, `require_grads`, \
`target_index`, `target_name`, `scale`; did you mean `target_index` or `target_name`?

Plain{x=1}
      ^
`Plain` has no option `x`: it has none

Differentiate{func=f,target=1}
                     ^^^^^^
`target` could be any of the options `target_index`, `target_name`

Differentiate{func=f,func_name=g}
                     ^^^^^^^^^
the option `func_name` of `Differentiate` is given twice

Differentiate
^^^^^^^^^^^^^
Differentiate(func_name, require_grads, target_index, target_name, scale): \
the option `func_name` is missing

Differentiate{func=f,target_i=x}
^^^^^^^^^^^^^
Differentiate: the option `target_index` must be int, but 'x' of type str was given

Plain Plain
      ^^^^^
expected `,` or the end of the text, found `Plain`

,Plain
^
expected the name of a pass, found `,`

Plain,3
      ^
expected the name of a pass, found `3`

Differentiate{func=f
                    ^
expected `,` or `}`, found the end of the text

Differentiate{func f}
                   ^
expected `=`, found `f`

Differentiate{func=}
                   ^
expected a value, found `}`

Differentiate{=f}
              ^
expected the name of an option of `Differentiate`, found `=`

Differentiate{func=[a b]}
                      ^
expected `,` or `]`, found `b`

Differentiate{func=f,req={3=4}}
                          ^
expected a name, found `3`

Differentiate{func="f}
                   ^
the string that begins with `"` has no end

Differentiate{func="\x"}
                   ^^^^
the string "\x" is malformed: Invalid \escape

Plain;Plain
     ^
`;` has no meaning in a pipeline

Differentiate{func=f,target_index=3x}
                                  ^^
`3x` has no meaning in a pipeline
"""


@pytest.mark.parametrize("case", WRONG.replace("\\\n", "").strip().split("\n\n"))
def test_a_wrong_text_shows_the_place(case: str) -> None:
    text, carets, message = case.split("\n")
    with pytest.raises(PipelineError) as error:
        parse_pipeline(text)
    assert str(error.value) == f"{message}\n    {text}\n    {carets}"
    assert isinstance(error.value, ValueError)


PIECES = st.sampled_from(["Plain", "Differentiate", "func", *'{}[]=,"3.-e \n', "None", "é", "\\"])


@given(st.lists(PIECES).map("".join))
def test_any_other_text_is_refused_in_the_same_way(text: str) -> None:
    try:
        read = parse_pipeline(text)
    except PipelineError:
        return
    assert repr(parse_pipeline(pipeline_text(read))) == repr(read)


def test_a_wrong_text_of_several_lines_shows_the_line() -> None:
    with pytest.raises(PipelineError) as error:
        parse_pipeline("Plain,\nPlane,Plain")
    assert str(error.value) == (
        "there is no pass `Plane`; did you mean `Plain`?\n    Plane,Plain\n    ^^^^^"
    )
