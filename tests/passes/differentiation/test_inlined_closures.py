"""Closures in the place of their calls: what has none stays the very function."""

import pytest
from parsing import parse_functions

from relaxjax.ir import assert_structural_equal
from relaxjax.ir.function import Function
from relaxjax.passes.differentiation.inlining import inline_closures

BLOCKS = """
    with R.dataflow():
        a = R.exp(x)
        R.output(a)
    with R.dataflow():
        b = R.sin(a)
        R.output(b)
    return b
"""
CLOSURE = """
    @R.function
    def wave(y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        z = R.sin(y)
        return z
    a = R.exp(x)
    b = wave(a)
    return b
"""
INLINED = """
    a = R.exp(x)
    z = R.sin(a)
    b = z
    return b
"""
LOOP = """
    @R.function
    def step(c: R.Tensor((3,), "float32"), n: R.Tuple()) -> R.Tuple(
        R.Tensor((3,), "float32"), R.Tuple()
    ):
        z = R.sin(c)
        return (z, R.tuple())
    out = R.scan(step, x, R.tuple(), length=4)
    b = out[0]
    return b
"""


def function(body: str) -> Function:
    found = parse_functions(f'@R.function\ndef main(x: R.Tensor((3,), "float32")):{body}')["main"]
    assert isinstance(found, Function)
    return found


@pytest.mark.parametrize("body", [BLOCKS, INLINED])
def test_a_function_without_closures_stays_as_it_is(body: str) -> None:
    """With its blocks, which those of a function that changes are not."""
    given = function(body)
    assert inline_closures(given) is given


def test_what_a_closure_does_stands_for_its_call() -> None:
    assert_structural_equal(inline_closures(function(CLOSURE)), function(INLINED))


def test_the_step_of_a_loop_stays() -> None:
    given = function(LOOP)
    assert_structural_equal(inline_closures(given), given)
