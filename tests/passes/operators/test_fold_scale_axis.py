"""Factors folded into weights, before and behind them."""

from typing import Any

import numpy as np
import pytest
from parsing import parse_flow
from same_results import assert_same_results, calls_of

from relaxjax.ir.structural import assert_structural_equal
from relaxjax.passes import (
    BackwardFoldScaleAxis,
    FoldBatchnormToConv2D,
    FoldConstant,
    FoldScaleAxis,
    ForwardFoldScaleAxis,
    Gradient,
    Pass,
    SimplifyGradient,
)

PARAMS = """
    x: R.Tensor((2, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32"),
    s: R.Tensor((4, 1, 1), "float32"), b: R.Tensor((1, 4, 1, 1), "float32"),
    t: R.Tensor((3, 1, 1), "float32"),
"""


def check(pass_: Pass, before: str, after: str, params: str = PARAMS) -> None:
    """Script in, script out; again nothing happens; and the results stay."""
    module = parse_flow(before, params)
    found = pass_(module)
    assert_structural_equal(found, parse_flow(after, params))
    assert pass_(found) is found
    assert_same_results(module, found)


def test_back_through_bias_activation_and_pooling() -> None:
    check(
        BackwardFoldScaleAxis(),
        """
        c = R.nn.conv2d(x, w)
        d = R.nn.relu(R.add(c, b))
        e = R.nn.max_pool2d(d, pool_size=[2, 2])
        gv = R.multiply(e, R.exp(s))
        """,
        """
        p = R.exp(s)
        q = R.reshape(p, R.shape([4, 1, 1, 1]))
        w1 = R.multiply(w, q)
        c = R.nn.conv2d(x, w1)
        b1 = R.multiply(b, p)
        d = R.nn.relu(R.add(c, b1))
        gv = R.nn.max_pool2d(d, pool_size=[2, 2])
        """,
    )


def test_a_quotient_is_folded_as_a_quotient() -> None:
    check(
        BackwardFoldScaleAxis(),
        "gv = R.divide(R.nn.conv2d(x, w), s)",
        """
        q = R.reshape(s, R.shape([4, 1, 1, 1]))
        w1 = R.divide(w, q)
        gv = R.nn.conv2d(x, w1)
        """,
    )


def test_forward_into_all_that_read() -> None:
    check(
        ForwardFoldScaleAxis(),
        """
        p = R.sigmoid(t)
        c = R.multiply(x, p)
        d = R.nn.conv2d(R.nn.relu(c), w)
        e = R.nn.conv2d(c, w)
        gv = R.add(d, e)
        """,
        """
        p = R.sigmoid(t)
        r = R.nn.relu(x)
        w1 = R.multiply(w, p)
        d = R.nn.conv2d(r, w1)
        w2 = R.multiply(w, p)
        e = R.nn.conv2d(x, w2)
        gv = R.add(d, e)
        """,
    )


def test_both_ways() -> None:
    check(
        FoldScaleAxis(),
        """
        c = R.nn.conv2d(R.multiply(x, t), w)
        gv = R.nn.relu(R.multiply(c, s))
        """,
        """
        q = R.reshape(s, R.shape([4, 1, 1, 1]))
        st = R.multiply(q, t)
        w1 = R.multiply(w, st)
        c = R.nn.conv2d(x, w1)
        gv = R.nn.relu(c)
        """,
    )


def test_constant_weights_are_multiplied_ahead() -> None:
    module = parse_flow(
        "gv = R.multiply(R.nn.conv2d(x, R.const([[[[2.0]], [[3.0]], [[4.0]]]])), t2)".replace(
            "t2", "R.const([[[0.5]]])"
        ),
        PARAMS,
    )
    folded = FoldConstant()(FoldScaleAxis()(module))
    assert not calls_of(folded, "multiply")
    assert_same_results(module, folded)


def test_constants_do_not_change_places() -> None:
    """Each counts for nothing beside the others: they went round and round."""
    body = """
        c = R.multiply(R.const([[1.0], [2.0]], "float32"), R.const([[3.0], [5.0]], "float32"))
        d = R.multiply(c, R.const([[7.0], [9.0]], "float32"))
        gv = R.multiply(x, R.multiply(d, z))
    """
    module = parse_flow(body, x=(2, 3), z=(2, 1))
    assert FoldScaleAxis()(module) is module


