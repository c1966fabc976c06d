"""Programs for the tests of scripts: read from text, and seen as lists of what they bind."""

from textwrap import dedent, indent
from typing import Any

from relaxjax.ir import Expr, Function, IRModule, TensorType, assert_structural_equal
from relaxjax.script import from_source

MATRIX = TensorType((2, 3), "float32")


def function(body: str, params: str = 'x: R.Tensor((2, 3), "float32")', head: str = "") -> Function:
    """A function `f` of the given body, which must also survive printing and reading back."""
    result = from_source(f"{head}\n@R.function\ndef f({params}):\n{indent(dedent(body), '    ')}")
    assert isinstance(result, Function)
    round_trip(result)
    return result


def module(text: str, **extra_vars: Any) -> IRModule:
    """The module of a text, which must also survive printing and reading back."""
    result = from_source(dedent(text), extra_vars)
    assert isinstance(result, IRModule)
    round_trip(result)
    return result


def round_trip(program: Function | IRModule) -> None:
    assert_structural_equal(from_source(program.script()), program)


def values(program: Function) -> list[Expr]:
    """What the function binds, in order; not what its branches and closures bind."""
    return [binding.value for binding in program.body.bindings()]


def names(program: Function) -> list[str]:
    """The names that it binds, in order."""
    return [binding.var.name for binding in program.body.bindings()]


def statements(program: Function) -> list[str]:
    """The lines of the body as they are printed, without types."""
    text = str(program.script(show_all_types=False))
    return dedent(text.split(":\n", 1)[1]).splitlines()
