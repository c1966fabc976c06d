"""Which form of an operator is chosen for which platform, seen in the legalised program."""

from collections import Counter
from typing import Any

import chex
import jax
import numpy as np
import pytest
from parsing import parse_main
from quickly_compiled_programs import QUICK

from relaxjax.ir import Call, IRModule, SymbolicVar, TensorType, Var
from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.walk import post_order
from relaxjax.lowering import to_jax
from relaxjax.ops.platform import PLATFORM, by_platform, lowering_for, platform
from relaxjax.passes import EliminateCommonSubexpr, Gradient, LegalizeOps, SimplifyGradient

CONVOLUTION, PRODUCT = "conv_general_dilated", "dot_general"
FORMS = [f"lax.{name}" for name in (CONVOLUTION, PRODUCT, "gather", "scatter_add")]


def module_of(name: str, shapes: list[Any], **attrs: Any) -> IRModule:
    """A module that calls one operator on float32 tensors."""
    params = [Var(f"x{i}", TensorType(shape, "float32")) for i, shape in enumerate(shapes)]
    builder = BlockBuilder()
    with builder.scope([param.name for param in params]):
        body = builder.sequence(builder.emit(get_op(name)(*params, **attrs)))
    return IRModule({"main": make_function(params, body)})


def primitives(mod: IRModule) -> Counter[str]:
    """How often a module calls each primitive."""
    calls = [expr for expr in post_order(mod["main"]) if isinstance(expr, Call)]
    return Counter(call.op.name.partition(".")[2] for call in calls if isinstance(call.op, Op))


def chosen(target: str, name: str, *shapes: Any, **attrs: Any) -> Counter[str]:
    return primitives(LegalizeOps(target)(module_of(name, list(shapes), **attrs)))


def run_anywhere(mod: IRModule, name: str) -> Any:
    """A function of a module, where it is made for or not."""
    return to_jax(mod.without_attr(PLATFORM), name)


def both_agree(name: str, *shapes: Any, **attrs: Any) -> None:
    """The forms for a CPU and for a GPU compute the same."""
    mod = module_of(name, list(shapes), **attrs)
    random = np.random.default_rng(0)
    args = [random.normal(size=shape).astype("float32") for shape in shapes]
    found = [
        jax.jit(run_anywhere(LegalizeOps(target)(mod), "main"))(*args) for target in ("cpu", "cuda")
    ]
    chex.assert_trees_all_close(*found, rtol=1e-4, atol=1e-4)


# What a CPU computes by products: the operator, shapes, attributes, and how many products.
PRODUCTS: dict[str, tuple[str, list[Any], dict[str, Any], int]] = {
    "one element": ("relax.nn.conv2d", [(2, 3, 4, 4), (5, 3, 1, 1)], {"strides": 2}, 1),
    "a kernel larger than the data": (
        "relax.nn.conv2d",
        [(2, 8, 2, 2), (8, 8, 3, 3)],
        {"padding": 1},
        1,
    ),
    "few windows beside the outputs": (
        "relax.nn.conv2d",
        [(2, 8, 4, 4), (16, 8, 3, 3)],
        {"padding": 1, "strides": 2},
        1,
    ),
    "one result": ("relax.nn.conv2d", [(2, 3, 5, 5), (4, 3, 5, 5)], {}, 1),
    "wide products for few results": (
        "relax.nn.conv2d",
        [(128, 8, 4, 4), (128, 8, 4, 4)],
        {"padding": 1},
        1,
    ),
    "many channels of a small image": (
        "relax.nn.conv2d",
        [(3, 128, 8, 8), (128, 128, 3, 3)],
        {"padding": 1},
        1,
    ),
    "put back, many channels of a small image": (
        "relax.nn.conv2d_transpose",
        [(3, 128, 8, 8), (128, 128, 3, 3)],
        {"padding": 1},
        1,
    ),
    "put back, few channels": (
        "relax.nn.conv2d_transpose",
        [(2, 8, 6, 6), (8, 3, 3, 3)],
        {"padding": 1},
        1,
    ),
    "put back, a window mostly outside": (
        "relax.nn.conv2d_transpose",
        [(2, 6, 10, 10), (6, 16, 5, 5)],
        {},
        1,
    ),
    "put back, a kernel larger than the data": (
        "relax.nn.conv2d_transpose",
        [(2, 8, 2, 2), (8, 8, 3, 3)],
        {"padding": 1, "strides": 2},
        1,
    ),
}


