"""Layouts converted: only the ends are transposed, and what lies between follows."""

from typing import Any

import pytest
from parsing import parse_flow, parse_functions
from same_results import assert_same_results, calls_of

from relaxjax.ir import Call, IRModule, TensorType, assert_structural_equal
from relaxjax.ops import OpError
from relaxjax.passes import ConvertLayout, Gradient, SimplifyGradient

NHWC = {"relax.nn.conv2d": ["NHWC", "OHWI"]}
X = 'x: R.Tensor((2, 3, 8, 8), "float32")'
W = 'w: R.Tensor((4, 3, 3, 3), "float32")'


def program(body: str, *params: str) -> IRModule:
    """A function of `x`, `w` and more parameters that returns `gv`."""
    lines = "\n".join(line.strip() for line in body.strip().splitlines())
    return parse_flow(lines, ", ".join([X, W, *params]))


def converted(body: str, *params: str) -> IRModule:
    before = program(body, *params)
    after = ConvertLayout(NHWC)(before)
    assert_same_results(before, after)
    assert ConvertLayout(NHWC)(after) is after
    return after


def transposes(module: IRModule, name: str = "main") -> list[Call]:
    """The transposes that move elements: those of axes of length 1 do not."""
    found = []
    for call in calls_of(module, "permute_dims", name):
        ty = call.args[0].ty
        assert isinstance(ty, TensorType)
        assert ty.dims is not None
        axes = call.attrs["axes"] or range(ty.ndim)[::-1]
        long = [axis for axis in axes if ty.dims[axis] != 1]
        if long != sorted(long):
            found.append(call)
    return found


ENDS = """
    x1 = R.permute_dims(x, axes=[0, 2, 3, 1])
    w1 = R.permute_dims(w, axes=[0, 2, 3, 1])
    y = R.nn.conv2d(x1, w1, data_layout="NHWC", kernel_layout="OHWI", out_layout="NHWC")
"""

# What follows a convolution `y`, and what becomes of it. TVM writes the same, unless a note says
# otherwise.
CASES = {
    "nothing": ("gv = R.add(y, y)", "y1 = R.add(y, y)\ngv = R.permute_dims(y1, axes=[0, 3, 1, 2])"),
    "activation": (
        "gv = R.nn.relu(y)",
        "y1 = R.nn.relu(y)\ngv = R.permute_dims(y1, axes=[0, 3, 1, 2])",
    ),
    "scalar": (
        'gv = R.add(y, R.const(1, "float32"))',
        'y1 = R.add(y, R.const(1, "float32"))\ngv = R.permute_dims(y1, axes=[0, 3, 1, 2])',
    ),
    "reduction that keeps nothing to move": (
        "gv = R.mean(y, axis=[2, 3])",
        "gv = R.mean(y, axis=[1, 2])",
    ),
    "reduction": (
        "gv = R.sum(y, axis=[1], keepdims=True)",
        "y1 = R.sum(y, axis=[3], keepdims=True)\ngv = R.permute_dims(y1, axes=[0, 3, 1, 2])",
    ),
    "flattening": (
        "gv = R.reshape(y, R.shape([2, 144]))",
        "y1 = R.permute_dims(y, axes=[0, 3, 1, 2])\ngv = R.reshape(y1, R.shape([2, 144]))",
    ),
    "concat and split": (
        "a = R.concat((y, y), axis=1)\nb = R.split(a, 2, axis=1)\ngv = b[1]",
        (
            "a = R.concat((y, y), axis=3)\nb = R.split(a, 2, axis=3)\nc = b[1]\n"
            "gv = R.permute_dims(c, axes=[0, 3, 1, 2])"
        ),
    ),
    "pooling": (
        "gv = R.nn.max_pool2d(y, pool_size=[2, 2], strides=[2, 2])",
        (
            'y1 = R.nn.max_pool2d(y, pool_size=[2, 2], strides=[2, 2], layout="NHWC")\n'
            "gv = R.permute_dims(y1, axes=[0, 3, 1, 2])"
        ),
    ),
    "softmax": (
        "gv = R.nn.softmax(y, axis=1)",
        "y1 = R.nn.softmax(y, axis=3)\ngv = R.permute_dims(y1, axes=[0, 3, 1, 2])",
    ),
    "new axes": (
        "gv = R.expand_dims(y, axis=[-3, 1])",
        "y1 = R.expand_dims(y, axis=[-3, 1])\ngv = R.permute_dims(y1, axes=[0, 1, 5, 3, 2, 4])",
    ),
    "norm": (
        "gv = R.nn.layer_norm(y, n, n, axes=[-2, -1])",
        "y1 = R.nn.layer_norm(y, n, n, axes=[1, 2])\ngv = R.permute_dims(y1, axes=[0, 3, 1, 2])",
    ),
    "slice": (
        "gv = R.strided_slice(y, (1, 2), (0, 1), (2, 3))",
        (
            "y1 = R.strided_slice(y, (3, 1), (0, 1), (2, 3))\n"
            "gv = R.permute_dims(y1, axes=[0, 3, 1, 2])"
        ),
    ),
    # TVM transposes back before it pads.
    "padding": (
        "gv = R.nn.pad(y, (0, 0, 1, 1, 2, 2, 3, 3))",
        "y1 = R.nn.pad(y, (0, 0, 2, 2, 3, 3, 1, 1))\ngv = R.permute_dims(y1, axes=[0, 3, 1, 2])",
    ),
    # TVM transposes back before a sum with a tensor of another rank.
    "bias of fewer axes": (
        "gv = R.add(y, b)",
        (
            "b1 = R.reshape(b, R.shape([4]))\ny1 = R.add(y, b1)\n"
            "gv = R.permute_dims(y1, axes=[0, 3, 1, 2])"
        ),
    ),
    "bias": (
        "gv = R.add(y, c)",
        (
            "c1 = R.permute_dims(c, axes=[0, 2, 3, 1])\ny1 = R.add(y, c1)\n"
            "gv = R.permute_dims(y1, axes=[0, 3, 1, 2])"
        ),
    ),
    # TVM leaves a permute_dims that moves nothing.
    "transpose": ("a = R.permute_dims(y, axes=[0, 2, 3, 1])\ngv = R.exp(a)", "gv = R.exp(y)"),
}
MORE = [
    'b: R.Tensor((4, 1, 1), "float32")',
    'c: R.Tensor((1, 4, 1, 1), "float32")',
    'n: R.Tensor((6, 6), "float32")',
]


