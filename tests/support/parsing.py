"""Modules from script text, for tests."""

from textwrap import dedent

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.script import from_source


def parse_module(text: str) -> IRModule:
    """The module that a text defines."""
    module = from_source(text)
    assert isinstance(module, IRModule)
    return module


def parse_functions(text: str) -> IRModule:
    """A module of the functions that a text defines, written without the class round them."""
    lines = "\n".join(f"    {line}" for line in dedent(text).strip("\n").splitlines())
    return parse_module(f"@I.ir_module\nclass Module:\n{lines}\n")


def parse_function(text: str) -> Function:
    """The one function that a text defines."""
    (function,) = parse_functions(text).relax_functions().values()
    return function
