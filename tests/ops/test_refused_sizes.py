"""Sizes that do not belong together, and adjoints that are not of the result's type."""

import re
from collections.abc import Callable
from typing import Any

import chex
import jax
import numpy as np
import pytest
from parsing import parse_main
from refusals import i, t

from relaxjax.ir import Call, ShapeType, SymbolicVar, TensorType, Var
from relaxjax.ir.op import OPS, get_op
from relaxjax.lowering import VirtualMachine, build
from relaxjax.ops import OpError, op
from relaxjax.ops.emit import call

n = SymbolicVar("n")
CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "tile": (lambda: call("tile", t(2), (-1,)), "`repeats` must not be negative, found (-1)"),
    "repeat": (lambda: call("repeat", t(2), -2), "`repeats` must not be negative, found (-2)"),
    "places of no axis": (
        lambda: call("gather_nd", t(2, 3), i(4, 0)),
        "relax.gather_nd: the last dimension of `indices` must be in [1, 2], found 0",
    ),
    "places of batches": (
        lambda: call("gather_nd", t(2, 3), i(2, 2), 1),
        "relax.gather_nd: the last dimension of `indices` must be in [0, 1], found 2",
    ),
    "updates of no axis": (
        lambda: call("scatter_nd", t(2, 3), i(4, 0), t(4, 2, 3)),
        "relax.scatter_nd: the last dimension of `indices` must be in [1, 2], found 0",
    ),
    "largest of none": (
        lambda: call("max", t(2, 0, 3), [-2, 0]),
        "relax.max: `x` must have an element along axis -2, axis 0, but its shape is (2, 0, 3)",
    ),
    "smallest of none": (
        lambda: call("min", t(0)),
        "relax.min: `x` must have an element, but its shape is (0)",
    ),
    "mean of no integers": (
        lambda: call("mean", i(3, 0), 1),
        "relax.mean: `x` must have an element along axis 1, but its shape is (3, 0)",
    ),
    "variance of no integers": (
        lambda: call("variance", i(0)),
        "relax.variance: `x` must have an element, but its shape is (0)",
    ),
    "median of none": (
        lambda: call("median", t(n, 0), -1),
        "relax.median: `x` must have an element along axis -1, but its shape is (n, 0)",
    ),
    "place of the largest of none": (
        lambda: call("argmax", t(0, 2), 0),
        "relax.argmax: `x` must have an element along axis 0, but its shape is (0, 2)",
    ),
    "place of the smallest of none": (
        lambda: call("argmin", t(0, 2)),
        "relax.argmin: `x` must have an element, but its shape is (0, 2)",
    ),
    "slices of none": (
        lambda: call("take", t(3, 0), i(2), -1),
        "`x` has nothing along axis 1 that could be read, but `indices` have places: its shape is",
    ),
    "elements of none": (
        lambda: call("gather_elements", t(0, 3), i(2, 3)),
        "relax.gather_elements: `data` has nothing along axis 0 that could be read",
    ),
    "pairs of none": (
        lambda: call("gather_nd", t(2, 0, 3), i(2, 2)),
        "relax.gather_nd: `data` has nothing along axis 1 that could be read",
    ),
    "rows of none": (
        lambda: call("index_tensor", t(0, 3), [i(2)]),
        "relax.index_tensor: `data` has nothing along axis 0 that could be read",
    ),
    "integers that are not there": (
        lambda: call("take", i(3), i(2), 0, "nan"),
        'relax.take: `x` must be of floats for mode "nan", which int64 does not have',
    ),
    "split": (
        lambda: call("split", t(4), [-1, 2]),
        "relax.split: `indices_or_sections` must not be negative, found (-1, 2)",
    ),
    "pad": (
        lambda: call("nn.pad", t(4), (-3, -2)),
        "`pad_width` must not cut off more than there is, found [-3, -2] for `data` of shape (4)",
    ),
    "adaptive pooling": (
        lambda: call("nn.adaptive_avg_pool1d", t(1, 2, 4), -1),
        "relax.nn.adaptive_avg_pool1d: `output_size` must not be negative, found (-1)",
    ),
    "resize": (
        lambda: call("image.resize2d", t(1, 2, 4, 4), (-2, 3)),
        "relax.image.resize2d: `size` must not be negative, found (-2, 3)",
    ),
    "resize of nothing": (
        lambda: call("image.resize2d", t(1, 4, 0, 2), (2, 3), layout="NHWC"),
        "relax.image.resize2d: `data` has nothing along W to make 3 elements of",
    ),
    "grid": (
        lambda: call("image.affine_grid", t(1, 2, 3), (-2, 3)),
        "relax.image.affine_grid: `size` must not be negative, found (-2, 3)",
    ),
    "regions": (
        lambda: call("vision.roi_pool", t(1, 2, 4, 4), t(3, 5), (-2, 2), 1.0),
        "relax.vision.roi_pool: `pooled_size` must not be negative, found (-2, 2)",
    ),
    "transposed convolution": (
        lambda: call("nn.conv1d_transpose", t(1, 2, 4), t(2, 3, 3), padding=5),
        "`padding` must leave something, but along W it takes 5 and 5 from 6 elements",
    ),
    "written values": (
        lambda: call("index_put", t(4, 3), [i(2)], t(2, 4)),
        "`values` must broadcast to (2, 3), the shape of what index_tensor reads from `data` at",
    ),
    "more written values": (
        lambda: call("index_put", t(4), [i(2)], t(1, 2)),
        "relax.index_put: `values` must broadcast to (2), the shape of what",
    ),
    "indices": (
        lambda: call("index_tensor", t(4, 3), [i(2), i(3)]),
        "the shapes (2) of `indices` and (3) of one more of them do not broadcast: 2 against 3",
    ),
    "slices": (
        lambda: call("slice_scatter", t(4, 1), t(2, 3), 0, Var("k", TensorType((), "int64")), 1),
        "relax.slice_scatter: `src` must be of length 1 along axis 1, found 3",
    ),
    "draws": (
        lambda: call("multinomial_from_uniform", t(3, 4), t(2, 2), i(2, 1)),
        "relax.multinomial_from_uniform: `uniform_sample` must have one column, found 2",
    ),
    "packed sequences": (
        lambda: call(
            "nn.attention_var_len", *(t(1, 6, 2, 4) for _ in range(3)), *(i(3), i(), i(4), i())
        ),
        "`seqstart_k` must have 3 elements, as `seqstart_q`, found 4",
    ),
    "packed queries": (
        lambda: call("nn.attention_var_len", t(1, 6, 2), t(1, 6, 2, 4), t(1, 6, 2, 4), i(3), i()),
        "`queries` must have 4 dimensions, which are the batch, the sequence, the heads",
    ),
    "blocks": (
        lambda: call("nn.sparse_dense", t(2, 4), t(3, 2, 2), i(4), i(3)),
        "`weight_indices` must have 3 elements, one for each block of `weight_data`, found 4",
    ),
    "rows of blocks": (
        lambda: call("nn.sparse_dense", t(2, 4), t(3, 2, 2), i(3), i(1)),
        "`weight_indptr` must have an element for each row of blocks, and one more, found 1",
    ),
    "stacks": (
        lambda: call("matmul", t(2, 3, 4), t(5, 4, 3)),
        "the shapes (2) of the stack `x1` and (5) of the stack `x2` do not broadcast: 2 against 5",
    ),
    "condition": (
        lambda: call("where", t(3, dtype="bool"), t(2), t(2)),
        "the shapes (3) of `condition` and (2) of `x1` with `x2` do not broadcast: 3 against 2",
    ),
    "more letters": (
        lambda: call("einsum", [t(2, 3), t(4, 3)], "...i,...i->..."),
        "the shapes (2) of `operands` and (4) of one more of them do not broadcast",
    ),
    "bools": (
        lambda: call("variance", t(3, dtype="bool")),
        "relax.variance: `x` must have a dtype of numbers, found bool",
    ),
    "the larger of complex numbers": (
        lambda: call("maximum", t(3, dtype="complex64"), t(3, dtype="complex64")),
        "relax.maximum: `x1` must have a dtype of real numbers, found complex64: L.real and L.imag",
    ),
    "losses of bools": (
        lambda: call("nn.nll_loss", t(3, 2, dtype="bool"), i(3)),
        "relax.nn.nll_loss: `predictions` must have a dtype of numbers, found bool",
    ),
    "regions of bools": (
        lambda: call("vision.roi_pool", t(1, 2, 4, 4, dtype="bool"), t(3, 5), (2, 2), 1.0),
        "relax.vision.roi_pool: `data` must have a dtype of numbers, found bool",
    ),
    "a seed": (
        lambda: call("random.fold_in", t(dtype="key<fry>"), -1),
        "relax.random.fold_in: `data` must be in [0, 2**32), found -1",
    ),
    "adjoint of slices": (
        lambda: call("grad.take_backward", t(2, 4), t(5, 3), i(2), axis=0),
        "`output_grad` must be of the type of the result, R.Tensor((2, 3), dtype=",
    ),
    "adjoint of windows": (
        lambda: call("grad.max_pool1d_backward", t(1, 2), t(1, 2, 4), 2, 2),
        "relax.grad.max_pool1d_backward: `output_grad` must be of the type of the result",
    ),
    "adjoint of a loss": (
        lambda: call("grad.nll_loss_backward", t(3), t(3, 2), i(3)),
        "relax.grad.nll_loss_backward: `output_grad` must be of the type of the result",
    ),
    "adjoint of another dtype": (
        lambda: call("grad.take_backward", t(2, dtype="float64"), t(5), i(2)),
        "the dtypes must be the same, but `output_grad` is float64 and `result` is float32",
    ),
    "adjoint of attention": (
        lambda: call("grad.attention_backward", t(1, 4, 2, 8), *(t(1, 4, 2, 3) for _ in range(3))),
        "relax.grad.attention_backward: `output_grad` must be of the type of the result",
    ),
    "what attention refuses, its backward operator does": (
        lambda: call(
            "grad.attention_backward", t(1, 4, 2, 3), t(1, 4, 2, 3), t(1, 4, 2, 5), t(1, 4, 2, 3)
        ),
        "relax.grad.attention_backward: `key` must have a head dimension of 3, found 5",
    ),
    "an adjoint that is no tensor": (
        lambda: call("grad.attention_backward", (2, 3), *(t(1, 4, 2, 3) for _ in range(3))),
        "relax.grad.attention_backward: `output_grad` must be a Relax expression",
    ),
    "an adjoint that is a shape": (
        lambda: call(
            "grad.attention_backward", Var("s", ShapeType((2,))), *(t(1, 4, 2, 3) for _ in range(3))
        ),
        "`output_grad` must be a tensor, but `s` is of type R.Shape([2])",
    ),
    "an adjoint of what may be no float": (
        lambda: call(
            "grad.attention_backward",
            *(t(1, 4, 2, 3), t(1, 4, 2, 3), Var("k", TensorType((1, 4, 2, 3))), t(1, 4, 2, 3)),
        ),
        "`key` must have a known dtype, because what is no float has no adjoint, found R.Tensor((1",
    ),
    "a recurrence of a number": (
        lambda: call("linear_recurrence", t(), t()),
        "relax.linear_recurrence: `axis` must be in [0, 0) for 0 dimensions, found -1",
    ),
    "no adjoint": (
        lambda: call("grad.resize2d_backward", *(t(1, 2, 4, 4, dtype="int32"),) * 2, (4, 4)),
        "relax.grad.resize2d_backward: `data` must have a float dtype to have an adjoint",
    ),
}


