"""Which form of a convolution is chosen for which platform, seen in the legalised program."""

from collections import Counter
from typing import Any

import chex
import jax
import numpy as np
import pytest
from legal_forms import (
    CONVOLUTION,
    PRODUCT,
    both_agree,
    chosen,
    module_of,
    primitives,
    run_anywhere,
)
from quickly_compiled_programs import QUICK

from relaxjax.ir import Call, IRModule, SymbolicVar, TensorType
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.walk import post_order
from relaxjax.passes import EliminateCommonSubexpr, Gradient, LegalizeOps, SimplifyGradient

FORMS = [f"lax.{name}" for name in (CONVOLUTION, PRODUCT, "gather", "scatter_add")]

Case = tuple[str, list[Any], dict[str, Any]]


def conv1d(*shapes: Any, **attrs: Any) -> Case:
    return "relax.nn.conv1d", list(shapes), attrs


def conv2d(*shapes: Any, **attrs: Any) -> Case:
    return "relax.nn.conv2d", list(shapes), attrs


def put_back(*shapes: Any, **attrs: Any) -> Case:
    """A transposed convolution."""
    return f"relax.nn.conv{len(shapes[0]) - 2}d_transpose", list(shapes), attrs


# What a CPU computes by one product each.
PRODUCTS: dict[str, Case] = {
    "one element": conv2d((2, 3, 4, 4), (5, 3, 1, 1), strides=2),
    "a kernel larger than the data": conv2d((2, 8, 2, 2), (8, 8, 3, 3), padding=1),
    "few windows beside the outputs": conv2d((2, 8, 4, 4), (16, 8, 3, 3), padding=1, strides=2),
    "one result": conv2d((2, 3, 5, 5), (4, 3, 5, 5)),
    "wide products for few results": conv2d((128, 8, 4, 4), (128, 8, 4, 4), padding=1),
    "many channels of a small image": conv2d((3, 128, 8, 8), (128, 128, 3, 3), padding=1),
    "put back, many channels of a small image": put_back(
        (3, 128, 8, 8), (128, 128, 3, 3), padding=1
    ),
    "put back, few channels": put_back((2, 8, 6, 6), (8, 3, 3, 3), padding=1),
    "put back, a window mostly outside": put_back((2, 6, 10, 10), (6, 16, 5, 5)),
    "put back, a kernel larger than the data": put_back(
        (2, 8, 2, 2), (8, 8, 3, 3), padding=1, strides=2
    ),
}


def adjoints_agree(one: IRModule, other: IRModule, *shapes: Any) -> None:
    """Two forms of an adjoint compute the same, of arrays of these shapes."""
    args = [np.random.default_rng(0).normal(size=shape).astype("float32") for shape in shapes]
    out = jax.eval_shape(run_anywhere(other, "main"), *args)
    args.append(np.random.default_rng(1).normal(size=out.shape).astype("float32"))
    programs = (run_anywhere(mod, "main_adjoint") for mod in (one, other))
    results = (jax.jit(program, compiler_options=QUICK)(*args) for program in programs)
    chex.assert_trees_all_close(*results, rtol=1e-3, atol=1e-3)


def with_adjoints(name: str, shapes: list[Any], attrs: dict[str, Any]) -> IRModule:
    mod = Gradient("main", cotangent=True)(module_of(name, shapes, **attrs))
    return LegalizeOps("cpu")(SimplifyGradient()(mod))


@pytest.mark.parametrize(
    "case", ["one element", "a kernel larger than the data", "put back, few channels"]
)
def test_a_batch_of_unknown_size_counts_as_32(case: str) -> None:
    """So a program for every size of batch has the forms of a usual one, backward too."""
    name, (data, weight), attrs = PRODUCTS[case]
    unknown = with_adjoints(name, [(SymbolicVar("n"), *data[1:]), weight], attrs)
    usual = with_adjoints(name, [(32, *data[1:]), weight], attrs)
    found, expected = (
        Counter(op.name for op in post_order(mod["main_adjoint"]) if isinstance(op, Op))
        for mod in (unknown, usual)
    )
    assert {k: found[k] for k in FORMS} == {k: expected[k] for k in FORMS}
    adjoints_agree(unknown, with_adjoints(name, [data, weight], attrs), data, weight)


