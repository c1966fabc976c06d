"""The scripts in the docstrings of passes are true, and every pass has some."""

import ast

import numpy as np
import pytest
from parsing import parse_functions, parse_module

import relaxjax.dpl
import relaxjax.losses
import relaxjax.optim
import relaxjax.passes
from relaxjax.ir.global_info import VDevice
from relaxjax.ir.module import IRModule
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ir.types import TensorType
from relaxjax.passes import pass_factory
from relaxjax.passes.examples import Example, examples
from relaxjax.passes.registry import FACTORIES

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
    for name, factory in FACTORIES.items()
    for index, example in enumerate(examples(factory))
}


def test_every_pass_has_an_example() -> None:
    assert [name for name, factory in FACTORIES.items() if not examples(factory)] == []


@pytest.mark.parametrize("name", FACTORIES)
def test_no_script_of_a_docstring_goes_unread(name: str) -> None:
    """A heading in another form would not be found, and nobody would notice."""
    doc = FACTORIES[name].__doc__ or ""
    assert len(examples(FACTORIES[name])) == doc.count("\nBefore") == doc.count("\nAfter")


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


def test_examples_are_found_in_a_docstring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relaxjax.passes.base.FACTORIES", {})

    @pass_factory(opt_level=0)
    def Documented(mod: relaxjax.ir.IRModule) -> relaxjax.ir.IRModule:
        """Change something.

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
        return mod

    assert examples(Documented) == [
        Example("a = b\n\nc = d", "Documented(1)", "e = f"),
        Example("g", "Documented(2)", "h"),
    ]