@pytest.mark.parametrize("case", CASES)
def test_what_follows_a_convolution(case: str) -> None:
    before, after = CASES[case]
    found = converted(f"y = R.nn.conv2d(x, w)\n{before}", *MORE)
    assert_structural_equal(found, program(ENDS.strip() + "\n" + after, *MORE))


def test_a_chain_is_transposed_at_its_ends_only() -> None:
    """And what is used twice is transposed once, which TVM does twice."""
    module = converted(
        "a = R.nn.conv2d(x, w, padding=1)\nb = R.nn.relu(a)\n"
        "c = R.nn.conv2d(b, v, padding=1)\nd = R.nn.conv2d(x, w, padding=1)\n"
        "gv = R.add(R.add(c, a), d)",
        'v: R.Tensor((4, 4, 3, 3), "float32")',
    )
    assert [str(call.args[0]) for call in transposes(module)][:3] == ["x", "w", "v"]
    assert len(transposes(module)) == 4


def test_the_layout_of_the_result_may_be_chosen() -> None:
    before = program("gv = R.nn.conv2d(x, w)")
    after = ConvertLayout({"relax.nn.conv2d": ["NHWC", "default", "NCHW"]})(before)
    assert_same_results(before, after)
    expected = program(
        "x1 = R.permute_dims(x, axes=[0, 2, 3, 1])\n"
        'gv = R.nn.conv2d(x1, w, data_layout="NHWC", kernel_layout="OIHW", out_layout="NCHW")'
    )
    assert_structural_equal(after, expected)


def test_where_nothing_is_asked_for_nothing_happens() -> None:
    module = program("y = R.nn.relu(x)\ngv = R.nn.max_pool2d(y, pool_size=[2, 2])")
    assert ConvertLayout(NHWC)(module) is module
    assert ConvertLayout()(program("gv = R.nn.conv2d(x, w)")) is not None
    for layouts in (["NCHW", "OIHW"], ["default", "default"]):
        conv = program("gv = R.nn.conv2d(x, w)")
        assert ConvertLayout({"relax.nn.conv2d": layouts})(conv) is conv


def test_a_callback_chooses_for_each_call() -> None:
    """By the call: here only convolutions with padding."""
    before = program("a = R.nn.conv2d(x, w, padding=1)\nb = R.nn.conv2d(x, w)\ngv = (a, b)")

    def choose(call: Call) -> dict[str, list[str]]:
        return NHWC if any(call.attrs.get("padding", ())) else {}

    after = ConvertLayout(layout_cb=choose)(before)
    assert_same_results(before, after)
    layouts = [call.attrs["data_layout"] for call in calls_of(after, "nn.conv2d")]
    assert layouts == ["NHWC", "NCHW"]


def test_each_block_is_converted_by_itself() -> None:
    """A hidden variable stays inside its block, and so does a transposed tensor."""
    before = parse_functions(f"""
        @R.function
        def main({X}, {W}):
            with R.dataflow():
                a = R.nn.conv2d(x, w, padding=1)
                R.output(a)
            between = R.exp(a)
            with R.dataflow():
                b = R.nn.conv2d(x, w, padding=1)
                c = R.add(a, b)
                R.output(c)
            return c
        """)
    after = ConvertLayout(NHWC)(before)
    assert_same_results(before, after)
    assert len(transposes(after)) == 7