@pytest.mark.parametrize(("name", "shapes", "attrs"), PRODUCTS.values(), ids=PRODUCTS)
def test_convolutions_that_a_cpu_computes_by_products(
    name: str, shapes: list[Any], attrs: dict[str, Any]
) -> None:
    on_cpu, on_gpu = (chosen(target, name, *shapes, **attrs) for target in ("cpu", "cuda"))
    assert (on_cpu[CONVOLUTION], on_cpu[PRODUCT]) == (0, 1)
    assert (on_gpu[CONVOLUTION], on_gpu[PRODUCT]) == (1, 0)
    both_agree(name, *shapes, **attrs)


SMALL_IMAGE = [(15, 128, 6, 6), (1, 128, 6, 6)]


@pytest.mark.parametrize("layout", ["OIHW", "OHWI", "HWIO", "IHWO", "HIWO"])
@pytest.mark.parametrize("image", SMALL_IMAGE, ids=["more windows", "less windows"])
def test_a_small_image_is_multiplied_by_the_kernel_as_it_lies(
    layout: str, image: tuple[int, ...]
) -> None:
    """Forward and both adjoints; what is less, windows or kernel, is put in the other's order."""
    kernel = [{"O": 128, "I": 128}.get(letter, 3) for letter in layout]
    attrs = {"padding": 1, "strides": 2, "kernel_layout": layout}
    adjoint = Gradient("main", cotangent=True)(
        module_of("relax.nn.conv2d", [image, kernel], **attrs)
    )
    by_products, by_xla = (LegalizeOps(target)(adjoint) for target in ("cpu", "cuda"))
    found = primitives(IRModule({"main": by_products["main_adjoint"]}))
    assert (found[CONVOLUTION], found[PRODUCT]) == (0, 3)
    moved = [
        expr.args[0].ty
        for expr in post_order(by_products["main_adjoint"])
        if isinstance(expr, Call) and expr.op is get_op("lax.transpose")
    ]
    whole = [ty for ty in moved if isinstance(ty, TensorType) and ty.dims == tuple(kernel)]
    is_matrix = layout in ("OHWI", "HWIO") or (layout in ("OIHW", "IHWO") and image[0] == 1)
    assert bool(whole) != is_matrix
    adjoints_agree(by_products, by_xla, image, kernel)


@pytest.mark.parametrize("kernels", [1, 2])
def test_the_gradient_of_a_depthwise_kernel_adds_up_products_where_they_lie(kernels: int) -> None:
    """Channels last there are no batches of matrices, and the data is not rearranged."""
    image, kernel = (2, 5, 5, 4), (4 * kernels, 1, 3, 3)
    attrs = {"padding": 1, "groups": 4, "data_layout": "NHWC"}
    plain = module_of("relax.nn.conv2d", [image, kernel], **attrs)
    adjoint = SimplifyGradient()(Gradient("main", ["x1"], cotangent=True)(plain))
    by_sums, by_xla = (LegalizeOps(target)(adjoint) for target in ("cpu", "cuda"))
    found = primitives(IRModule({"main": by_sums["main_adjoint"]}))
    assert (found[CONVOLUTION], found[PRODUCT]) == (0, 0)
    assert (found["reduce"], found["reduce_sum"]) == (1, 9)
    adjoints_agree(by_sums, by_xla, image, kernel)