def with_adjoints(name: str, shapes: list[Any], attrs: dict[str, Any]) -> IRModule:
    mod = Gradient("main", cotangent=True)(module_of(name, shapes, **attrs))
    return LegalizeOps("cpu")(SimplifyGradient()(mod))


@pytest.mark.parametrize(
    "case", ["one element", "a kernel larger than the data", "put back, few channels"]
)
def test_a_batch_of_unknown_size_counts_as_32(case: str) -> None:
    """So a program for every size of batch has the forms of a usual one, backward too."""
    name, (data, weight), attrs, _ = PRODUCTS[case]
    unknown = with_adjoints(name, [(SymbolicVar("n"), *data[1:]), weight], attrs)
    usual = with_adjoints(name, [(32, *data[1:]), weight], attrs)
    found, expected = (
        Counter(op.name for op in post_order(mod["main_adjoint"]) if isinstance(op, Op))
        for mod in (unknown, usual)
    )
    assert {k: found[k] for k in FORMS} == {k: expected[k] for k in FORMS}
    args = [np.random.default_rng(0).normal(size=s).astype("float32") for s in (data, weight)]
    known = with_adjoints(name, [data, weight], attrs)
    out = jax.eval_shape(to_jax(known, "main"), *args)
    args.append(np.random.default_rng(1).normal(size=out.shape).astype("float32"))
    programs = (run_anywhere(mod, "main_adjoint") for mod in (unknown, known))
    results = (jax.jit(program, compiler_options=QUICK)(*args) for program in programs)
    chex.assert_trees_all_close(*results, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("name", "shapes", "attrs", "count"), PRODUCTS.values(), ids=PRODUCTS)
def test_convolutions_that_a_cpu_computes_by_products(
    name: str, shapes: list[Any], attrs: dict[str, Any], count: int
) -> None:
    on_cpu, on_gpu = (chosen(target, name, *shapes, **attrs) for target in ("cpu", "cuda"))
    assert (on_cpu[CONVOLUTION], on_cpu[PRODUCT]) == (0, count)
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
    args = [np.random.default_rng(0).normal(size=s).astype("float32") for s in (image, kernel)]
    args.append(np.random.default_rng(1).normal(size=(image[0], 128, 3, 3)).astype("float32"))
    programs = (run_anywhere(mod, "main_adjoint") for mod in (by_products, by_xla))
    results = (jax.jit(program, compiler_options=QUICK)(*args) for program in programs)
    chex.assert_trees_all_close(*results, rtol=1e-3, atol=1e-3)


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
    args = [np.random.default_rng(0).normal(size=s).astype("float32") for s in (image, kernel)]
    args.append(np.random.default_rng(1).normal(size=(*image[:3], kernel[0])).astype("float32"))
    programs = (run_anywhere(mod, "main_adjoint") for mod in (by_sums, by_xla))
    results = (jax.jit(program, compiler_options=QUICK)(*args) for program in programs)
    chex.assert_trees_all_close(*results, rtol=1e-3, atol=1e-3)


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
    args = [
        np.random.default_rng(0).normal(size=s).astype("float32") for s in (image, (4, 2, 3, 3))
    ]
    y = jax.eval_shape(run_anywhere(plain, "main"), *args)
    args.append(np.random.default_rng(1).normal(size=y.shape).astype("float32"))
    programs = (run_anywhere(mod, "main_adjoint") for mod in (elsewhere, on_cpu))
    results = (jax.jit(program, compiler_options=QUICK)(*args) for program in programs)
    chex.assert_trees_all_close(*results, rtol=1e-3, atol=1e-3)


