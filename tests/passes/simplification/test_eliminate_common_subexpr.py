"""The same value computed once."""

import chex
import numpy as np
import pytest
from parsing import parse_functions, parse_module

from relaxjax.ir import Call, Expr, IRModule, Op, assert_structural_equal, well_formed
from relaxjax.lowering import to_jax
from relaxjax.passes.simplification.eliminate_common_subexpr import EliminateCommonSubexpr


def parse(body: str) -> IRModule:
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    return parse_module(
        "@I.ir_module\nclass Module:\n    @R.function(pure=False)\n"
        '    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):\n' + lines
    )


SHARED = {
    "a value computed twice is shared": (
        "a = R.add(x, y)\nb = R.add(x, y)\nc = R.multiply(a, b)\nreturn c",
        "a = R.add(x, y)\nb = a\nc = R.multiply(a, a)\nreturn c",
    ),
    "the order of arguments counts only where it matters": (
        (
            "a = R.add(x, y)\nb = R.add(y, x)\nc = R.subtract(x, y)\nd = R.subtract(y, x)\n"
            "return (a, b, c, d)"
        ),
        "a = R.add(x, y)\nb = a\nc = R.subtract(x, y)\nd = R.subtract(y, x)\nreturn (a, a, c, d)",
    ),
    "what follows from shared values is shared too": (
        "a = R.exp(x)\nb = R.exp(x)\nc = R.sin(a)\nd = R.sin(b)\nreturn (c, d)",
        "a = R.exp(x)\nb = a\nc = R.sin(a)\nd = c\nreturn (c, c)",
    ),
    "a branch sees what stands before it but not the other branch": (
        (
            "a = R.exp(x)\nif R.const(True, 'bool'):\n    b = R.exp(x)\n    s = R.sin(x)\n"
            "    r = R.add(b, s)\nelse:\n    s = R.sin(x)\n    r = R.add(s, a)\n"
            "t = R.sin(x)\nreturn (r, t)"
        ),
        (
            "a = R.exp(x)\nif R.const(True, 'bool'):\n    b = a\n    s = R.sin(x)\n"
            "    r = R.add(a, s)\nelse:\n    s = R.sin(x)\n    r = R.add(s, a)\n"
            "t = R.sin(x)\nreturn (r, t)"
        ),
    ),
    "an output is shared with what follows its block": (
        "with R.dataflow():\n    a = R.exp(x)\n    R.output(a)\nc = R.exp(x)\nreturn c",
        "with R.dataflow():\n    a = R.exp(x)\n    R.output(a)\nc = a\nreturn a",
    ),
}


@pytest.mark.parametrize("name", SHARED)
def test_what_is_shared(name: str) -> None:
    before, after = map(parse, SHARED[name])
    assert_structural_equal(EliminateCommonSubexpr()(before), after)


@pytest.mark.parametrize(
    "body",
    [
        (
            "a = R.sum(x, axis=0)\nb = R.sum(x, axis=0, keepdims=True)\n"
            "c = R.add(x, R.const(1.0, 'float32'))\nd = R.add(x, R.const(2.0, 'float32'))\n"
            "return (a, b, c, d)"
        ),
        ("_ = R.print(x, format='{}')\n_1 = R.print(x, format='{}')\nreturn x"),
    ],
    ids=["attributes and constants count", "effects are never shared"],
)
def test_what_is_not_shared(body: str) -> None:
    module = parse(body)
    assert EliminateCommonSubexpr()(module) is module


def test_a_block_gives_what_it_hides_to_those_behind_that_compute_it_too() -> None:
    block = "with R.dataflow():\n    a = R.exp(x)\n    b = R.sin(a)\n    R.output({})\n"
    before = parse(block.format("b") + "c = R.exp(x)\nd = R.add(b, c)\nreturn d")
    after = parse(block.format("a, b") + "c = a\nd = R.add(b, a)\nreturn d")
    changed = EliminateCommonSubexpr()(before)
    well_formed(changed)
    assert_structural_equal(changed, after)
    twice = "with R.dataflow():\n    c = R.sin(R.exp(x))\n    R.output(c)\n"
    changed = EliminateCommonSubexpr()(parse(block.format("b") + twice + "return (b, c)"))
    well_formed(changed)
    assert str(changed).count("R.exp") == str(changed).count("R.sin") == 1
    hidden = "with R.dataflow():\n    a = R.exp(x)\n    b = R.sin(x)\n    R.output(b)\n"
    alone = parse(
        hidden + "if R.const(True, 'bool'):\n    c = R.exp(x)\nelse:\n    c = b\nreturn c"
    )
    assert EliminateCommonSubexpr()(alone) is alone, "what stands in a branch is not shared"


def test_a_cast_is_made_once() -> None:
    casts = (
        "a = R.match_cast(x, R.Tensor((3,), 'float32'))\n"
        "b = {}\nc = R.match_cast(x, R.Tensor(ndim=1))\nd = R.add(a, {})\nreturn (d, c)"
    )
    again = "R.match_cast(x, R.Tensor((3,), 'float32'))"
    changed = EliminateCommonSubexpr()(parse(casts.format(again, "b")))
    assert_structural_equal(changed, parse(casts.format("a", "a")))
    dims = (
        "n = T.int64()\nm = T.int64()\n"
        "a = R.match_cast(x, R.Tensor(({},)))\nb = R.match_cast(x, R.Tensor(({},)))\n"
    )
    other = parse(dims.format("n", "m") + "return (a, b)")
    assert EliminateCommonSubexpr()(other) is other
    same = EliminateCommonSubexpr()(parse(dims.format("n", "n") + "return (a, b)"))
    assert str(same).count("match_cast") == 1


def test_tuples_are_shared_unless_only_calls_are_asked_for() -> None:
    before = parse("a = (x, y)\nb = (x, y)\nreturn (a, b)")
    assert_structural_equal(
        EliminateCommonSubexpr()(before), parse("a = (x, y)\nb = a\nreturn (a, a)")
    )
    assert EliminateCommonSubexpr(call_only=True)(before) is before


def test_values_can_be_skipped() -> None:
    def is_exp(value: Expr) -> bool:
        return isinstance(value, Call) and value.op == Op.get("relax.exp")

    module = parse("a = R.exp(x)\nb = R.exp(x)\nreturn (a, b)")
    assert EliminateCommonSubexpr(fskip=is_exp)(module) is module


def test_a_product_that_is_the_transpose_of_another_is_not_computed() -> None:
    """Whether it is written by the transposed factors, or by those that they are transposed of."""
    params = 'a: R.Tensor((2, 3), "float32"), b: R.Tensor((3, 4), "float32")'
    text = """
@R.function
def main({params}):
    at = R.permute_dims(a)
    bt = R.permute_dims(b, axes=[1, 0])
    p = R.matmul({first})
    q = {second}
    return (p, q)
"""
    for first, twin in (("a, b", "bt, at"), ("bt, at", "a, b")):
        before = parse_functions(
            text.format(params=params, first=first, second=f"R.matmul({twin})")
        )
        after = parse_functions(text.format(params=params, first=first, second="R.permute_dims(p)"))
        assert_structural_equal(EliminateCommonSubexpr()(before), after)
        random = np.random.default_rng(0)
        args = [random.normal(size=shape).astype("float32") for shape in ((2, 3), (3, 4))]
        found, expected = (to_jax(module, "main")(*args) for module in (after, before))
        chex.assert_trees_all_close(found, expected, rtol=1e-6)
    other = parse_functions(text.format(params=params, first="a, b", second="R.matmul(at, a)"))
    assert EliminateCommonSubexpr()(other) is other
