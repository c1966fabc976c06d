"""Convolutions of volumes are convolutions of their planes on a CPU, backward too."""

import math
from typing import Any

import chex
import jax
import numpy as np
import pytest
from legal_forms import module_of
from quickly_compiled_programs import QUICK

from relaxjax.ir import Call, IRModule, SymbolicVar, TensorType
from relaxjax.ir.op import Op
from relaxjax.ir.walk import post_order
from relaxjax.lowering import to_jax
from relaxjax.ops.nn.windows import Windows
from relaxjax.passes import Gradient, LegalizeOps

CONV, TRANSPOSED = "relax.nn.conv3d", "relax.nn.conv3d_transpose"
# The operator, shapes of data and kernel, and attributes.
CASES: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "usual": (CONV, [(2, 5, 4, 5, 6), (6, 5, 3, 3, 3)], {"padding": 1}),
    "strides and dilation": (
        CONV,
        [(2, 5, 9, 8, 7), (6, 5, 3, 2, 3)],
        {"strides": [2, 1, 3], "dilation": [3, 2, 1], "padding": [1, 0, 2, 2, 1, 0]},
    ),
    "channels last": (
        CONV,
        [(2, 6, 5, 6, 5), (2, 3, 3, 5, 6)],
        {"data_layout": "NDHWC", "kernel_layout": "DHWIO", "padding": 1, "strides": 2},
    ),
    "another layout out": (
        CONV,
        [(2, 5, 4, 5, 6), (6, 5, 3, 3, 3)],
        {"padding": 1, "out_layout": "NDHWC"},
    ),
    "fewer results than planes": (CONV, [(2, 5, 6, 6, 6), (6, 5, 5, 3, 3)], {}),
    "one plane": (CONV, [(2, 5, 4, 6, 6), (6, 5, 1, 3, 3)], {}),
    "a line of planes": (CONV, [(2, 5, 6, 4, 4), (6, 5, 3, 1, 1)], {"padding": [1, 0, 0]}),
    "groups": (
        CONV,
        [(2, 6, 5, 5, 6), (9, 2, 3, 3, 3)],
        {"padding": 1, "strides": [2, 1, 1], "groups": 3},
    ),
    "groups, channels last": (
        CONV,
        [(2, 4, 5, 6, 6), (2, 3, 3, 2, 9)],
        {"data_layout": "NDHWC", "kernel_layout": "DHWIO", "groups": 3},
    ),
    "put back, groups": (
        TRANSPOSED,
        [(2, 6, 3, 4, 4), (6, 3, 3, 3, 3)],
        {"padding": 1, "strides": 2, "groups": 2},
    ),
    "put back": (TRANSPOSED, [(2, 6, 4, 5, 5), (6, 5, 3, 3, 3)], {"padding": 1}),
    "put back, strides and dilation": (
        TRANSPOSED,
        [(2, 6, 3, 4, 3), (6, 5, 3, 2, 3)],
        {"strides": [2, 1, 3], "dilation": [3, 2, 1], "padding": 1, "output_padding": [1, 0, 2]},
    ),
    "put back, channels last": (
        TRANSPOSED,
        [(2, 3, 4, 3, 6), (3, 3, 3, 5, 6)],
        {"data_layout": "NDHWC", "kernel_layout": "DHWOI", "strides": 2},
    ),
}


def adjoint_of(name: str, shapes: list[Any], attrs: dict[str, Any]) -> IRModule:
    return Gradient("main", cotangent=True)(module_of(name, shapes, **attrs))


def ranks(mod: IRModule) -> list[int]:
    """Of what the convolutions of the adjoint give."""
    calls = [expr for expr in post_order(mod["main_adjoint"]) if isinstance(expr, Call)]
    named = [call for call in calls if isinstance(call.op, Op) and "conv_general" in call.op.name]
    return [call.ty.ndim for call in named if isinstance(call.ty, TensorType)]