@pytest.mark.parametrize("title", CASES)
def test_what_is_refused_is_told(title: str) -> None:
    build, message = CASES[title]
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        build()


def test_a_type_that_cannot_be_is_an_error_of_the_operator() -> None:
    @op("relax.test.shorter")
    def shorter(x: TensorType) -> TensorType:
        """Two elements less."""
        assert x.dims is not None
        return TensorType((x.dims[0] - 2,), x.dtype)

    try:
        with pytest.raises(OpError, match=r"relax.test.shorter: a dimension must not be negative"):
            shorter(t(1))
    finally:
        del OPS["relax.test.shorter"]


def test_the_last_places_may_be_unknown_but_for_their_gradient() -> None:
    write = call("scatter_nd", t(4), i(3, n), t(3), "add")
    assert isinstance(write, Call)
    rule: Any = get_op("relax.scatter_nd").gradient
    match = "the last dimension of `x` must be known here, but it is n"
    with pytest.raises(OpError, match=match):
        rule(t(4), t(4), *write.args, **write.attrs)


def test_symbolic_sizes_may_be_right() -> None:
    call("index_put", t(4, 3), [i(2)], t(2, n))
    call("grad.take_backward", t(n, 3), t(5, 3), i(2), axis=0)
    call("take", t(0, 3), i(n), 0)
    call("take", t(0, 3), i(0), 0)
    call("grad.take_backward", Var("g", TensorType(None, "float32")), t(5, 3), i(2), axis=0)


def test_an_axis_whose_length_may_not_be_one_is_squeezed_where_it_is_known() -> None:
    module = parse_main("y = R.squeeze(x, axis=[0])\nreturn y", x=("n", 3))
    main = VirtualMachine(build(module))["main"]
    x = np.ones((1, 3), "float32")
    chex.assert_trees_all_equal(main(x), x[0])
    with pytest.raises(ValueError, match=r"with `n` = 2, .* is of type R.Tensor\(\(2, 3\)"):
        main(np.ones((2, 3), "float32"))
    (n,) = jax.export.symbolic_shape("n")
    lower = get_op("relax.squeeze").lower
    assert lower is not None
    with pytest.raises(OpError, match=r"axis 0 has the length n, which must be known to be 1"):
        jax.eval_shape(lambda x: lower(x, axis=[0]), jax.ShapeDtypeStruct((n, 3), "float32"))
