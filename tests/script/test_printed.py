"""Texts that a program was printed as, told from texts that would set Python to work."""

import pytest
from hypothesis import given, settings
from strategies import modules

from relaxjax.ir.module import IRModule
from relaxjax.ir.printer import print_apart
from relaxjax.script import ScriptError, from_source
from relaxjax.script.printed import PRINTED_NAMES, check_printed
from relaxjax.script.source import text_source

MODULE = """
@I.ir_module
class Module:
    I.module_attrs({"a": [1, -2.5, float("-inf"), complex(1.0, 2.0), True, None, {"b": "c"}]})
    f = R.ExternFunc("f")

    @R.function(private=True)
    def main(x: R.Tensor(("n", "n * 2 + 1", "T.max(n, 4) // 3"), "float32")) -> R.Object:
        n = T.int64()
        cls = Module
        with R.dataflow():
            lv: R.Tuple(R.Object) = (cls.f(x, metadata["ir.GenericConst"][0]),)
            R.output(lv)
        if R.const(True, "bool"):
            y = R.reshape(x, R.shape([n * (n * 2 + 1), -1]))
        else:
            y = lv[0]
        R.print(y)
        return y
"""

FUNCTION = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Object:
        max = {}
        return max

    @R.function
    def other(x: R.Tensor((2,), "float32")) -> R.Object:
        return x
"""

CLOSURE = """
        @R.function
        def sum(y: R.Tensor((2,), "float32")) -> R.Object:
            return y

        max = sum(x)
"""


def check(text: str) -> None:
    check_printed(text_source(text))


def test_what_is_printed_passes() -> None:
    check(MODULE)


def test_layouts_pass() -> None:
    layout = "T.index_map(lambda a, b: (a, b // 2, b % 2))"
    check(MODULE.replace("R.print(y)", f"z = R.layout_transform(y, index_map={layout})"))


@given(modules())
@settings(max_examples=30)
def test_every_printed_module_passes(mod: IRModule) -> None:
    check(print_apart(mod)[0])


@pytest.mark.parametrize(
    "expression",
    [
        "9**9**9",
        "1 << 1000000000",
        "[0] * 10000000000",
        "'a' * 10000000000",
        "(0, 0) * 10000000000",
        "[x for x in y]",
        "{x for x in y}",
        "(lambda: 1)()",
        "T.index_map(lambda a: [a for a in b])",
        "R.index_map(lambda a: a)",
        "f'{x:>1000000000}'",
        "R.add(x, y) if z else y",
        "(y := x)",
        "not x",
        "x < y",
    ],
)
def test_what_would_set_python_to_work_is_refused(expression: str) -> None:
    text = MODULE.replace("R.print(y)", f"R.print({expression})")
    with pytest.raises(ScriptError, match="this is nothing that the printed script of a module"):
        check(text)


def test_functions_of_pythons_own_are_not_called() -> None:
    text = FUNCTION.format("sum(range(1000000000000))")
    check(text)
    with pytest.raises(ScriptError, match="script of a module calls no function of Python's"):
        from_source(text, PRINTED_NAMES)


def test_functions_of_a_program_may_bear_their_names() -> None:
    mod = from_source(FUNCTION.replace("        max = {}", CLOSURE), PRINTED_NAMES)
    check(print_apart(mod)[0])


@pytest.mark.parametrize("value", ["[0]", "{}", "'a'", "7", "2 * n"])
def test_values_of_pythons_own_get_no_names(value: str) -> None:
    """What a name stands for would have to be followed otherwise: `a * 10000000000`."""
    with pytest.raises(ScriptError, match="nothing that the printed script"):
        check(MODULE.replace("R.print(y)", f"a = {value}"))
    with pytest.raises(ScriptError, match="nothing that the printed script"):
        check(MODULE.replace("R.print(y)", f"a: R.Object = {value}"))


@pytest.mark.parametrize("statement", ["import os", "x = R.const(1)", "for i in y: pass", "f()"])
def test_nothing_stands_beside_the_module(statement: str) -> None:
    with pytest.raises(ScriptError, match="nothing that the printed script"):
        check(f"{statement}\n{MODULE}")