def test_branches_are_converted_too() -> None:
    before = parse_functions(f"""
        @R.function
        def main({X}, {W}, p: R.Tensor((), "bool")):
            a = R.nn.conv2d(x, w)
            if p:
                b = R.nn.relu(a)
                y = R.nn.conv2d(x, w)
            else:
                y = R.nn.relu(a)
            return y
        """)
    after = ConvertLayout(NHWC)(before)
    assert_same_results(before, after)
    assert {call.attrs["data_layout"] for call in calls_of(after, "nn.conv2d")} == {"NHWC"}


def test_an_unknown_rank_is_left_alone() -> None:
    module = parse_functions(f"""
        @R.function
        def main(x: R.Tensor(dtype="float32"), {W}):
            gv = R.nn.conv2d(x, w)
            return gv
        """)
    assert ConvertLayout(NHWC)(module) is module


def test_what_has_no_rule_takes_tensors_as_they_were() -> None:
    """As some primitives of JAX, or a user's operator that declares nothing."""
    found = converted(
        "y = R.nn.conv2d(x, w)\na = L.cumsum(y, axis=1, reverse=False)\ngv = R.nn.relu(a)"
    )
    expected = program(
        ENDS + "y1 = R.permute_dims(y, axes=[0, 3, 1, 2])\n"
        "a = L.cumsum(y1, axis=1, reverse=False)\ngv = R.nn.relu(a)"
    )
    assert_structural_equal(found, expected)


def test_a_symbolic_batch_is_converted() -> None:
    before = parse_functions(f"""
        @R.function
        def main(x: R.Tensor(("n", 3, 8, 8), "float32"), {W}):
            with R.dataflow():
                y = R.nn.relu(R.nn.conv2d(x, w))
                gv = R.nn.max_pool2d(y, pool_size=[2, 2], strides=[2, 2])
                R.output(gv)
            return gv
        """)
    after = ConvertLayout(NHWC)(before)
    assert_same_results(before, after)
    assert len(transposes(after)) == 3


NET = parse_functions("""
    @R.function
    def main(
        x: R.Tensor((2, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32"),
        b: R.Tensor((4, 1, 1), "float32"), v: R.Tensor((4, 2, 3, 3), "float32"),
        g: R.Tensor((4,), "float32"), d: R.Tensor((4, 5), "float32"),
    ):
        with R.dataflow():
            a = R.nn.relu(R.add(R.nn.conv2d(x, w, padding=1), b))
            p = R.nn.max_pool2d(a, pool_size=[2, 2], strides=[2, 2])
            c = R.nn.conv2d(p, v, padding=1, strides=2, groups=2)
            n = R.nn.batch_norm(c, g, g, g, g, axis=1)
            m = R.mean(R.nn.silu(n[0]), axis=[2, 3])
            gv = R.sum(R.nn.log_softmax(R.matmul(m, d)))
            R.output(gv)
        return gv
    """)


def test_a_backward_program_is_transposed_at_its_ends_only() -> None:
    """The image and the kernels come in, and the image's adjoint goes out.

    The adjoint of a kernel comes out of its convolution in the kernel's own layout. One more
    transpose was there before: it lays out the groups of a grouped convolution's kernel adjoint.
    """
    before = SimplifyGradient()(Gradient("main")(NET))
    layouts = {"relax.nn.conv2d": ["NHWC", "HWIO"]}
    after = ConvertLayout(layouts)(before)
    assert_same_results(before, after, "main_adjoint")
    new = len(transposes(after, "main_adjoint")) - len(transposes(before, "main_adjoint"))
    assert new == len(["x", "w", "v", "the adjoint of x"])
    assert ConvertLayout(layouts)(after) is after


def test_converting_before_the_gradient_gives_the_same() -> None:
    layouts = {"relax.nn.conv2d": ["NHWC", "HWIO"]}
    before = Gradient("main")(NET)
    after = Gradient("main")(ConvertLayout(layouts)(NET))
    assert_same_results(before, after, "main_adjoint")


def test_layouts_without_operators() -> None:
    layouts: Any = ["NHWC", "OHWI"]
    with pytest.raises(TypeError, match=r"must be a dict from str to a list of str or None, but"):
        ConvertLayout(layouts)(program("gv = R.nn.conv2d(x, w)"))


def test_what_has_no_layout_cannot_be_asked_for() -> None:
    module = program("gv = R.nn.conv2d(x, w)")
    with pytest.raises(ValueError, match=r"names relax.matmul, which has no layout to choose"):
        ConvertLayout({"relax.matmul": ["NHWC"]})(module)
    with pytest.raises(OpError, match='letters of "NCHW", each once, but "NCHW4c" is wished for'):
        ConvertLayout({"relax.nn.conv2d": ["NCHW4c", "OIHW4o"]})(module)
