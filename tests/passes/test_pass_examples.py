"""The scripts in the docstrings of passes are true, and every pass that rewrites has some."""

import numpy as np
import pytest
from parsing import parse_functions

import relaxjax.passes
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ir.types import TensorType
from relaxjax.passes import pass_factory
from relaxjax.passes.examples import Example, examples
from relaxjax.passes.registry import FACTORIES

EXAMPLES = {
    f"{name}-{index}": example
    for name, factory in FACTORIES.items()
    for index, example in enumerate(examples(factory))
    if "@R.function" in example.before  # others are fragments, for the eye only
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_pass_makes_of_one_script_the_other(name: str) -> None:
    example = EXAMPLES[name]
    made = eval(example.made, {**vars(relaxjax.passes), "np": np, "TensorType": TensorType})
    changed = made(parse_functions(example.before))
    assert_structural_equal(changed, parse_functions(example.after))


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
