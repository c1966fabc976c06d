"""The scripts that the catalogue shows are true, and every pass has some."""

import ast
from importlib.resources import files

import numpy as np
import pytest
from parsing import parse_functions, parse_module

import relaxjax.dpl
import relaxjax.losses
import relaxjax.optim
import relaxjax.passes
from relaxjax.cli.passes import Example, examples, examples_text
from relaxjax.ir import IRModule, TensorType, assert_structural_equal
from relaxjax.ir.global_info import VDevice
from relaxjax.passes.infrastructure.base import FACTORIES

NAMES = {
    **vars(relaxjax.dpl),
    **vars(relaxjax.passes),
    **vars(relaxjax.losses),
    **vars(relaxjax.optim),
    "np": np,
    "TensorType": TensorType,
    "VDevice": VDevice,
}

EXAMPLES = {
    f"{name}-{index}": example
    for name in FACTORIES
    for index, example in enumerate(examples(examples_text(name)))
}


def test_every_pass_has_an_example() -> None:
    assert [name for name in FACTORIES if not examples(examples_text(name))] == []


@pytest.mark.parametrize("name", FACTORIES)
def test_no_script_goes_unread(name: str) -> None:
    """A heading in another form would not be found, and nobody would notice."""
    text = "\n" + examples_text(name)
    assert len(examples(text)) == text.count("\nBefore") == text.count("\nAfter")


def test_examples_are_of_passes() -> None:
    assert {path.name for path in (files("relaxjax.passes") / "examples").iterdir()} == {
        f"{name}.md" for name in FACTORIES
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_pass_makes_of_one_script_the_other(name: str) -> None:
    example = EXAMPLES[name]
    changed = eval(example.made, NAMES)(parsed(example.before))
    assert_structural_equal(changed, parsed(completed(example, changed)))


def parsed(script: str) -> IRModule:
    """The module that functions make, or that is written as one."""
    return parse_module(script) if script.startswith("@I.") else parse_functions(script)


def completed(example: Example, made: IRModule) -> str:
    """The script after a pass, with what it leaves out.

    Functions that the pass leaves as they are may be left out, and the body of a function may be
    `...`, where its signature says enough.
    """
    tree = ast.parse(example.after)
    shown, before = functions(tree), functions(ast.parse(example.before))
    written = functions(ast.parse(made.script()))
    for name, function in shown.items():
        if [ast.unparse(line) for line in function.body] == ["..."]:
            function.body = written[name].body
    scope(tree).extend(before[name] for name in written if name not in shown)
    return ast.unparse(tree)


def functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in scope(tree) if isinstance(node, ast.FunctionDef)}


def scope(tree: ast.Module) -> list[ast.stmt]:
    """The statements among which the functions of a module are."""
    first = tree.body[0]
    return first.body if isinstance(first, ast.ClassDef) else tree.body


def test_examples_are_found_in_a_text() -> None:
    text = """
Before:

    a = b

    c = d

After `Documented(1)`:

    e = f

Before:

    g

After `Documented(2)`:

    h
"""
    assert examples(text) == [
        Example("a = b\n\nc = d", "Documented(1)", "e = f"),
        Example("g", "Documented(2)", "h"),
    ]


def test_a_pass_of_ones_own_has_no_examples_here() -> None:
    assert examples_text("ForgetAttribute") == ""
