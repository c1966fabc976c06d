"""Rewriters as objects: written as a class or as a module of two functions, joined, and refused."""

from typing import Any

import pytest
from parsing import parse_function, parse_functions, parse_main
from rewritten_functions import TWICE, chain, check_function, doubled, x

from relaxjax.dpl import (
    DFPattern,
    ExprPatternRewriter,
    OrRewriter,
    PatternMatchingRewriter,
    is_op,
    rewrite_call,
)
from relaxjax.ir import Expr, IRModule, assert_structural_equal
from relaxjax.script import relax as R


@R.rewriter
class Largest:
    @R.function
    def pattern(p: R.Tensor((2,), "float32"), q: R.Tensor((2,), "float32")) -> R.Tensor(
        (2,), "float32"
    ):
        return R.nn.relu(R.add(p, q))

    @R.function
    def replacement(p: R.Tensor((2,), "float32"), q: R.Tensor((2,), "float32")) -> R.Tensor(
        (2,), "float32"
    ):
        return R.maximum(p, q)


LARGEST: Any = Largest  # mypy takes it for a class


@R.rewriter
class Clipped:
    @R.function
    def pattern(p: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.nn.relu(p)

    @R.function
    def replacement(p: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.minimum(R.nn.relu(p), R.const(6.0))


CLIPPED: Any = Clipped


def test_a_rewriter_written_as_a_class() -> None:
    f = parse_function("""
        @R.function
        def f(a: R.Tensor((2,), "float32")):
            b = R.add(a, a)
            c = R.nn.relu(b)
            return c
        """)
    values = [str(binding.value) for binding in LARGEST(f).body.bindings()]
    assert values[-1] == "R.maximum(a, a)"
    with pytest.raises(TypeError, match=r"@R.rewriter stands above a class, not above `3`"):
        R.rewriter(3)  # type: ignore[arg-type]  # what the test is about


def test_a_rewriter_that_never_ends_is_told_so_soon_and_where_it_began() -> None:
    """A clipped relu has a relu in it. It took an hour to say so."""
    f = parse_function("""
        @R.function
        def f(a: R.Tensor((2,), "float32")):
            b = R.negative(a)
            c = R.nn.relu(b)
            return c
        """)
    rounds = 0

    def clipped(expr: Expr, found: dict[DFPattern, Expr]) -> Expr:
        nonlocal rounds
        rounds += 1
        made: Expr = R.minimum(R.nn.relu(found[x]), R.const(6.0))
        return made

    for never_ending in (
        lambda: rewrite_call(is_op("relax.nn.relu")(x), clipped, f),
        lambda: CLIPPED(f),
    ):
        with pytest.raises(RecursionError, match="100 rewrites of `c` and of what") as raised:
            never_ending()
        assert "c = R.nn.relu(b)" in "".join(raised.value.__notes__)
    assert rounds == 101


Square = parse_functions("""
    @R.function
    def pattern(a: R.Tensor(dtype="float32"), b: R.Tensor(("n", "m"), "float32")):
        total = R.add(a, b)
        return R.multiply(total, total)

    @R.function
    def replacement(a: R.Tensor(dtype="float32"), b: R.Tensor(("n", "m"), "float32")):
        total = R.add(b, a)
        return R.square(total)
    """)


Use = parse_main("c = R.add(a, b)\nd = R.multiply(c, c)\nreturn R.add(d, d)", a=(3,), b=(2, 3))


def test_a_rule_written_as_a_module() -> None:
    rewriter = PatternMatchingRewriter.from_module(Square)
    expected = """
        @R.function
        def main(a: R.Tensor((3,), "float32"), b: R.Tensor((2, 3), "float32")):
            lv = R.add(b, a)
            d = R.square(lv)
            gv = R.add(d, d)
            return gv
        """
    check_function(rewriter(Use["main"]), expected)
    check_function(rewriter(Use)["main"], expected)
    other = IRModule.from_expr(chain)
    assert rewriter(other) is other


def test_rules_joined() -> None:
    left, right = ExprPatternRewriter(TWICE, doubled), PatternMatchingRewriter.from_module(Square)
    both = left | right
    assert isinstance(both, OrRewriter)
    assert (both.lhs, both.rhs) == (left, right)
    check_function(
        both(Use["main"]),
        """
        @R.function
        def main(a: R.Tensor((3,), "float32"), b: R.Tensor((2, 3), "float32")):
            lv = R.add(b, a)
            d = R.square(lv)
            gv = R.multiply(d, R.const(2.0, "float32"))
            return gv
        """,
    )
    one = PatternMatchingRewriter.from_pattern(TWICE, doubled)
    assert_structural_equal(one(Use["main"]), rewrite_call(TWICE, doubled, Use["main"]))


def test_rules_that_are_none() -> None:
    f = Use["main"]
    with pytest.raises(ValueError, match="must have the same parameters, found 2 and 1"):
        PatternMatchingRewriter.from_module(IRModule({"pattern": f, "replacement": chain}))

    pair = parse_function("""
        @R.function
        def pair(a: R.Tensor((2,), "float32")):
            return (R.exp(a), a)
        """)

    with pytest.raises(ValueError, match="`pattern` must return one value: write rewrite_bindings"):
        PatternMatchingRewriter.from_module(IRModule({"pattern": pair, "replacement": chain}))

    cast = parse_function("""
        @R.function
        def cast(a: R.Tensor((2,), "float32")):
            b = R.match_cast(a, R.Tensor((2,), "float32"))
            return R.exp(b)
        """)

    with pytest.raises(ValueError, match="a match_cast cannot be a part of a pattern"):
        PatternMatchingRewriter.from_module(IRModule({"pattern": cast, "replacement": chain}))