def is_call(value: Any, name: str) -> bool:
    return isinstance(value, Call) and value.op is get_op(f"lax.{name}")


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("strides", [1, 2])
def test_gradients_of_groups_are_such_as_a_library_has(layout: str, strides: int) -> None:
    """That of a kernel is by groups of the batch, that of the data by a kernel turned round last.

    XLA looks for these to call cuDNN, which else computes with kernels as large as images.
    """
    image = (2, 8, 6, 6) if layout == "NCHW" else (2, 6, 6, 8)
    attrs = {"padding": 1, "groups": 4, "data_layout": layout, "strides": strides}
    plain = module_of("relax.nn.conv2d", [image, (4, 2, 3, 3)], **attrs)
    adjoint = SimplifyGradient()(Gradient("main", cotangent=True)(plain))
    elsewhere, on_cpu = (LegalizeOps(target)(adjoint) for target in ("cuda", "cpu"))
    values = {one.var: one.value for one in elsewhere["main_adjoint"].body.bindings()}
    convolutions = [value for value in values.values() if is_call(value, CONVOLUTION)]
    assert [value.attrs["batch_group_count"] for value in convolutions] == [1, 1, 4]
    assert is_call(values[convolutions[1].args[1]], "rev")
    adjoints_agree(elsewhere, on_cpu, image, (4, 2, 3, 3))


def test_the_gradient_of_a_large_depthwise_kernel_is_a_loop_over_its_rows() -> None:
    image, kernel = (2, 11, 9, 4), (4, 1, 5, 4)
    attrs = {"padding": 2, "groups": 4, "strides": [1, 2], "dilation": [2, 1]}
    attrs |= {"data_layout": "NHWC"}
    plain = module_of("relax.nn.conv2d", [image, kernel], **attrs)
    adjoint = SimplifyGradient()(Gradient("main", ["x1"], cotangent=True)(plain))
    by_loop, by_xla = (LegalizeOps(target)(adjoint) for target in ("cpu", "cuda"))
    script = by_loop["main_adjoint"].script()
    assert (script.count("L.scan("), script.count("L.reduce(")) == (1, 1)
    adjoints_agree(by_loop, by_xla, image, kernel)


# Kernels of one input channel: a CPU adds up shifted tensors.
SHIFTS: dict[str, Case] = {
    "depthwise": conv2d((2, 4, 5, 5), (4, 1, 3, 3), groups=4, padding=1),
    "several kernels a channel": conv2d((2, 3, 5, 5), (6, 1, 3, 3), groups=3),
    "one channel": conv2d((2, 1, 8, 8), (6, 1, 5, 5), padding=2),
    "many places, stored": conv2d((2, 4, 8, 8), (4, 1, 5, 5), groups=4),
    "many places, put back": put_back((2, 4, 5, 5), (4, 1, 5, 5), groups=4),
    "put back": put_back((2, 4, 5, 5), (4, 1, 3, 3), groups=4, strides=2),
    "put back, three phases": put_back(
        (2, 4, 5, 5), (4, 1, 3, 3), groups=4, strides=3, padding=1, output_padding=2
    ),
    "put back, strides and dilation": put_back(
        (2, 4, 5, 5), (4, 1, 3, 4), groups=4, strides=[2, 1], dilation=[3, 2], padding=[4, 0, 1, 3]
    ),
    "put back, where nothing is reached": put_back(
        (2, 4, 2, 2), (4, 1, 1, 1), groups=4, strides=3, padding=[1, 1, 2, 2]
    ),
    "put back, several kernels a channel": put_back(
        (2, 6, 5, 5), (6, 1, 3, 3), groups=3, strides=2
    ),
}


@pytest.mark.parametrize(("name", "shapes", "attrs"), SHIFTS.values(), ids=SHIFTS)
def test_convolutions_that_a_cpu_computes_by_shifts(
    name: str, shapes: list[Any], attrs: dict[str, Any]
) -> None:
    on_cpu, on_gpu = (chosen(target, name, *shapes, **attrs) for target in ("cpu", "cuda"))
    assert on_cpu[CONVOLUTION] == on_cpu[PRODUCT] == 0
    assert on_cpu["optimization_barrier"] == (0 if "transpose" in name else 1)
    assert (on_gpu[CONVOLUTION], on_gpu[PRODUCT]) == (1, 0)
    both_agree(name, *shapes, **attrs)


