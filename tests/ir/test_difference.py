"""What changed between two programs: only that, under the names of functions."""

import sys
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from parsing import parse_functions

import relaxjax
from relaxjax import Constant, Function, IRModule, from_source
from relaxjax.passes import DeadCodeElimination, Gradient, LegalizeOps

BEFORE = """
@R.function
def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    a = R.add(x, y)
    b = R.exp(a)
    c = R.multiply(b, y)
    d = R.sin(c)
    e = R.cos(d)
    return e
"""


def function(text: str) -> Function:
    read = from_source(text)
    assert isinstance(read, Function)
    return read


def changed(before: str, after: str) -> list[str]:
    """The lines that differ, without their indentation."""
    found = relaxjax.diff(function(before), function(after))
    return [
        f"{sign} {text.strip()}"
        for one in found.functions
        for sign, text in one.lines()
        if sign in "+-"
    ]


def test_the_same_program_has_no_difference() -> None:
    found = relaxjax.diff(function(BEFORE), function(BEFORE))
    assert not found
    assert str(found) == "# nothing changed"
    assert repr(found) == "<ModuleDiff of nothing>"


def test_a_removed_line_stands_alone_with_its_neighbours() -> None:
    unused = BEFORE.replace("    b = ", "    unused = R.subtract(x, y)\n    b = ")
    before = IRModule.from_expr(function(unused))
    found = relaxjax.diff(before, DeadCodeElimination()(before))
    assert str(found) == dedent("""\
        # main: 1 line removed
          ) -> R.Tensor((3,), dtype="float32"):
              a: R.Tensor((3,), dtype="float32") = R.add(x, y)
        -     unused: R.Tensor((3,), dtype="float32") = R.subtract(x, y)
              b: R.Tensor((3,), dtype="float32") = R.exp(a)
              c: R.Tensor((3,), dtype="float32") = R.multiply(b, y)""")


def test_other_names_are_no_change() -> None:
    renamed = BEFORE
    for old, new in (("a", "f"), ("b", "g"), ("c", "h"), ("d", "i"), ("e", "j")):
        renamed = renamed.replace(f"    {old} =", f"    {new} =").replace(f"({old}", f"({new}")
    renamed = renamed.replace("return e", "return j")
    assert changed(BEFORE, renamed) == []
    assert not relaxjax.diff(function(BEFORE), function(renamed))


def test_renumbered_variables_do_not_hide_what_changed() -> None:
    """A new binding at the front gives all others another number."""
    before = """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    gv = R.exp(x)
    gv1 = R.add(gv, x)
    gv2 = R.sin(gv1)
    return gv2
"""
    after = """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    gv = R.tanh(x)
    gv1 = R.exp(gv)
    gv2 = R.add(gv1, x)
    gv3 = R.sin(gv2)
    return gv3
"""
    kind = 'R.Tensor((3,), dtype="float32")'
    assert changed(before, after) == [
        f"+ gv: {kind} = R.tanh(x)",
        f"- gv: {kind} = R.exp(x)",
        f"+ gv1: {kind} = R.exp(gv)",
    ]
    text = str(relaxjax.diff(function(before), function(after)))
    assert f"      gv2: {kind} = R.add(gv1, x)  # gv1 before\n" in text


def test_another_operand_of_the_same_shape_is_a_change() -> None:
    lines = changed(BEFORE, BEFORE.replace("R.multiply(b, y)", "R.multiply(b, x)"))
    kind = 'R.Tensor((3,), dtype="float32")'
    assert lines == [f"- c: {kind} = R.multiply(b, y)", f"+ c: {kind} = R.multiply(b, x)"]


def test_parameters_differ_one_by_one() -> None:
    after = BEFORE.replace('y: R.Tensor((3,), "float32"))', 'y: R.Tensor((3,), "float64"))', 1)
    after = after.replace("R.add(x, y)", "R.add(x, x)").replace("(b, y)", "(b, x)")
    lines = changed(BEFORE, after)
    assert lines[:2] == [
        '- y: R.Tensor((3,), dtype="float32"),',
        '+ y: R.Tensor((3,), dtype="float64"),',
    ]


