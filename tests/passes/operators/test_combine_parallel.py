"""Products and convolutions that share their data, combined into one."""

from collections.abc import Callable

import pytest
from parsing import parse_flow, parse_main
from same_results import assert_same_results, calls_of

from relaxjax.ir import Expr, IRModule, assert_structural_equal
from relaxjax.passes import (
    CombineParallelBatchMatmul,
    CombineParallelConv2D,
    CombineParallelDense,
    CombineParallelMatmul,
    Gradient,
)

DENSE = """
    x: R.Tensor((4, 8), "float32"),
    w1: R.Tensor((8, 3), "float32"), w2: R.Tensor((8, 5), "float32"),
    w3: R.Tensor((8, 3), "float32"), b1: R.Tensor((3,), "float32"),
    b2: R.Tensor((5,), "float32"), b3: R.Tensor((3,), "float32"),
"""
IMAGES = """
    x: R.Tensor((2, 3, 8, 8), "float32"),
    w1: R.Tensor((4, 3, 3, 3), "float32"), w2: R.Tensor((2, 3, 3, 3), "float32"),
    w3: R.Tensor((5, 3, 3, 3), "float32"), b1: R.Tensor((4, 1, 1), "float32"),
    b2: R.Tensor((2, 1, 1), "float32"), b3: R.Tensor((5, 1, 1), "float32"),
"""
STACKS = """
    x: R.Tensor((2, 4, 8), "float32"),
    w1: R.Tensor((2, 8, 3), "float32"), w2: R.Tensor((2, 8, 5), "float32"),
    w3: R.Tensor((2, 8, 1), "float32"), w4: R.Tensor((8, 4), "float32"),
"""


Change = Callable[[IRModule], IRModule]


def check(change: Change, before: str, after: str, params: str = DENSE) -> None:
    """Script in, script out; again nothing happens; and the results stay."""
    module = parse_flow(before, params)
    found = change(module)
    assert_structural_equal(found, parse_flow(after, params))
    assert change(found) is found
    assert_same_results(module, found)


def unchanged(change: Change, body: str, params: str = DENSE) -> None:
    module = parse_flow(body, params)
    assert change(module) is module


# TVM writes the same for the first three.
MATMULS = {
    "two matmuls": (
        "a = R.matmul(x, w1)\nb = R.matmul(x, w2)\ngv = (a, b)",
        """
        lv = R.concat((w1, w2), axis=1)
        lv1 = R.matmul(x, lv, out_dtype="float32")
        lv2 = R.split(lv1, indices_or_sections=[3], axis=1)
        a = lv2[0]
        b = lv2[1]
        gv = (a, b)
        """,
    ),
    "biases and activations are computed before the split": (
        """
        a = R.matmul(x, w1)
        b = R.matmul(x, w2)
        c = R.matmul(x, w3)
        d = R.nn.relu(R.add(a, b1))
        e = R.nn.relu(R.add(b, b2))
        f = R.nn.relu(R.add(c, b3))
        gv = (d, e, f)
        """,
        """
        lv = R.concat((w1, w2, w3), axis=1)
        lv1 = R.matmul(x, lv, out_dtype="float32")
        lv2 = R.concat((b1, b2, b3), axis=0)
        lv3 = R.add(lv1, lv2)
        lv4 = R.nn.relu(lv3)
        lv5 = R.split(lv4, indices_or_sections=[3, 8], axis=1)
        d = lv5[0]
        e = lv5[1]
        f = lv5[2]
        gv = (d, e, f)
        """,
    ),
    "what differs stays behind the split": (
        """
        a = R.add(R.matmul(x, w1), b1)
        b = R.add(R.matmul(x, w2), b2)
        c = R.nn.relu(a)
        d = R.nn.gelu(b)
        gv = (c, d)
        """,
        """
        lv = R.concat((w1, w2), axis=1)
        lv1 = R.matmul(x, lv, out_dtype="float32")
        lv2 = R.concat((b1, b2), axis=0)
        lv3 = R.add(lv1, lv2)
        lv4 = R.split(lv3, indices_or_sections=[3], axis=1)
        a = lv4[0]
        b = lv4[1]
        c = R.nn.relu(a)
        d = R.nn.gelu(b)
        gv = (c, d)
        """,
    ),
    "a scalar beside all branches is shared": (
        """
        a = R.multiply(R.matmul(x, w1), R.const(2.0))
        b = R.multiply(R.matmul(x, w2), R.const(2.0))
        gv = (a, b)
        """,
        """
        lv = R.concat((w1, w2), axis=1)
        lv1 = R.matmul(x, lv, out_dtype="float32")
        lv2 = R.multiply(lv1, R.const(2.0))
        lv3 = R.split(lv2, indices_or_sections=[3], axis=1)
        a = lv3[0]
        b = lv3[1]
        gv = (a, b)
        """,
    ),
    "weights that are computed between come first": (
        "a = R.matmul(x, w1)\nw = R.exp(w2)\nb = R.matmul(x, w)\ngv = (a, b)",
        """
        w = R.exp(w2)
        lv = R.concat((w1, w), axis=1)
        lv1 = R.matmul(x, lv, out_dtype="float32")
        lv2 = R.split(lv1, indices_or_sections=[3], axis=1)
        a = lv2[0]
        b = lv2[1]
        gv = (a, b)
        """,
    ),
    "the same product twice is computed once": (
        "a = R.matmul(x, w1)\nb = R.matmul(x, w2)\nc = R.matmul(x, w1)\ngv = (a, b, c)",
        """
        lv = R.concat((w1, w2), axis=1)
        lv1 = R.matmul(x, lv, out_dtype="float32")
        lv2 = R.split(lv1, indices_or_sections=[3], axis=1)
        a = lv2[0]
        b = lv2[1]
        c = lv2[0]
        gv = (a, b, c)
        """,
    ),
}


