"""Gradients that XLA's CPU backend is slow with as automatic differentiation writes them."""

from collections.abc import Iterator
from typing import Any

import pytest
from parsing import parse_flow

from relaxjax.ir import Call, TensorType, Var
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.walk import post_order
from relaxjax.passes import Gradient, LegalizeOps, SimplifyGradient


def primitives(
    value: str, x: Any, w: Any, dtype: str = "float32", by: list[str] | None = None
) -> Iterator[Call]:
    """Those of a result and its adjoints, all or `by` some names, as legalised for a CPU."""
    module = parse_flow(f"y = {value}", x=f'R.Tensor({x}, "{dtype}")', w=w)
    adjoint = SimplifyGradient()(Gradient("main", by, cotangent=True)(module))
    for call in post_order(LegalizeOps("cpu")(adjoint)["main_adjoint"]):
        if isinstance(call, Call) and isinstance(call.op, Op):
            yield call


def convolutions(value: str, x: Any, w: Any) -> list[dict[str, Any]]:
    """What XLA's convolutions among them are given."""
    calls = (call for call in primitives(value, x, w) if "conv_general" in str(call.op))
    return [dict(call.attrs) for call in calls]


@pytest.mark.parametrize("groups", [2, 4])
def test_the_groups_of_a_weight_s_gradient_are_groups_of_features(groups: int) -> None:
    """As groups of the batch, which JAX makes of them, it takes up to 66 times the forward."""
    value = f"R.nn.conv2d(x, w, groups={groups}, padding=1)"
    found = convolutions(value, (2, 8, 5, 5), (8, 8 // groups, 3, 3))
    assert [conv["feature_group_count"] for conv in found] == [groups] * 3
    assert [conv["batch_group_count"] for conv in found] == [1] * 3


def test_several_kernels_a_channel_have_no_convolution_at_all() -> None:
    value = "R.nn.conv2d(x, w, groups=4, padding=1)"
    assert convolutions(value, (2, 4, 5, 5), (8, 1, 3, 3)) == []


def test_the_weight_of_a_transposed_convolution_meets_no_zeros() -> None:
    """Only the result spreads its data by the strides; JAX's gradient of the weight does too."""
    value = "R.nn.conv2d_transpose(x, w, strides=2)"
    found = convolutions(value, (2, 8, 8, 8), (8, 16, 2, 2))
    assert sorted(conv["lhs_dilation"] for conv in found) == [(1, 1), (1, 1), (2, 2)]


def test_strides_of_one_place_take_the_same_slice_forward_and_backward() -> None:
    """Of the data as it is: what is common to both is computed once then."""
    value = "R.nn.conv2d(x, w, strides=2, data_layout='NHWC', kernel_layout='HWIO')"
    found = list(primitives(value, (2, 8, 6, 5), (1, 1, 5, 7)))
    forward, backward = (call for call in found if call.attrs.get("strides"))
    assert (forward.args, forward.attrs) == (backward.args, backward.attrs)
    assert forward.ty == TensorType((2, 4, 3, 5), "float32")


@pytest.mark.parametrize("layout", ["HWIO", "OHWI"])
@pytest.mark.parametrize("strides", [1, 2])
def test_the_gradient_of_a_kernel_of_one_element_is_a_product_as_it_lies(
    layout: str, strides: int
) -> None:
    """XLA copies a matrix that lies the other way round element by element, and for each use."""
    kernel = [{"O": 7, "I": 5}.get(letter, 1) for letter in layout]
    layouts = f"data_layout='NHWC', kernel_layout='{layout}'"
    value = f"R.nn.conv2d(x, w, strides={strides}, {layouts})"
    calls = list(primitives(value, (2, 8, 6, 5), kernel, by=["w"]))
    products = [call.ty for call in calls if call.op is get_op("lax.dot_general")]
    assert TensorType([length for length in kernel if length > 1], "float32") in products
    moved = [call.args[0] for call in calls if _moves(call)]
    # Forward, a kernel of the other layout is.
    assert [x.name for x in moved if isinstance(x, Var)] == ["w"] * (layout == "OHWI")


def _moves(call: Call) -> bool:
    """Whether a call puts axes of more than one element in another order."""
    if call.op is not get_op("lax.transpose") or not isinstance(call.ty, TensorType):
        return False
    order = call.attrs["permutation"]
    long = [axis for axis, length in zip(order, call.ty.dims or (), strict=True) if length != 1]
    return long != sorted(long)


def test_the_gradient_of_an_embedding_is_added_up_at_its_places() -> None:
    """A product with one-hot rows takes 13 to 55 times as long."""
    calls = primitives("R.take(w, x, axis=0)", (4,), (7, 3), dtype="int32")
    found = [str(call.op) for call in calls]
    assert [name for name in found if "scatter" in name or "dot" in name] == ["lax.scatter_add"]