def test_a_number_is_folded_too() -> None:
    """Into the smaller factor, as before the softmax of attention; XLA does not do it."""
    check(
        FoldScaleAxis(),
        """
        a = R.matmul(q, k)
        gv = R.nn.softmax(R.multiply(a, R.const(0.25, "float32")))
        """,
        """
        k1 = R.multiply(k, R.const(0.25, "float32"))
        a = R.matmul(q, k1)
        gv = R.nn.softmax(a)
        """,
        'q: R.Tensor((2, 64, 16), "float32"), k: R.Tensor((2, 16, 32), "float32")',
    )


def test_dense_layers_take_the_factors_of_features() -> None:
    check(
        FoldScaleAxis(),
        """
        a = R.matmul(R.multiply(x, u), w)
        gv = R.multiply(R.add(a, b), v)
        """,
        """
        w1 = R.multiply(w, v)
        u1 = R.reshape(u, R.shape([6, 1]))
        w2 = R.multiply(w1, u1)
        a = R.matmul(x, w2)
        b1 = R.multiply(b, v)
        gv = R.add(a, b1)
        """,
        'x: R.Tensor((64, 6), "float32"), w: R.Tensor((6, 5), "float32"),'
        'u: R.Tensor((6,), "float32"), v: R.Tensor((5,), "float32"), b: R.Tensor((5,), "float32")',
    )


def test_other_layouts_and_groups() -> None:
    params = (
        'x: R.Tensor((2, 8, 8, 4), "float32"), w: R.Tensor((3, 3, 1, 4), "float32"),'
        's: R.Tensor((4,), "float32")'
    )
    call = 'R.nn.conv2d({}, {}, groups=4, data_layout="NHWC", kernel_layout="HWIO")'
    check(
        ForwardFoldScaleAxis(),
        f"gv = {call.format('R.multiply(x, s)', 'w')}",
        f"w1 = R.multiply(w, s)\ngv = {call.format('x', 'w1')}",
        params,
    )
    check(
        BackwardFoldScaleAxis(),
        f"gv = R.multiply({call.format('x', 'w')}, s)",
        f"w1 = R.multiply(w, s)\ngv = {call.format('x', 'w1')}",
        params,
    )


LIMITS = {
    "a factor that may turn the sign": "gv = R.multiply(R.nn.relu(R.nn.conv2d(x, w)), s)",
    "a tensor that is used elsewhere": "c = R.nn.conv2d(x, w)\ngv = R.add(R.multiply(c, s), c)",
    "a factor along another axis": "gv = R.multiply(R.nn.conv2d(x, w), R.zeros((6,), 'float32'))",
    "a factor along two axes": "gv = R.multiply(R.nn.relu(x), R.mean(x, [2, 3], True))",
    "nothing to fold into": "gv = R.multiply(R.nn.gelu(x), t)",
    "a reader that takes no factor": "c = R.multiply(x, t)\ngv = (R.nn.conv2d(c, w), R.exp(c))",
    "an output": "gv = R.multiply(x, t)",
}


@pytest.mark.parametrize("limit", LIMITS)
def test_left_alone(limit: str) -> None:
    module = parse_flow(LIMITS[limit], PARAMS)
    assert FoldScaleAxis()(module) is module


def test_a_weight_larger_than_the_image_is_left_alone() -> None:
    module = parse_flow("gv = R.multiply(R.matmul(x, w), s)", x=(2, 8), w=(8, 5), s=(5,))
    assert FoldScaleAxis()(module) is module


def test_other_dtypes_are_left_alone() -> None:
    params = (
        'x: R.Tensor((64, 8), "float16"), w: R.Tensor((8, 5), "float16"),'
        's: R.Tensor((5,), "float32")'
    )
    module = parse_flow('gv = R.multiply(R.matmul(x, w, out_dtype="float32"), s)', params)
    assert FoldScaleAxis()(module) is module


