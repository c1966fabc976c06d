"""What cannot be declared as an operator."""

from typing import Any

import pytest

from relaxjax.ir import TensorType, Var
from relaxjax.ir.op import OPS
from relaxjax.ops import OpError, op


def test_a_fact_outside_of_the_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match=r"relax.test: there is no fact {'unti'}; the vocabulary"):
        op("relax.test", facts={"unti": 0})


@pytest.mark.parametrize("rule", ["precision", "fusion"])
def test_a_rule_outside_of_the_vocabulary_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match=rf"relax.test: `{rule}` must be one of .*found 'maybe'"):
        op("relax.test", facts=None, **{rule: "maybe"})  # type: ignore[arg-type]  # the rule is named by the test


def test_a_cost_that_is_no_rule_is_refused() -> None:
    with pytest.raises(TypeError, match=r"relax.test: `cost` must be a rule .* found 'maybe'"):
        op("relax.test", cost="maybe")


@pytest.mark.parametrize("found", [None, 3])
def test_a_declaration_that_gives_no_type_is_refused(found: Any) -> None:
    @op("relax.test_untyped")
    def untyped(x: TensorType) -> TensorType:
        """No type."""
        return found  # type: ignore[no-any-return]  # what is tested

    try:
        match = f"relax.test_untyped: the type of the result is to be returned, found {found}"
        with pytest.raises(OpError, match=match):
            untyped(Var("x", TensorType((3,), "float32")))
    finally:
        del OPS["relax.test_untyped"]


def test_a_parameter_without_an_annotation_is_refused() -> None:
    match = r"relax.test: the parameter `x` needs an annotation, .* IR"
    with pytest.raises(TypeError, match=match):
        op("relax.test")(lambda x: x)
