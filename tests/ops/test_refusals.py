"""What operators refuse, and how they say it: which argument, what was found and expected."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from refusals import cases, i, t

from relaxjax.ir import ObjectType, PrimType, ShapeType, SymbolicVar, TensorType, Var
from relaxjax.ops.emit import call

n = SymbolicVar("n")
RANKLESS = Var("x", TensorType(None, "float32"))

REFUSALS: dict[str, list[tuple[Callable[[], Any], str]]] = {
    "any operator": [
        (
            lambda: call("add", t(2), Var("s", ShapeType((2,)))),
            "relax.add: `x2` must be a tensor, but `s` is of type R.Shape([2])",
        ),
        (
            lambda: call("shape_to_tensor", t(2)),
            '`expr` must be a shape, but `x` is of type R.Tensor((2,), dtype="float32")',
        ),
        (lambda: call("concat", t(2)), "`tensors` must be a tuple, but `x` is of type"),
        (
            lambda: call("clip", t(2), t(), 1),
            "relax.clip: `min` must be a scalar of the host, but `x` is of type",
        ),
        (lambda: call("add", t(2), "y"), "relax.add: `x2` must be a Relax expression, but `'y'`"),
        (lambda: call("reshape", t(2), "y"), "`shape` must be a shape such as (2, n), but `'y'`"),
        (lambda: call("concat", 3), "`tensors` must be a tuple or list, but `3` of type int"),
        (
            lambda: call("nn.softmax", t(2), 1.5),
            "`axis` must be an integer, but `1.5` of type float",
        ),
        (lambda: call("nn.dropout", t(2), "y"), "`rate` must be a number, but `'y'` of type str"),
        (lambda: call("sum", t(2), keepdims=3), "`keepdims` must be True or False, but `3`"),
        (lambda: call("take", t(2), i(2), 0, 5), "`mode` must be a string, but `5` of type int"),
        (
            lambda: call("astype", t(2), "float31"),
            "there is no dtype `float31`; did you mean `float32`",
        ),
        (lambda: call("exp", None), "relax.exp: the argument `x` may not be None"),
    ],
    "what many share": [
        (
            lambda: call("sum", t(2, 3), axis=2),
            "relax.sum: `axis` must be in [-2, 2) for 2 dimensions, found 2",
        ),
        (
            lambda: call("sum", t(2, 3), axis=[0, -2]),
            "relax.sum: `axis` names an axis twice: [0, -2]",
        ),
        (
            lambda: call("add", t(2), i(2)),
            "relax.add: the dtypes must be the same, but `x1` is float32 and `x2` is int64",
        ),
        (
            lambda: call("add", t(2, 3), t(2, 4)),
            "relax.add: the shapes (2, 3) of `x1` and (2, 4) of `x2` do not broadcast: 3 against 4",
        ),
        (
            lambda: call("add", *(Var("x", TensorType((2,), "float32", vdevice=d)) for d in "ab")),
            "relax.add: the tensors are on different devices: ['",
        ),
        (
            lambda: call("exp", i(2)),
            "relax.exp: `x` must have a float dtype, found int64: convert it with astype",
        ),
        (
            lambda: call("exp", Var("x", TensorType((2,), "complex64"))),
            "relax.exp: `x` must have a dtype of real numbers, found complex64: L.real and L.imag",
        ),
    ],
    "elementwise": [
        (
            lambda: call("bitwise_and", t(2), t(2)),
            "relax.bitwise_and: the dtype must be an integer or bool, found float32",
        ),
        (
            lambda: call("bitwise_not", t(2)),
            "`x` must have an integer dtype or bool, found float32",
        ),
        (
            lambda: call("bitwise_or", *[t(2, dtype="complex64")] * 2),
            "relax.bitwise_or: the dtype must be an integer or bool, found complex64",
        ),
        (
            lambda: call("clip", t(2, dtype="bool"), 0, 1),
            "relax.clip: `x` must have a dtype of numbers, found bool",
        ),
        (
            lambda: call("right_shift", *[t(2, dtype="bool")] * 2),
            "relax.right_shift: the dtype must be an integer, found bool",
        ),
        *(
            (
                lambda name=name: call(name, *[t(2, dtype="bool")] * 2),
                f"relax.{name}: `x1` must have a dtype of numbers, found bool: convert it with",
            )
            for name in ["subtract", "divide", "floor_divide", "mod", "floor_mod", "power"]
        ),
        (
            lambda: call("ewise_fma", t(2), t(2), t(1, 2)),
            "relax.ewise_fma: `x1`, `x2` and `x3` must have the same rank, found [1, 2]",
        ),
        (
            lambda: call("ewise_fma", t(2), t(3), t(2)),
            "relax.ewise_fma: `x1`, `x2` and `x3` must have one shape, found (2) and (3)",
        ),
        (
            lambda: call("where", t(2), t(2), t(2)),
            "relax.where: `condition` must have dtype bool, found float32",
        ),
    ],
    "creation": [
        (
            lambda: call("zeros", Var("s", ObjectType()), "float32"),
            "relax.zeros: `shape` must be a shape, but `s` is of type R.Object",
        ),
        (
            lambda: call("zeros", (2, -1), "int8"),
            "`shape` must have no negative dimension, found -1",
        ),
        (
            lambda: call("full", (2,), t(2)),
            "`fill_value` must be a scalar, but it has 1 dimension",
        ),
        (lambda: call("eye", 2.5), "relax.eye: `n` must be an integer, found 2.5"),
        (lambda: call("eye", 2, -1), "relax.eye: `m` must not be negative, found -1"),
        (lambda: call("eye_like", t(2)), "relax.eye_like: `x` must have 2 dimensions, found 1"),
        (lambda: call("arange", 0, 5, 0), "relax.arange: `step` must not be 0"),
        (lambda: call("tril", t(2)), "relax.tril: `x` must have at least 2 dimensions, found 1"),
        (
            lambda: call("hamming_window", 3, True, 0.5, 0.5, "int8"),
            "relax.hamming_window: `dtype` must be a float dtype, found int8",
        ),
        (
            lambda: call("hamming_window", 0, True, 0.5, 0.5, "float32"),
            "relax.hamming_window: `window_size` must be positive, found 0",
        ),
    ],
    "shapes": [
        (
            lambda: call("reshape", RANKLESS, (2, -1)),
            "relax.reshape: `shape` has a dimension to infer (-1 or 0), but the shape of `x`",
        ),
        (lambda: call("reshape", t(4), (-1, -1)), "`shape` may have one -1, found (-1, -1)"),
        (lambda: call("reshape", t(4), (3, -1)), "in `shape` the -1 of (3, -1) has no value for 4"),
        (
            lambda: call("reshape", t(4), (4, 0)),
            "relax.reshape: the 0 at 1 in `shape` has no dimension to copy: `x` is (4)",
        ),
        (
            lambda: call("reshape", t(4), (3,)),
            "`shape` must have as many elements as `x`, but (4) has 4 and (3) has 3",
        ),
        (
            lambda: call("broadcast_to", t(2, 3), (3,)),
            "relax.broadcast_to: `shape` must have at least 2 dimensions, as `x`, found 1",
        ),
        (
            lambda: call("broadcast_to", t(2, 3), (3, 3)),
            "relax.broadcast_to: `x` of shape (2, 3) does not broadcast to (3, 3)",
        ),
        (
            lambda: call("collapse_sum_to", t(2, 3), (3, 3)),
            "relax.collapse_sum_to: `shape` of shape (3, 3) does not broadcast to (2, 3)",
        ),
        (
            lambda: call("permute_dims", t(2, 3), [0]),
            "relax.permute_dims: `axes` must name all 2 axes of `x`, found [0]",
        ),
        (
            lambda: call("reverse_sequence", t(2, 3), t(2)),
            "`seq_lengths` must be int32 or int64, found float32",
        ),
        (
            lambda: call("reverse_sequence", t(2, 3), i(2, 2)),
            "`seq_lengths` must have 1 dimension, found 2",
        ),
        (
            lambda: call("reverse_sequence", t(2, 3), i(3)),
            "`seq_lengths` must have 2 elements, one for each of the batch, found 3",
        ),
    ],
    "joining": [
        (
            lambda: call("concat", []),
            "relax.concat: `tensors` must be one or more tensors, but its type is R.Tuple()",
        ),
        (
            lambda: call("concat", [t(2), t(2, 2)]),
            "relax.concat: `tensors` must have the same rank, found [1, 2]",
        ),
        (
            lambda: call("concat", [t(2, 2), t(2, 2)], axis=None),
            "relax.concat: `axis` may be None for tensors of one dimension only, found 2",
        ),
        (
            lambda: call("concat", [t(2, 3), t(2, 4)]),
            "relax.concat: `tensors` must agree on all axes but 0, found (2, 3) and (2, 4)",
        ),
        (
            lambda: call("split", t(4), 0),
            "relax.split: `indices_or_sections` must be positive, found 0",
        ),
        (
            lambda: call("split", t(5), 4),
            "relax.split: `x` of length 5 cannot be cut into 4 pieces: they are of length 2, and",
        ),
        (lambda: call("stack", [t(2), t(3)]), "`tensors` must have one shape, found (2) and (3)"),
        (
            lambda: call("meshgrid", [t(2)], "yx"),
            'relax.meshgrid: `indexing` must be "ij" or "xy", found "yx"',
        ),
        (
            lambda: call("meshgrid", [t(2, 2)]),
            "relax.meshgrid: `tensors` must have 1 dimension each, found one with 2",
        ),
    ],
    "products": [
        (
            lambda: call("matmul", t(), t(2, 2)),
            "relax.matmul: `x1` must have at least one dimension, but it is a scalar",
        ),
        (
            lambda: call("matmul", t(2, 3), t(2, 3)),
            "must be the one before the last of `x2`, but 3 and 2 are summed over",
        ),
        (lambda: call("outer", t(2, 2), t(2)), "relax.outer: `x1` must have 1 dimension, found 2"),
        (
            lambda: call("einsum", [t(2)], "i1->i"),
            'relax.einsum: `subscripts` must be like "ij,jk->ik", found "i1->i"',
        ),
        (
            lambda: call("einsum", [t(2)], "i,j"),
            "relax.einsum: `subscripts` has 2 operands, but 1 tensors are given",
        ),
        (
            lambda: call("einsum", [t(2)], "i->j"),
            '`subscripts` gives "j", which must be letters of its operands, each once',
        ),
        (
            lambda: call("einsum", [t(2)], "ij->i"),
            'relax.einsum: in `subscripts` the operand "ij" has 2 letters for a tensor',
        ),
        (lambda: call("einsum", [t(2, 3)], "ii"), "relax.einsum: in `operands` i is both 2 and 3"),
        (
            lambda: call("einsum", [t(2), t(3)], "i,i"),
            "relax.einsum: in `operands` i is both 2 and 3",
        ),
    ],
    "indexing": [
        (
            lambda: call("take", t(2, 3), i(2), 0, "far"),
            "relax.take: `mode` must be one of fast, wrap, clip, nan, found far",
        ),
        (
            lambda: call("take", t(2, 3), i(2)),
            "relax.take: `axis` may be left out for a vector only, but `x` has 2 dimensions",
        ),
        (lambda: call("take", t(2), t(2)), "`indices` must have an integer dtype, found float32"),
        (
            lambda: call("take", t(2), Var("s", ShapeType((2,)))),
            "`indices` must be a tensor or an integer, but `s` is of type R.Shape([2])",
        ),
        (
            lambda: call("bucketize", t(2), t(2, 2)),
            "relax.bucketize: `boundaries` must have 1 dimension, found 2",
        ),
        (
            lambda: call("gather_elements", t(2), i(2, dtype="int32")),
            "relax.gather_elements: `indices` must have dtype int64, found int32",
        ),
        (
            lambda: call("gather_elements", t(2), i(2, 2)),
            "`indices` must have 1 dimension, found 2",
        ),
        (
            lambda: call("scatter_elements", t(2), i(2), t(2), reduction="sub"),
            "`reduction` must be one of update, add, mul, mean, max, min, found sub",
        ),
        (
            lambda: call(
                "scatter_elements", t(2, dtype="bool"), i(2), t(2, dtype="bool"), reduction="mean"
            ),
            "relax.scatter_elements: `data` must have a dtype of numbers, found bool",
        ),
        (lambda: call("scatter_elements", t(2), i(2), t(1, 2)), "`updates` must have 1 dimension"),
        (
            lambda: call("scatter_elements", t(2), i(2), t(1)),
            "`updates` must have the shape of `indices`, (2), found (1)",
        ),
        (lambda: call("gather_nd", t(2, 3), i(4, 1), 3), "`batch_dims` must be in [0, 1], found 3"),
        (
            lambda: call("gather_nd", t(2, 3), i(4, 3)),
            "the last dimension of `indices` must be in [1, 2], found 3",
        ),
        (
            lambda: call("scatter_nd", t(2, 3), i(4, 3), t(4)),
            "relax.scatter_nd: the last dimension of `indices` must be in [1, 2], found 3",
        ),
        (
            lambda: call("scatter_nd", t(2, 3), i(4, 1), t(4)),
            "relax.scatter_nd: `updates` must have shape (4, 3), found (4)",
        ),
        (
            lambda: call("index_tensor", t(2), []),
            "relax.index_tensor: `indices` must be one or more tensors, but its type is R.Tuple()",
        ),
        (
            lambda: call("index_tensor", t(2), [t(2)]),
            "`indices[0]` must have an integer dtype, found float32",
        ),
        (
            lambda: call("index_tensor", t(2), [i(2)] * 2),
            "`indices` may be at most 1 tensors, found 2",
        ),
        (lambda: call("index_put", t(2), [i(2)] * 2, t(2)), "`indices` may be at most 1 tensors"),
        (
            lambda: call("one_hot", i(2), 1, 0.0, 3),
            "relax.one_hot: `on_value` and `off_value` must have the same dtype",
        ),
        (
            lambda: call("one_hot", i(2), 1.0, t(), 3),
            "relax.one_hot: `off_value` must be a number or R.prim_value of one, found R.Tensor",
        ),
        (
            lambda: call("one_hot", i(2), 1, 0, 0),
            "relax.one_hot: `depth` must be positive, found 0",
        ),
    ],
    "slices": [
        (
            lambda: call("strided_slice", t(2), Var("a", PrimType("int64")), [0], [1]),
            "relax.strided_slice: `axes` must be a tuple of integers, but `a` is of type",
        ),
        (
            lambda: call("strided_slice", t(2), [0], [0, 1], [1]),
            "relax.strided_slice: `begin` must have 1 elements, as `axes`, found 2",
        ),
        (lambda: call("strided_slice", t(2), [0], [0], [1], [0]), "`strides` must not be 0"),
        (
            lambda: call("dynamic_strided_slice", t(2), t(1), i(1), i(1)),
            "relax.dynamic_strided_slice: `begin` must have dtype int64, found float32",
        ),
        (
            lambda: call("dynamic_strided_slice", t(2), i(1), i(2), i(1)),
            "relax.dynamic_strided_slice: `end` must have 1 elements along 1 dimension",
        ),
        (
            lambda: call("slice_scatter", t(4), t(2, 2), 0, 2, 1),
            "relax.slice_scatter: `src` must have 1 dimension, found 2",
        ),
        (lambda: call("slice_scatter", t(4), t(2), 0, 2, 0), "`step` must be positive, found 0"),
        (
            lambda: call("slice_scatter", t(4), t(2), 3, 2, 1),
            "relax.slice_scatter: `start` must be in [0, `end`], found 3 and 2",
        ),
        (
            lambda: call("slice_scatter", t(4), t(3), 0, 2, 1),
            "relax.slice_scatter: `src` must be of length 2 along axis 0, found 3",
        ),
    ],
    "sorting": [
        (
            lambda: call("topk", t(4), ret_type="all"),
            "relax.topk: `ret_type` must be both, values or indices, found all",
        ),
        (
            lambda: call("unique", t(4), return_index=Var("b", PrimType("bool"))),
            "relax.unique: `b` must be written out as True or False",
        ),
        (
            lambda: call("multinomial_from_uniform", t(3), t(2, 1), i(2, 1)),
            "relax.multinomial_from_uniform: `prob` must have 2 dimensions, found 1",
        ),
        (
            lambda: call("multinomial_from_uniform", t(3, 4), t(2, 1), i(3, 1)),
            "`sample_indices` must have a row for each of the 2 of `uniform_sample`, found 3",
        ),
    ],
    "core": [
        (lambda: call("tensor_to_shape", i(2, 2)), "`expr` must have 1 dimension, found 2"),
        (
            lambda: call("assert_op", t()),
            "relax.assert_op: `condition` must be a scalar of dtype bool, but its type is",
        ),
    ],
}


@pytest.mark.parametrize(("build", "message"), cases(REFUSALS))
def test_what_is_refused_is_told(build: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        build()