def assert_equal(first: IRModule, second: IRModule, shapes: list[Any]) -> None:
    """Two adjoints compute the same; the second is for known sizes."""
    out = second["main_adjoint"].params[-1].ty
    assert isinstance(out, TensorType)
    random = np.random.default_rng(0)
    args = [random.normal(size=shape).astype("float32") for shape in (*shapes, out.dims)]
    programs = (to_jax(mod.without_attr("platform"), "main_adjoint") for mod in (first, second))
    results = (jax.jit(program, compiler_options=QUICK)(*args) for program in programs)
    chex.assert_trees_all_close(*results, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "shapes", "attrs"), CASES.values(), ids=CASES)
def test_a_convolution_and_its_adjoints(
    name: str, shapes: list[Any], attrs: dict[str, Any]
) -> None:
    adjoint = adjoint_of(name, shapes, attrs)
    by_planes, by_xla = (LegalizeOps(target)(adjoint) for target in ("cpu", "cuda"))
    assert set(ranks(by_planes)) <= {4}
    assert ranks(by_xla) == [5, 5, 5]
    assert_equal(by_planes, by_xla, shapes)


def test_planes_are_copied_for_the_depth_of_a_window_and_not_for_each_of_its_places() -> None:
    """A product with all that each window covers took 27 times the memory of the data."""
    name, (data, weight), attrs = CASES["usual"]
    adjoint = LegalizeOps("cpu")(adjoint_of(name, [data, weight], attrs))
    calls = [expr for expr in post_order(adjoint["main_adjoint"]) if isinstance(expr, Call)]
    dims = [call.ty.dims or () for call in calls if isinstance(call.ty, TensorType)]
    sizes = [math.prod(n for n in one if isinstance(n, int)) for one in dims]
    assert max(sizes) == 3 * math.prod(data)


@pytest.mark.parametrize("case", ["usual", "put back"])
def test_a_batch_of_unknown_size(case: str) -> None:
    name, (data, weight), attrs = CASES[case]
    unknown = LegalizeOps("cpu")(adjoint_of(name, [(SymbolicVar("n"), *data[1:]), weight], attrs))
    assert ranks(unknown) == [4, 4, 4]
    assert_equal(
        unknown, LegalizeOps("cuda")(adjoint_of(name, [data, weight], attrs)), [data, weight]
    )


@pytest.mark.parametrize("name", [CONV, TRANSPOSED])
def test_a_deep_kernel_is_left_to_xla(name: str) -> None:
    """Its planes side by side would take as many times the memory of the data."""
    adjoint = adjoint_of(name, [(1, 3, 40, 2, 2), (3, 3, 17, 1, 1)], {})
    assert ranks(LegalizeOps("cpu")(adjoint)) == [5, 5, 5]


def test_lengths_of_unknown_size_are_left_to_xla() -> None:
    depth = SymbolicVar("d")
    adjoint = adjoint_of(CONV, [(2, 5, depth, 5, 6), (6, 5, 3, 3, 3)], {"padding": 1})
    assert set(ranks(LegalizeOps("cpu")(adjoint))) == {5}


# The length, and of the windows: size, stride, padding, dilation.
WINDOWS = {
    "usual": (6, 3, 1, (1, 1), 1),
    "strides": (7, 3, 2, (0, 1), 1),
    "dilation": (8, 3, 3, (4, 2), 2),
    "some in padding alone": (2, 2, 2, (5, 4), 1),
    "one place in padding alone": (3, 4, 1, (4, 0), 1),
    "no padding": (5, 2, 2, (0, 0), 2),
}


@pytest.mark.parametrize(
    ("length", "size", "stride", "pads", "dilation"), WINDOWS.values(), ids=WINDOWS
)
def test_places_are_padded_by_themselves(
    length: int, size: int, stride: int, pads: tuple[int, int], dilation: int
) -> None:
    count = (length + sum(pads) - dilation * (size - 1) - 1) // stride + 1
    windows = Windows((1,), (size,), (stride,), (pads,), (dilation,), (count,))
    x = np.arange(1.0, 2 * length * 3 + 1, dtype="float32").reshape(2, length, 3)
    padded = windows.padded(x, 0)
    for place in windows.places():
        chex.assert_trees_all_equal(windows.at_unpadded(x, place), windows.at(padded, place))
