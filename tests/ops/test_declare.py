"""What cannot be declared as an operator."""

from typing import Any

import numpy as np
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


_ALL = "the adjoint of the result, the result and `data`, and by name `axis`"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"gradient": lambda g, data, **attrs: g}, rf"`gradient` is called with {_ALL}, but it"),
        ({"gradient": lambda g, y, data: g}, r"takes \(g, y, data\): .* argument 'axis'"),
        (
            {"lower": lambda: 1.0},
            r"`lower` is called with `data`, and by name `axis`, but it takes",
        ),
        (
            {"jvp": lambda data, axis: data},
            "`jvp` is called with the tangents of the arguments, the result and `data`",
        ),
        ({"decompose": lambda data: data}, "`decompose` is called with `data`, and by name `axis`"),
        ({"inference": lambda data: data}, "`inference` is called with `data`"),
        ({"canonical": lambda data: data}, "`canonical` is called with `data`"),
    ],
)
def test_a_rule_that_takes_something_else(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=rf"^relax\.test_arity: its .*{message}"):

        @op("relax.test_arity", **rules)
        def named(data: TensorType, axis: int = 0) -> TensorType:
            """Itself."""
            return data

    assert "relax.test_arity" not in OPS


def test_rules_of_few_words() -> None:
    def attributes_unseen(g: Any, y: Any, *args: Any, **attrs: Any) -> Any:
        return g

    try:

        @op("relax.test_arity", lower=np.abs, gradient=attributes_unseen)
        def named(data: TensorType, *more: TensorType) -> TensorType:
            """Itself, whatever stands behind it."""
            return data

        @op("relax.test_arity_2", lower=np.sort, gradient=attributes_unseen)
        def sorted_along(data: TensorType, axis: int = 0) -> TensorType:
            """In order."""
            return data

    finally:
        OPS.pop("relax.test_arity", None)
        OPS.pop("relax.test_arity_2", None)
