"""Each operator in the layout that it prefers."""

import pytest
from parsing import parse_flow, parse_functions, parse_main
from same_results import assert_same_results, calls_of

from relaxjax.ir import Call, assert_structural_equal
from relaxjax.passes import AlterOpLayout, Gradient, SimplifyGradient

BEFORE = parse_functions("""
    @R.function
    def main(x: R.Tensor((2, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
        with R.dataflow():
            a = R.nn.relu(R.nn.conv2d(x, w))
            b = R.nn.max_pool2d(a, pool_size=[2, 2], strides=[2, 2])
            gv = R.nn.softmax(b, axis=1)
            R.output(gv)
        return gv
    """)

AFTER = parse_functions("""
    @R.function
    def main(x: R.Tensor((2, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
        with R.dataflow():
            x1 = R.layout_transform(x, index_map=lambda a, b, c, d: (a, c, d, b))
            w1 = R.layout_transform(w, index_map=lambda a, b, c, d: (c, d, b, a))
            y = R.nn.conv2d(
                x1, w1, data_layout="NHWC", kernel_layout="HWIO", out_layout="NHWC"
            )
            a = R.nn.relu(y)
            b = R.nn.max_pool2d(a, pool_size=[2, 2], strides=[2, 2], layout="NHWC")
            c = R.nn.softmax(b, axis=3)
            gv = R.layout_transform(c, index_map=lambda a, b, c, d: (a, d, b, c))
            R.output(gv)
        return gv
    """)


def test_operators_take_what_they_declare_to_prefer() -> None:
    after = AlterOpLayout()(BEFORE)
    assert_structural_equal(after, AFTER)
    assert_same_results(BEFORE, after)
    assert AlterOpLayout()(after) is after


def test_a_function_chooses_and_none_leaves_alone() -> None:
    assert AlterOpLayout(lambda call: None)(BEFORE) is BEFORE

    def choose(call: Call) -> list[str] | None:
        return ["NHWC", "HWIO"] if "kernel_layout" in call.attrs else None

    assert_structural_equal(AlterOpLayout(choose)(BEFORE), AFTER)


def test_a_table_chooses_by_name() -> None:
    """The convolution before gives its result in the layout that is wanted of it."""
    after = AlterOpLayout({"relax.nn.max_pool2d": ["NHWC"]})(BEFORE)
    assert_same_results(BEFORE, after)
    assert len(calls_of(after, "layout_transform")) == 1
    (pool,) = calls_of(after, "nn.max_pool2d")
    (conv,) = calls_of(after, "nn.conv2d")
    assert pool.attrs["layout"] == conv.attrs["out_layout"] == "NHWC"
    assert conv.attrs["data_layout"] == "NCHW"


def test_a_table_names_operators_that_have_layouts() -> None:
    with pytest.raises(KeyError, match=r"no operator `relax.nn.conv2`; did you mean `relax.nn.con"):
        AlterOpLayout({"relax.nn.conv2": ["NHWC", "HWIO"]})(BEFORE)
    with pytest.raises(ValueError, match=r"`alter` names relax.matmul, which has no layout to ch"):
        AlterOpLayout({"relax.matmul": ["NHWC"]})(BEFORE)


def test_no_layout_to_prefer_changes_nothing() -> None:
    module = parse_main("y = R.nn.max_pool2d(x, pool_size=[2, 2])\nreturn y", x=(2, 3, 8, 8))
    assert AlterOpLayout()(module) is module


def test_transforms_of_a_program_are_taken_over() -> None:
    """A layout_transform that only puts axes in another order disappears between two that do."""
    body = """
        a = R.layout_transform(R.nn.conv2d(x, w), index_map="NCHW -> NHWC")
        gv = R.nn.relu(a)
    """
    back = parse_flow(body, x=(2, 3, 8, 8), w=(4, 3, 3, 3))
    after = AlterOpLayout()(back)
    assert_same_results(back, after)
    assert len(calls_of(after, "layout_transform")) == 2


def test_a_backward_program_computes_the_same() -> None:
    scalar = parse_flow(
        "gv = R.sum(R.nn.silu(R.nn.conv2d(x, w)))\nreturn gv", x=(2, 3, 8, 8), w=(4, 3, 3, 3)
    )
    before = SimplifyGradient()(Gradient("main")(scalar))
    after = AlterOpLayout()(before)
    assert_same_results(before, after, "main_adjoint")
    assert len(calls_of(after, "layout_transform", "main_adjoint")) == 3
