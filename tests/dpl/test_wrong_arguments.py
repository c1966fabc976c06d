"""What patterns and rewriters are given by mistake."""

from typing import Any

import pytest
from parsing import parse_functions

from relaxjax.dpl import (
    DFPattern,
    PatternContext,
    PatternMatchingRewriter,
    get_var2val,
    is_op,
    rewrite_bindings,
    rewrite_call,
    wildcard,
)
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.op import get_op
from relaxjax.ops.cost import function_cost

MODULE = parse_functions("""
@R.function
def f(x: R.Tensor((3,), "float32")):
    with R.dataflow():
        y = R.nn.relu(x)
        R.output(y)
    return y
""")
x = wildcard()
RELU = is_op("relax.nn.relu")(x)


def unchanged(expr: Expr, found: dict[DFPattern, Expr]) -> Expr:
    return expr


@pytest.mark.parametrize(
    ("take", "message"),
    [
        (
            lambda given: rewrite_call(RELU, unchanged, given),
            r"takes a Relax function, found IRModule: .*, or call PatternMatchingRewriter\.from_pa",
        ),
        (
            lambda given: rewrite_bindings(PatternContext(), lambda found, values: {}, given),
            r'`rewrite_bindings` takes .*, found IRModule: give one .*, such as mod\["f"\]$',
        ),
        (get_var2val, "`get_var2val` takes a Relax function, found IRModule: give one"),
        (function_cost, "`function_cost` takes a Relax function, found IRModule: give one"),
    ],
)
def test_a_module_for_a_function(take: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        take(MODULE)
    with pytest.raises(TypeError, match=r"takes a Relax function, found int$"):
        take(3)


@pytest.mark.parametrize(("pattern", "rewriter"), [("relax.exp", unchanged), (RELU, None)])
def test_a_rule_is_a_pattern_and_a_function(pattern: Any, rewriter: Any) -> None:
    message = (
        r"a rule is a pattern, such as is_op\(\"relax.exp\"\)\(wildcard\(\)\), and a function of"
    )
    with pytest.raises(TypeError, match=message):
        rewrite_call(pattern, rewriter, MODULE["f"])
    rule = PatternMatchingRewriter.from_pattern(pattern, rewriter)
    with pytest.raises(TypeError, match=message):
        rule(MODULE)


@pytest.mark.parametrize("changes", [{"y": x}, [x]])
def test_new_values_are_given_by_their_variables(changes: Any) -> None:
    with PatternContext() as context:
        is_op("relax.nn.relu")(wildcard())
    with pytest.raises(TypeError, match="the rewriter must give a dictionary from variables, such"):
        rewrite_bindings(context, lambda found, values: changes, MODULE["f"])


def test_a_rewriter_of_neither() -> None:
    rewriter: Any = PatternMatchingRewriter.from_pattern(RELU, unchanged)
    assert rewriter(MODULE) is MODULE
    with pytest.raises(TypeError, match="a rewriter takes an IRModule, found int"):
        rewriter(3)


def test_a_pattern_is_looked_up_by_itself() -> None:
    message = r"the pattern `WildcardPattern\(\)` stands for nothing here: look up the very pattern"

    def looking_up_another(expr: Expr, found: dict[DFPattern, Expr]) -> Expr:
        assert found[x] == MODULE["f"].params[0]
        assert found.get(wildcard()) is None
        return found[wildcard()]

    with pytest.raises(KeyError, match=message):
        rewrite_call(RELU, looking_up_another, MODULE["f"])

    with PatternContext() as context:
        is_op("relax.nn.relu")(wildcard())

    def looking_up(found: dict[DFPattern, Expr], values: dict[Var, Expr]) -> dict[Var, Expr]:
        var = found[wildcard()]
        assert isinstance(var, Var)
        return {var: var}

    with pytest.raises(KeyError, match=message):
        rewrite_bindings(context, looking_up, MODULE["f"])


def test_an_operator_is_named() -> None:
    with pytest.raises(
        TypeError, match=r'name of an operator, such as "relax\.add", not relax\.exp'
    ):
        is_op(get_op("relax.exp"))  # type: ignore[arg-type]


@pytest.mark.parametrize("join", [lambda other: RELU | other, lambda other: RELU & other])
def test_patterns_are_joined_with_patterns(join: Any) -> None:
    with pytest.raises(TypeError, match=r"`\|` and `&` join two patterns, but one is 'relax.exp'"):
        join("relax.exp")