@pytest.mark.parametrize("name", MATMULS)
def test_matmuls(name: str) -> None:
    check(CombineParallelMatmul(), *MATMULS[name])


def test_the_check_sees_factors_and_biases() -> None:
    seen = []

    def asked(x: Expr, weights: list[Expr], biases: list[Expr], values: object) -> bool:
        seen.append([str(x), [str(w) for w in weights], [str(b) for b in biases]])
        return False

    body = "a = R.add(R.matmul(x, w1), b1)\nb = R.add(R.matmul(x, w2), b2)\ngv = (a, b)"
    unchanged(CombineParallelMatmul(asked), body)
    assert seen == [["x", ["w1", "w2"], ["b1", "b2"]]]


SQUARE = 'x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")'


def test_a_product_of_a_product_stays_apart() -> None:
    unchanged(CombineParallelMatmul(), "a = R.matmul(x, w)\nb = R.matmul(x, a)\ngv = b", SQUARE)


def test_groups_that_would_need_one_another_are_not_both_combined() -> None:
    body = """
        a = R.matmul(x, w)
        c = R.matmul(w, w)
        b = R.matmul(x, R.exp(c))
        d = R.matmul(w, R.exp(a))
        gv = (b, d)
    """
    module = parse_flow(body, SQUARE)
    found = CombineParallelMatmul()(module)
    assert_same_results(module, found)
    assert len(calls_of(found, "split")) == 1


def test_where_there_are_too_few_branches() -> None:
    unchanged(CombineParallelMatmul(), "a = R.matmul(x, w1)\ngv = a")
    unchanged(CombineParallelDense(3), "a = R.matmul(x, w1)\nb = R.matmul(x, w2)\ngv = (a, b)")
    unchanged(CombineParallelConv2D(3), "a = R.nn.conv2d(x, w1)\ngv = a", IMAGES)


@pytest.mark.parametrize("least", [1, 0, -1])
def test_one_branch_alone_stays(least: int) -> None:
    """There is nothing beside it, however few branches are asked for."""
    unchanged(CombineParallelDense(least), "a = R.matmul(x, w1)\ngv = a")


def test_dense_layers_and_stacks_are_told_apart() -> None:
    body = "a = R.matmul(x, w1)\nb = R.matmul(x, w2)\nc = R.matmul(x, w3)\ngv = (a, b, c)"
    unchanged(CombineParallelBatchMatmul(), body)
    unchanged(CombineParallelDense(), body, STACKS)
    after = """
        lv = R.concat((w1, w2, w3), axis={axis})
        lv1 = R.matmul(x, lv, out_dtype="float32")
        lv2 = R.split(lv1, indices_or_sections=[3, 8], axis={axis})
        a = lv2[0]
        b = lv2[1]
        c = lv2[2]
        gv = (a, b, c)
    """
    check(CombineParallelDense(), body, after.format(axis=1))
    check(CombineParallelBatchMatmul(), body, after.format(axis=2), STACKS)


