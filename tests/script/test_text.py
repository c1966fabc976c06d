"""Texts: their imports, the values before a program, macros, and the places of things."""

import sys
from textwrap import dedent

import numpy as np
import pytest
from script_programs import MATRIX, function, module, names, round_trip, statements

from relaxjax.ir import Constant, Function, IRModule, TensorType, const
from relaxjax.script import ScriptError, from_source


@pytest.mark.parametrize(
    "head",
    [
        "# from tvm.script import ir as J\n# from tvm.script import relax as Q",
        "from tvm.script import ir as J, relax as Q",
        "from tvm.script.parser import ir as J\nfrom relaxjax.script import relax as Q",
        "import relaxjax.script as s\nJ = s.ir\nQ = s.relax",
        "import tvm\nfrom tvm.script import relax as Q\nJ = tvm.script",
        "from __future__ import annotations\nfrom relaxjax.script import ir as J, relax as Q",
    ],
)
def test_the_names_of_the_vocabulary_are_those_of_the_imports(head: str) -> None:
    text = f"""{head}
@J.ir_module(check_well_formed=True)
class Anything:
    @Q.function
    def main(x: Q.Tensor((2, 3), "float32")):
        return Anything.g(x)
    @Q.function
    def g(x: Q.Tensor((2, 3), "float32")):
        return Q.add(x, x)
"""
    assert module(text)["main"].ret_ty == MATRIX


def test_values_before_the_program() -> None:
    found = from_source(
        dedent('''
        """Documentation."""
        from relaxjax.script import ir_module, relax as R
        batch_size = 64
        hidden, out = [batch_size * 2, "float32"]
        widths: list = [8, 9]
        @ir_module
        class Module:
            @R.function
            def main(x: R.Tensor((batch_size, hidden, *widths), out)):
                return R.add(x, bias)
        '''),
        {"bias": const(1.0, "float32")},
    )
    assert isinstance(found, IRModule)
    assert found["main"].ret_ty == TensorType((64, 128, 8, 9), "float32")


def test_constants_that_stand_before_the_program() -> None:
    result = from_source(
        "@R.function\ndef f(x: R.Tensor((5, 8), 'int16')):\n    return R.add(x, c)",
        {"c": Constant(np.arange(40, dtype="int16").reshape(5, 8))},
    )
    assert "metadata = tvm.ir.load_json(" in result.script()
    round_trip(result)


def test_macros() -> None:
    """Their statements are written out where they are used. A hygienic one knows its own names."""
    found = function(
        """
        k = R.multiply(x, x)
        y = affine(x, b=3.0)
        z = uses_k()
        with R.dataflow():
            w = affine(y)
            R.output(w)
        return R.add(w, z)
        """,
        head=dedent("""
        scale = 2.0
        @R.macro
        def affine(a, b=1.0):
            t = R.multiply(a, R.const(scale, "float32"))
            return R.add(t, R.const(b, "float32"))
        @R.macro(hygienic=False)
        def uses_k():
            return k
        """),
    )
    assert statements(found) == [
        "k = R.multiply(x, x)",
        't = R.multiply(x, R.const(2.0, "float32"))',
        'y = R.add(t, R.const(3.0, "float32"))',
        "z = k",
        "with R.dataflow():",
        '    t_1 = R.multiply(y, R.const(2.0, "float32"))',
        '    w = R.add(t_1, R.const(1.0, "float32"))',
        "    R.output(w)",
        "gv = R.add(w, z)",
        "return gv",
    ]


def test_every_piece_knows_its_place() -> None:
    text = """@R.function
def f(x: R.Tensor((2, 3), "float32")):
    with R.dataflow():
        y = R.add(R.multiply(x, x), x)  # ö
        ö = "ö" and R.add(y, y)
        R.output(ö)
    return ö
"""
    found = from_source(text, file="seven_lines.py")
    assert isinstance(found, Function)
    inner, outer, last = found.body.bindings()
    places = {
        "function": found,
        "parameter": found.params[0],
        "call": inner.value,
        "outer call": outer.value,
        "variable": outer.var,
        "binding": outer,
        "after ö": last.value,
        "inner variable": inner.var,
    }
    assert {name: str(node.span) for name, node in places.items()} == {
        "function": "seven_lines.py:2:1",
        "parameter": "seven_lines.py:2:7",
        "call": "seven_lines.py:4:19",
        "outer call": "seven_lines.py:4:13",
        "variable": "seven_lines.py:4:9",
        "binding": "seven_lines.py:4:9",
        "after ö": "seven_lines.py:5:21",
        "inner variable": "seven_lines.py:4:19",
    }
    assert inner.value.span is not None
    assert inner.value.span.excerpt().splitlines()[1:] == [
        "    y = R.add(R.multiply(x, x), x)  # ö",
        "              ^^^^^^^^^^^^^^^^",
    ]


def test_well_formedness_is_checked_unless_told_otherwise() -> None:
    text = """
        @R.function({options})
        def f(x: R.Tensor((2, 3), "float32")):
            n = T.int64()
            y = R.zeros((n,), "float32")
            z = R.call_packed("g", x)
            return x
        """
    found = from_source(dedent(text.format(options="check_well_formed=False")))
    assert isinstance(found, Function)
    assert names(found) == ["y", "z"]


TYPE_PARAMETERS = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="type parameters are syntax of Python 3.12"
)


@TYPE_PARAMETERS
@pytest.mark.parametrize("declared", ["n", "n: T.int64", "n: int"])
def test_dimensions_as_type_parameters(declared: str) -> None:
    text = f"@R.function\ndef f[{declared}](x: R.Tensor((n, 'n * 2'))) -> R.Tensor((n, 2 * n)):\n"
    found = from_source(text + "    return x")
    assert isinstance(found, Function)
    assert str(found.params[0].ty) == "R.Tensor((n, n * 2))"
    assert found.ret_ty == found.params[0].ty


@TYPE_PARAMETERS
@pytest.mark.parametrize("declared", ["*n", "**n", "n: T.int32", "n: float"])
def test_type_parameters_that_are_no_dimensions(declared: str) -> None:
    with pytest.raises(ScriptError, match="`n` declares no symbolic dimension") as caught:
        from_source(f"@R.function\ndef f[{declared}]():\n    return R.tuple()")
    assert caught.value.lineno == 2