def test_hunks_far_from_each_other_are_apart() -> None:
    after = BEFORE.replace("R.add(x, y)", "R.subtract(x, y)").replace("R.cos(d)", "R.tan(d)")
    after = after.replace("    c = ", "    extra = R.abs(b)\n    c = ")
    long = "".join(f"    z{i} = R.negative(x)\n" for i in range(9))
    before, after = (text.replace("    d = ", f"{long}    d = ") for text in (BEFORE, after))
    (one,) = relaxjax.diff(function(before), function(after)).functions
    assert len(one.hunks) == 2
    assert [sign for sign, _ in one.lines()].count("…") == 1
    assert (one.removed, one.added) == (2, 3)


def test_functions_come_and_go() -> None:
    text = BEFORE.replace("R.cos(d)", "R.sum(d)").replace(
        ' -> R.Tensor((3,), "float32")', ' -> R.Tensor((), "float32")'
    )
    before = IRModule.from_expr(function(text))
    after = Gradient("main")(before)
    (one,) = relaxjax.diff(before, after).functions
    assert (one.name, one.kind) == ("main_adjoint", "new")
    assert str(relaxjax.diff(before, after)).startswith(
        f"# main_adjoint: new, {one.added} lines\n+ def main_adjoint(\n"
    )
    (gone,) = relaxjax.diff(after, before).functions
    assert gone.title == f"main_adjoint: removed, {one.added} lines"


def test_attributes_and_outside_functions_are_compared_too() -> None:
    module = parse_functions("""
    I.module_attrs({"param_num": 1})
    far = R.ExternFunc("far")
""")
    other = module.with_attrs({"param_num": 2}).without_functions("far")
    assert str(relaxjax.diff(module, other)) == dedent("""\
        # attributes of the module: 1 line removed, 1 line added
        - param_num: 1
        + param_num: 2
        # far: removed, 1 line
        - far = R.ExternFunc("far")""")


def test_a_constant_that_no_line_shows_is_told_of() -> None:
    def main(value: float) -> IRModule:
        constant = Constant(np.full((100,), value, "float32"))
        text = BEFORE.replace("(3,)", "(100,)")
        return IRModule.from_expr(relaxjax.ir.bind_params(function(text), {"y": constant}))

    assert not relaxjax.diff(main(1.0), main(1.0))
    assert str(relaxjax.diff(main(1.0), main(2.0))) == (
        "# main: what is left out of the text changed, such as big constants"
    )


def test_a_terminal_gets_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = relaxjax.diff(function(BEFORE), function(BEFORE.replace("R.exp", "R.log")))
    found.show()
    assert capsys.readouterr().out == f"{found}\n"
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    found.show()
    shown = capsys.readouterr().out
    assert "\x1b[31m-     b: " in shown
    assert "\x1b[32m+     b: " in shown
    monkeypatch.setenv("NO_COLOR", "1")
    found.show()
    assert capsys.readouterr().out == f"{found}\n"


def test_a_notebook_gets_it_escaped() -> None:
    before, after = (IRModule(attrs={"note": text}) for text in ("</script>", "<b>&"))
    page = relaxjax.diff(before, after)._repr_html_()
    assert "&lt;/script&gt;" in page
    assert "&lt;b&gt;&amp;" in page
    assert "<b>" not in page


def test_something_else_than_a_program_is_an_error() -> None:
    given: Any = "main"
    with pytest.raises(TypeError, match="`diff` takes an IRModule, found str"):
        relaxjax.diff(given, IRModule())


def test_a_long_program_that_changes_everywhere_is_compared_in_time() -> None:
    """Each line is another afterwards, and thousands have the same shape."""
    body = "".join(f"    v{i + 1} = R.exp(v{i})\n" for i in range(1500))
    text = f"""
@R.function
def main(v0: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
{body}    return v1500
"""
    module = IRModule.from_expr(function(text))
    (one,) = relaxjax.diff(module, LegalizeOps()(module)).functions
    assert (one.removed, one.added) == (1500, 1500)


def test_a_long_program_is_compared_in_time_though_all_variables_are_called_otherwise() -> None:
    def program(first: str, name: str) -> Function:
        body = "".join(f"    {name}{i + 1} = R.exp({name}{i})\n" for i in range(1500))
        return function(f"""
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    {name}0 = R.{first}(x)
{body}    return {name}1500
""")

    (one,) = relaxjax.diff(program("sin", "v"), program("cos", "w")).functions
    assert (one.removed, one.added) == (1, 1)