def test_other_stacks_stay_apart() -> None:
    unchanged(
        CombineParallelMatmul(), "a = R.matmul(x, w1)\nb = R.matmul(x, w4)\ngv = (a, b)", STACKS
    )


def test_convolutions() -> None:
    check(
        CombineParallelConv2D(),
        """
        a = R.nn.relu(R.add(R.nn.conv2d(x, w1, padding=1), b1))
        b = R.nn.relu(R.add(R.nn.conv2d(x, w2, padding=1), b2))
        c = R.nn.relu(R.add(R.nn.conv2d(x, w3, padding=1), b3))
        gv = (a, b, c)
        """,
        """
        lv = R.concat((w1, w2, w3), axis=0)
        lv1 = R.nn.conv2d(x, lv, padding=1, out_dtype="float32")
        lv2 = R.concat((b1, b2, b3), axis=0)
        lv3 = R.add(lv1, lv2)
        lv4 = R.nn.relu(lv3)
        lv5 = R.split(lv4, indices_or_sections=[4, 6], axis=1)
        a = lv5[0]
        b = lv5[1]
        c = lv5[2]
        gv = (a, b, c)
        """,
        IMAGES,
    )


def test_convolutions_with_channels_last() -> None:
    params = IMAGES.replace("(2, 3, 8, 8)", "(2, 8, 8, 3)")
    for outs in "425":
        params = params.replace(f"({outs}, 3, 3, 3)", f"(3, 3, 3, {outs})")
        params = params.replace(f"({outs}, 1, 1)", f"({outs},)")
    layout = 'data_layout="NHWC", kernel_layout="HWIO"'
    branches = [f"R.add(R.nn.conv2d(x, w{i}, {layout}), b{i})" for i in (1, 2, 3)]
    module = parse_flow(f"gv = ({', '.join(branches)})", params)
    found = CombineParallelConv2D()(module)
    assert_same_results(module, found)
    assert len(calls_of(found, "nn.conv2d")) == len(calls_of(found, "add")) == 1


@pytest.mark.parametrize(
    "other", ["R.nn.conv2d(x, w3, strides=2)", "R.nn.conv2d(R.nn.relu(x), w3)", "R.nn.conv2d(x, v)"]
)
def test_convolutions_that_differ_stay_apart(other: str) -> None:
    body = f"a = R.nn.conv2d(x, w1)\nb = R.nn.conv2d(x, w2)\nc = {other}\ngv = (a, b, c)"
    unchanged(CombineParallelConv2D(), body, IMAGES + 'v: R.Tensor((4, 3, 1, 1), "float32")')


def test_grouped_convolutions_stay_apart() -> None:
    body = ", ".join(f"R.nn.conv2d(x, w{i}, groups=3)" for i in (1, 2, 3))
    params = IMAGES
    for outs in "425":
        params = params.replace(f"({outs}, 3, 3, 3)", f"({3 * int(outs)}, 1, 3, 3)")
    unchanged(CombineParallelConv2D(), f"gv = ({body})", params)


def test_outside_of_a_dataflow_block_nothing_is_moved() -> None:
    module = parse_main("a = R.matmul(x, w1)\nb = R.matmul(x, w2)\nreturn (a, b)", DENSE)
    assert CombineParallelMatmul()(module) is module


def test_backward_programs() -> None:
    """Of what is combined before the gradient, and of an adjoint whose products share factors."""
    scalar = parse_flow(
        "a = R.nn.relu(R.add(R.matmul(x, w1), b1))\nb = R.nn.relu(R.add(R.matmul(x, w2), b2))\n"
        "gv = R.add(R.sum(R.exp(a)), R.sum(R.sin(b)))",
        DENSE,
    )
    before = Gradient("main")(scalar)
    after = Gradient("main")(CombineParallelMatmul()(scalar))
    assert_same_results(before, after, "main_adjoint")
    combined = CombineParallelMatmul()(before)
    assert_same_results(before, combined, "main_adjoint")
    assert combined is not before