def test_backward_programs() -> None:
    scalar = parse_flow(
        "gv = R.sum(R.multiply(R.add(R.nn.conv2d(R.multiply(x, R.exp(t)), w), b), R.exp(s)))",
        PARAMS,
    )
    before = SimplifyGradient()(Gradient("main")(scalar))
    assert_same_results(before, FoldScaleAxis()(before), "main_adjoint", 1e-3)
    folded = Gradient("main")(FoldScaleAxis()(scalar))
    assert_same_results(before, folded, "main_adjoint", 1e-3)


NORM = """
    c = R.nn.conv2d(x, {w}{layout})
    n = R.nn.batch_norm(c, {g}, {be}, {m}, {v}, axis={axis})
    gv = n[0]
"""


def constants(values: np.ndarray[Any, Any]) -> str:
    return f"R.const({values.tolist()})"


@pytest.mark.parametrize(("axis", "layout"), [(1, "NCHW"), (3, "NHWC")])
def test_batch_norm_goes_into_the_weight(axis: int, layout: str) -> None:
    random = np.random.default_rng(0)
    names = {key: constants(random.uniform(0.5, 1.5, 2)) for key in ("g", "be", "m", "v")}
    kernel = (2, 3, 3, 3) if axis == 1 else (3, 3, 3, 2)
    kernel_layout = "OIHW" if axis == 1 else "HWIO"
    attrs = f', data_layout="{layout}", kernel_layout="{kernel_layout}"'
    body = NORM.format(w=constants(random.normal(size=kernel)), axis=axis, layout=attrs, **names)
    params = f'x: R.Tensor({(2, 3, 8, 8) if axis == 1 else (2, 8, 8, 3)}, "float32")'
    module = parse_flow(body.replace("axis=", "training=False, axis="), params)
    folded = FoldBatchnormToConv2D()(module)
    assert_same_results(module, folded)
    assert FoldBatchnormToConv2D()(folded) is folded
    again = FoldConstant()(folded)
    assert len(list(again["main"].body.bindings())) == 2


def test_batch_norm_of_parameters() -> None:
    check(
        FoldBatchnormToConv2D(),
        """
        c = R.nn.conv2d(x, w)
        n = R.nn.batch_norm(c, g, g, m, m, axis=1, training=False)
        gv = (n[0], n[2])
        """,
        """
        scale = R.divide(g, R.sqrt(R.add(m, R.const(1e-5, "float32"))))
        w1 = R.multiply(w, R.reshape(scale, R.shape([4, 1, 1, 1])))
        c = R.nn.conv2d(x, w1)
        shift = R.subtract(g, R.multiply(m, scale))
        out = R.add(c, R.reshape(shift, R.shape([4, 1, 1])))
        gv = (out, m)
        """,
        PARAMS + 'g: R.Tensor((4,), "float32"), m: R.Tensor((4,), "float32")',
    )


@pytest.mark.parametrize(
    "body",
    [
        "n = R.nn.batch_norm(x, g, g, g, g, axis=1)\ngv = n[0]",
        "c = R.nn.conv2d(x, w)\nn = R.nn.batch_norm(c, g, g, g, g, axis=1)\ngv = R.add(n[0], c)",
        "c = R.nn.conv2d(x, w)\nn = R.nn.batch_norm(c, h, h, h, h, axis=2)\ngv = n[0]",
    ],
)
def test_batch_norm_left_alone(body: str) -> None:
    params = PARAMS.replace("(4, 3, 3, 3)", "(3, 3, 3, 3)")
    vectors = 'g: R.Tensor((3,), "float32"), h: R.Tensor((6,), "float32")'
    module = parse_flow(body, params + vectors)
    assert FoldBatchnormToConv2D()(module) is module


def test_a_product_of_two_that_have_one_factor_keeps_it() -> None:
    """Both factors of the product would need it, so that there it would be squared."""
    body = """
        y = R.multiply(x, R.const(3.0, "float32"))
        p = R.nn.avg_pool2d(y, pool_size=[2, 2], strides=[2, 2])
        q = R.nn.max_pool2d(y, pool_size=[2, 2], strides=[2, 2])
        gv = R.matmul(p, q)
    """
    before = parse_flow(body, PARAMS)
    assert ForwardFoldScaleAxis()(before) is before