@pytest.mark.parametrize("name", ["one channel", "several kernels a channel"])
def test_a_channel_is_repeated_for_its_kernels_without_a_lookup(name: str) -> None:
    """One channel broadcasts, and takes no memory for each kernel; several are broadcast first."""
    kind, shapes, attrs = SHIFTS[name]
    legal = LegalizeOps("cpu")(module_of(kind, shapes, **attrs))
    calls = [expr for expr in post_order(legal["main"]) if isinstance(expr, Call)]
    assert not [call for call in calls if call.op is get_op("lax.gather")]
    (kept,) = (call for call in calls if call.op is get_op("lax.optimization_barrier"))
    repeats = {"one channel": (2, 1, 12, 12), "several kernels a channel": (2, 6, 5, 5)}
    assert kept.args[0].ty == TensorType(repeats[name], "float32")


def test_a_strided_depthwise_convolution_is_padded_as_its_kernel_s_gradient_is() -> None:
    """So both read the same array, which is written once."""
    shapes = [(2, 8, 8, 4), (4, 1, 3, 3)]
    attrs = {"groups": 4, "strides": 2, "padding": 1, "data_layout": "NHWC"}
    adjoint = Gradient("main", ["x1"], cotangent=True)(
        module_of("relax.nn.conv2d", shapes, **attrs)
    )
    legal = EliminateCommonSubexpr()(LegalizeOps("cpu")(SimplifyGradient()(adjoint)))
    calls = [expr for expr in post_order(legal["main_adjoint"]) if isinstance(expr, Call)]
    pads = [call.ty for call in calls if call.op is get_op("lax.pad")]
    assert pads == [TensorType((2, 9, 9, 4), "float32")] * 2


def test_what_is_put_back_is_padded_once_and_each_phase_is_moved_once() -> None:
    """Padded for each place of the kernel, what the data is made of is computed nine times."""
    shapes = [(2, 4, 5, 5), (4, 1, 3, 3)]
    found = chosen("cpu", "relax.nn.conv2d_transpose", *shapes, groups=4, strides=2)
    assert (found["pad"], found["slice"]) == (1 + 4, 2 * 9)  # of the data, and of the kernel
    assert (found["mul"], found["add"]) == (9, 5 + 3)


# What stays a convolution on a CPU too, where the other forms were measured slower.
LEFT: dict[str, Case] = {
    "usual": conv2d((2, 8, 8, 8), (8, 8, 3, 3), padding=1),
    "many rows": conv2d((16, 8, 4, 4), (8, 8, 3, 3), padding=1, strides=2),
    "in one dimension": conv1d((2, 3, 64), (4, 3, 5), padding=2),
    "strides and dilation in one dimension": conv1d((2, 3, 64), (4, 3, 5), strides=2, dilation=3),
    "put back, strides in one dimension": put_back((2, 3, 16), (3, 8, 4), strides=2),
    "many outputs of one channel": conv2d((2, 1, 8, 8), (64, 1, 3, 3)),
    "a large kernel": conv2d((2, 1, 16, 16), (6, 1, 7, 7)),
    "groups": conv2d((2, 8, 5, 5), (8, 4, 3, 3), groups=2),
    "put back": put_back((2, 8, 8, 8), (8, 8, 3, 3), padding=1, strides=2),
    "put back, strides and few channels": put_back(
        (2, 8, 6, 6), (8, 3, 3, 3), strides=2, padding=1, output_padding=1
    ),
}


@pytest.mark.parametrize(("name", "shapes", "attrs"), LEFT.values(), ids=LEFT)
def test_convolutions_that_are_left_to_xla(
    name: str, shapes: list[Any], attrs: dict[str, Any]
) -> None:
    for target in ("cpu", "cuda"):
        found = chosen(target, name, *shapes, **attrs)
        assert (found[CONVOLUTION], found[PRODUCT]) == (1, 0)
    both_agree(name, *shapes, **attrs)