def test_the_gradient_of_a_large_depthwise_kernel_is_a_loop_over_its_rows() -> None:
    image, kernel = (2, 11, 9, 4), (4, 1, 5, 4)
    attrs = {"padding": 2, "groups": 4, "strides": [1, 2], "dilation": [2, 1]}
    attrs |= {"data_layout": "NHWC"}
    plain = module_of("relax.nn.conv2d", [image, kernel], **attrs)
    adjoint = SimplifyGradient()(Gradient("main", ["x1"], cotangent=True)(plain))
    by_loop, by_xla = (LegalizeOps(target)(adjoint) for target in ("cpu", "cuda"))
    script = by_loop["main_adjoint"].script()
    assert (script.count("L.scan("), script.count("L.reduce(")) == (1, 1)
    random = np.random.default_rng(0)
    args = [random.normal(size=shape).astype("float32") for shape in (image, kernel)]
    args.append(random.normal(size=(2, 7, 5, 4)).astype("float32"))
    programs = (run_anywhere(mod, "main_adjoint") for mod in (by_loop, by_xla))
    results = (jax.jit(program, compiler_options=QUICK)(*args) for program in programs)
    chex.assert_trees_all_close(*results, rtol=1e-3, atol=1e-3)


# Kernels of one input channel: a CPU adds up shifted tensors.
SHIFTS: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "depthwise": ("relax.nn.conv2d", [(2, 4, 5, 5), (4, 1, 3, 3)], {"groups": 4, "padding": 1}),
    "several kernels a channel": ("relax.nn.conv2d", [(2, 3, 5, 5), (6, 1, 3, 3)], {"groups": 3}),
    "one channel": ("relax.nn.conv2d", [(2, 1, 8, 8), (6, 1, 5, 5)], {"padding": 2}),
    "many places, stored": ("relax.nn.conv2d", [(2, 4, 8, 8), (4, 1, 5, 5)], {"groups": 4}),
    "many places, put back": (
        "relax.nn.conv2d_transpose",
        [(2, 4, 5, 5), (4, 1, 5, 5)],
        {"groups": 4},
    ),
    "put back": (
        "relax.nn.conv2d_transpose",
        [(2, 4, 5, 5), (4, 1, 3, 3)],
        {"groups": 4, "strides": 2},
    ),
    "put back, three phases": (
        "relax.nn.conv2d_transpose",
        [(2, 4, 5, 5), (4, 1, 3, 3)],
        {"groups": 4, "strides": 3, "padding": 1, "output_padding": 2},
    ),
    "put back, strides and dilation": (
        "relax.nn.conv2d_transpose",
        [(2, 4, 5, 5), (4, 1, 3, 4)],
        {"groups": 4, "strides": [2, 1], "dilation": [3, 2], "padding": [4, 0, 1, 3]},
    ),
    "put back, where nothing is reached": (
        "relax.nn.conv2d_transpose",
        [(2, 4, 2, 2), (4, 1, 1, 1)],
        {"groups": 4, "strides": 3, "padding": [1, 1, 2, 2]},
    ),
    "put back, several kernels a channel": (
        "relax.nn.conv2d_transpose",
        [(2, 6, 5, 5), (6, 1, 3, 3)],
        {"groups": 3, "strides": 2},
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
LEFT: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "usual": ("relax.nn.conv2d", [(2, 8, 8, 8), (8, 8, 3, 3)], {"padding": 1}),
    "many rows": ("relax.nn.conv2d", [(16, 8, 4, 4), (8, 8, 3, 3)], {"padding": 1, "strides": 2}),
    "in one dimension": ("relax.nn.conv1d", [(2, 3, 64), (4, 3, 5)], {"padding": 2}),
    "strides and dilation in one dimension": (
        "relax.nn.conv1d",
        [(2, 3, 64), (4, 3, 5)],
        {"strides": 2, "dilation": 3},
    ),
    "put back, strides in one dimension": (
        "relax.nn.conv1d_transpose",
        [(2, 3, 16), (3, 8, 4)],
        {"strides": 2},
    ),
    "many outputs of one channel": ("relax.nn.conv2d", [(2, 1, 8, 8), (64, 1, 3, 3)], {}),
    "a large kernel": ("relax.nn.conv2d", [(2, 1, 16, 16), (6, 1, 7, 7)], {}),
    "groups": ("relax.nn.conv2d", [(2, 8, 5, 5), (8, 4, 3, 3)], {"groups": 2}),
    "put back": (
        "relax.nn.conv2d_transpose",
        [(2, 8, 8, 8), (8, 8, 3, 3)],
        {"padding": 1, "strides": 2},
    ),
    "put back, strides and few channels": (
        "relax.nn.conv2d_transpose",
        [(2, 8, 6, 6), (8, 3, 3, 3)],
        {"strides": 2, "padding": 1, "output_padding": 1},
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


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pooling_takes_slices_on_a_cpu_and_windows_elsewhere(kind: str) -> None:
    window = {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1)}
    forward, backward = f"relax.nn.{kind}_pool2d", f"relax.grad.{kind}_pool2d_backward"
    for name, shapes in ((forward, [(2, 3, 8, 8)]), (backward, [(2, 3, 4, 4), (2, 3, 8, 8)])):
        on_cpu, on_gpu = (chosen(target, name, *shapes, **window) for target in ("cpu", "cuda"))
        reduced = [key for key in on_gpu if key.startswith(("reduce_window", "select_and"))]
        assert reduced
        assert not any(on_cpu[key] for key in reduced)
        both_agree(name, *shapes, **window)


def test_attention_takes_chunks_of_queries_on_a_cpu() -> None:
    shapes = [(1, 300, 2, 4)] * 3
    counts = [
        chosen(target, "relax.nn.attention", *shapes, causal_mask="TopLeft")[PRODUCT]
        for target in ("cpu", "cuda")
    ]
    assert counts == [6, 2]
    both_agree("relax.nn.attention", *shapes, causal_mask="TopLeft")


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_adjoints_of_pooling_where_windows_have_gaps_or_none_at_the_end(kind: str) -> None:
    """JAX has no derivative of XLA's windows with gaps; a late window in ceil_mode is left out."""
    name = f"relax.grad.{kind}_pool2d_backward"
    both_agree(name, (1, 2, 3, 2), (1, 2, 5, 4), pool_size=2, dilation=2)
    late = {"pool_size": 1, "padding": (1, 2, 2, 2), "ceil_mode": True}
    both_agree(name, (1, 1, 6, 6), (1, 1, 4, 3), **late)


@pytest.mark.parametrize("size", [2, 9])
def test_second_derivatives_of_pooling_gather_by_places(size: int) -> None:
    """XLA's windows choose by pairs of numbers, packed into one: float64 would be rounded."""
    attrs = {"pool_size": (size, size), "strides": (1, 1), "padding": (1, 1)}
    rows = 12 + 2 - size
    mod = module_of(
        "relax.grad.max_pool2d_backward", [(2, 3, rows + 1, rows + 1), (2, 3, 12, 12)], **attrs
    )
    args = [np.random.default_rng(0).normal(size=(2, 3, n, n)) for n in (rows + 1, 12, 12)]
    found = []
    for target in ("cuda", "cpu"):
        with lowering_for(target):
            form = LegalizeOps(target)(Gradient("main", cotangent=True)(mod))
        counts = primitives(IRModule({"main": form["main_adjoint"]}))
        assert "select_and_gather_add" not in counts
        found.append(jax.jit(run_anywhere(form, "main_adjoint"))(*map(np.float32, args)))
    chex.assert_trees_all_close(*found, rtol=1e-6)


def test_large_windows_with_gaps_are_no_slice_for_each_of_their_places() -> None:
    window = {"pool_size": (20, 20), "dilation": 2}
    name, shapes = "relax.grad.max_pool2d_backward", [(1, 1, 2, 2), (1, 1, 40, 40)]
    assert sum(chosen("cpu", name, *shapes, **window).values()) < 600


def test_without_a_target_the_form_is_that_of_where_jax_runs() -> None:
    mod = module_of("relax.nn.conv3d", [(1, 2, 5, 5, 5), (3, 2, 3, 3, 3)])
    assert primitives(LegalizeOps()(mod)) == primitives(LegalizeOps(jax.default_backend())(mod))


def test_by_platform() -> None:
    lower = by_platform(lambda x: ("any", x), cpu=lambda x: ("cpu", x))
    with lowering_for("cuda"):
        assert (platform(), lower(1)) == ("cuda", ("any", 1))
        with lowering_for("cpu"):
            assert lower(2) == ("cpu", 2)
        assert lower(3) == ("any", 3)
    with jax.default_device(jax.devices("cpu")[0]):
        assert platform() == "cpu"


def test_what_waits_does_so_by_a_barrier_where_that_holds() -> None:
    shapes = [(2, 3), (4,)]
    assert chosen("cuda", "relax.grad.delay", *shapes)["optimization_barrier"] == 1
    assert chosen("cpu", "relax.grad.delay", *shapes)["optimization_barrier"] == 0
    both_agree("relax.grad.delay", *shapes)


def test_places_of_rows_are_looked_up_on_a_cpu_and_sorted_with_their_numbers_elsewhere() -> None:
    """A search is a loop, whose small steps take long on a GPU."""
    places = np.array([[4, 1, 9], [-1, 4, 0]], "int32")
    values = np.random.default_rng(0).normal(size=(2, 3, 2)).astype("float32")
    mod = parse_main(
        "return R.grad.summed_rows(x, i, (6, 2))",
        'x: R.Tensor((2, 3, 2), "float32"), i: R.Tensor((2, 3), "int32")',
    )
    on_cpu, on_gpu = (LegalizeOps(target)(mod) for target in ("cpu", "cuda"))
    assert [primitives(form)["scan"] for form in (on_cpu, on_gpu)] == [1, 0]
    assert [primitives(form)["sort"] for form in (on_cpu, on_gpu)] == [1, 1]
    found = [jax.jit(run_anywhere(form, "main"))(values, places) for form in (on_cpu, on_gpu)]
    chex.assert_trees_all_equal(*found)
    chex.assert_trees_all_equal(found[0][1], np.array([0, 1, 4, 6, 6, 6], "int32"))


def test_an_adjoint_sorts_no_second_time() -> None:
    """The values and the places that they come from are of one sort, or of one `top_k`."""
    for name, attrs in (
        ("relax.sort", {"descending": True}),
        ("relax.topk", {"ret_type": "values"}),
    ):
        adjoint = Gradient("main", cotangent=True)(module_of(name, [(3, 8)], **attrs))
        legal = EliminateCommonSubexpr()(LegalizeOps()(adjoint))
        found = primitives(IRModule({"main": legal["main_adjoint"]}))
        assert found["sort"] + found["top_k"] == 1


def test_the_gradient_of_a_matrix_adds_up_no_batches() -> None:
    plain = Gradient("main", cotangent=True)(module_of("relax.matmul", [(4, 5, 6), (6, 7)]))
    adjoint = SimplifyGradient()(plain)
    assert "collapse_sum_to" not in adjoint["main_adjoint"].script()
    legal = LegalizeOps()(adjoint)
    found = primitives(IRModule({"main": legal["main_adjoint"]}))
    assert (found["dot_general"], found["reduce_sum"]) == (3, 0)


def test_resizing_reads_two_places_and_multiplies_where_there_are_four() -> None:
    for method, count in (("linear", 0), ("cubic", 2)):
        module = module_of("relax.image.resize2d", [(1, 2, 4, 4)], size=(8, 8), method=method)
        assert primitives(LegalizeOps()(module))[PRODUCT] == count
