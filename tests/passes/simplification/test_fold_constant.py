"""Constants computed at compile time."""

from typing import Any

import jax
import numpy as np
import pytest
from parsing import parse_main

from relaxjax.ir import Function, IRModule, assert_structural_equal
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings
from relaxjax.passes.simplification.fold_constant import FoldConstant


def parse(body: str) -> IRModule:
    return parse_main(body, x=(3,))


CASES = {
    "a chain": (
        (
            "a = R.add(R.const(1.0, 'float32'), R.const(2.0, 'float32'))\n"
            "b = R.multiply(a, R.const([1.0, 2.0, 3.0], 'float32'))\nc = R.add(x, b)\nreturn c"
        ),
        "c = R.add(x, R.const([3.0, 6.0, 9.0], 'float32'))\nreturn c",
    ),
    "shapes and attributes": (
        "a = R.reshape(R.const([1, 2], 'int32'), (2, 1))\nb = R.sum(a, axis=1)\nreturn (x, b)",
        "return (x, R.const([1, 2], 'int32'))",
    ),
    "tuples": (
        "a = R.concat((R.const([1], 'int32'), R.const([2], 'int32')), axis=0)\nreturn (x, a)",
        "return (x, R.const([1, 2], 'int32'))",
    ),
    "a shape as a tensor": (
        (
            "a = R.shape_to_tensor(R.shape([5, 7]))\n"
            "b = R.take(a, R.const([1], 'int64'), axis=0)\nreturn (x, b)"
        ),
        "return (x, R.const([7], 'int64'))",
    ),
    "half precision": (
        "a = R.add(R.const(1.0, 'bfloat16'), R.const(2.0, 'bfloat16'))\nreturn (x, a)",
        "return (x, R.const(3.0, 'bfloat16'))",
    ),
    "double precision, whatever JAX is set to": (
        "a = R.add(R.const(1.0, 'float64'), R.const(1e-12, 'float64'))\nreturn (x, a)",
        f"return (x, R.const({1.0 + 1e-12}, 'float64'))",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_constants_are_folded(name: str) -> None:
    before, after = (parse(text) for text in CASES[name])
    folded = FoldConstant()(before)
    assert_structural_equal(folded, after)
    assert FoldConstant()(folded) is folded


@pytest.mark.parametrize("transformation", [jax.jit, jax.vmap, jax.grad])
def test_constants_are_folded_while_jax_traces(transformation: Any) -> None:
    """Even a function with a rule of its own, such as relu, which JAX maps whatever it is of."""
    relu = "a = R.nn.relu(R.const([-1.0, 2.0, 3.0], 'float32'))\nb = R.add(x, a)\nreturn b"
    after = "b = R.add(x, R.const([0.0, 2.0, 3.0], 'float32'))\nreturn b"

    def traced(x: Any) -> Any:
        assert_structural_equal(FoldConstant()(parse(relu)), parse(after))
        return x

    transformation(traced)(np.ones(3, "float32")[0 if transformation is jax.grad else slice(None)])


@pytest.mark.parametrize(
    "body",
    [
        "y = R.add(x, R.const(1.0, 'float32'))\nreturn y",
        "y = R.zeros((3,), 'float32')\nreturn (x, y)",
        "y = R.full((3,), R.const(1.0, 'float32'), 'float32')\nreturn (x, y)",
        "y = R.broadcast_to(R.const(1.0, 'float32'), (3, 3))\nreturn (x, y)",
        "y = R.tile(R.const([1.0], 'float32'), [3])\nreturn (x, y)",
        (
            "y = R.call_pure_packed('f', R.const(1, 'int32'), ty_args=R.Tensor((), 'int32'))\n"
            "return (x, y)"
        ),
    ],
)
def test_what_is_not_to_be_folded(body: str) -> None:
    module = parse(body)
    assert FoldConstant()(module) is module


def test_large_results_are_left_to_the_running_program() -> None:
    row = [float(index) for index in range(9)]
    module = parse(f"y = R.broadcast_to(R.const({row}, 'float32'), (9, 9))\nreturn (x, y)")
    assert FoldConstant(max_elements=80)(module) is module
    assert "broadcast_to" not in FoldConstant(max_elements=81)(module).script()


def test_a_chain_is_folded_in_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """One walk a link would take a time that grows with the square of the length."""
    walks: list[Function] = []

    def counted(function: Function) -> Function:
        walks.append(function)
        return canonical_bindings(function)

    monkeypatch.setattr("relaxjax.passes.simplification.fold_constant.canonical_bindings", counted)
    steps = "".join("a = R.sin(a)\nb = R.concat((a, b), axis=0)\n" for _ in range(4))
    start = "a = R.sin(R.const([1.0], 'float32'))\nb = R.cos(a)\n"
    folded = FoldConstant()(parse(f"{start}{steps}return (x, b)"))
    assert "R.sin" not in folded.script()
    assert len(walks) == 1
