"""What types leave open of an operator's arguments is checked where it is computed."""

from typing import Any

import chex
import jax
import numpy as np
import pytest
from parsing import parse_flow, parse_functions

from relaxjax import IRModule, VirtualMachine, build, to_jax
from relaxjax.ops import OpError
from relaxjax.passes import BindSymbolicVars, Gradient, LegalizeOps

X = np.ones((4, 3), "float32")
ONE, LABELS = np.zeros(1, "int32"), np.ones((1, 3), "float32")
IMAGES, GRID = np.ones((2, 3, 4, 5), "float32"), np.zeros((2, 4, 2, 3), "float32")


def program(value: str, x: str, y: str) -> IRModule:
    return parse_flow(f"loss = {value}", x=x, y=y)


TARGETS = r"`targets` must have shape \(4\) beside `predictions` of shape \(4, 3\), .* found \(1\)"
LOSSES = {
    "R.nn.nll_loss(x, y)": (ONE, TARGETS),
    "R.nn.softmax_nll_loss(x, y)": (ONE, TARGETS),
    "R.nn.cross_entropy_with_logits(x, y)": (LABELS, r"found \(4, 3\) and \(1, 3\)"),
}


@pytest.mark.parametrize("sizes", ['("m",)', "ndim=1"])
@pytest.mark.parametrize("function", ["main", "main_adjoint"])
@pytest.mark.parametrize("loss", LOSSES)
def test_one_target_is_not_repeated_for_every_sample(loss: str, function: str, sizes: str) -> None:
    """JAX would, and its weight would count once."""
    targets, message = LOSSES[loss]
    if targets is LABELS:
        sizes = sizes.replace('("m",)', '("m", 3)').replace("1", "2")
    y = f'R.Tensor({sizes}, dtype="{targets.dtype}")'
    mod = program(loss, 'R.Tensor(("n", 3), "float32")', y)
    adjoint = Gradient("main", ["x"])(mod)
    for given in (adjoint, LegalizeOps()(adjoint)):
        with pytest.raises(OpError, match=message):
            to_jax(given, function)(X, targets)
    with pytest.raises(OpError, match=message):
        VirtualMachine(build(adjoint))[function](X, targets)


def test_what_is_too_long_is_not_passed_over() -> None:
    mod = program(
        'R.sum(R.image.grid_sample(x, y, layout="NCHW"))',
        'R.Tensor((2, 3, 4, 5), "float32")',
        'R.Tensor((2, "m", 2, 3), "float32")',
    )
    assert to_jax(mod, "main")(IMAGES, GRID[:, :2]).shape == ()
    with pytest.raises(OpError, match=r"`grid` must have shape .*, found 4 for its second dim"):
        to_jax(mod, "main")(IMAGES, GRID)


def test_what_fits_is_computed_whatever_its_type_leaves_open() -> None:
    value = 'R.sum(R.nn.nll_loss(x, y, reduction="none"))'
    mod = program(value, 'R.Tensor(ndim=2, dtype="float32")', 'R.Tensor(dtype="int32")')
    found: Any = to_jax(mod, "main")(X, np.zeros(4, "int32"))
    assert float(found) == -4.0


@pytest.mark.parametrize(("length", "largest"), [(2, [0]), (3, [0]), (4, [0, 3]), (5, [0, 4])])
def test_strides_beyond_the_window_leave_elements_out_at_any_length(
    length: int, largest: list[int]
) -> None:
    """What no window reaches is no padding of a negative length, which XLA takes in part only."""
    pool = "R.nn.max_pool1d(x, 2, 4, padding=1, ceil_mode=True)"
    mod = program(
        f"R.sum({pool} * y)", 'R.Tensor((1, 1, "n"), "float32")', "R.Tensor((), 'float32')"
    )
    adjoint = Gradient("main", ["x"])(mod)
    x = np.arange(1, length + 1, dtype="float32").reshape(1, 1, length)
    results = [
        to_jax(m, "main_adjoint")(x, np.float32(2)) for m in (adjoint, LegalizeOps()(adjoint))
    ]
    chex.assert_trees_all_equal(*results)
    expected = np.where(np.isin(np.arange(length), largest), 2.0, 0.0)
    np.testing.assert_array_equal(results[0][1][0][0, 0], expected)


@pytest.mark.parametrize(
    "value",
    [
        "R.take(x, y, axis=0)",
        "R.gather_elements(x, R.expand_dims(y, -1), axis=0)",
        "R.gather_nd(x, R.expand_dims(y, -1))",
    ],
)
def test_nothing_is_read_from_an_axis_that_turns_out_to_be_empty(value: str) -> None:
    mod = program(value, 'R.Tensor(("n", 2), "float32")', 'R.Tensor((3,), "int64")')
    x, y = np.zeros((0, 2), "float32"), np.zeros(3, "int64")
    with jax.enable_x64(True):
        for run in (to_jax(mod, "main"), VirtualMachine(build(mod))["main"]):
            with pytest.raises(OpError, match=r"has nothing along axis 0 that could be read"):
                run(x, y)


def test_sizes_that_are_bound_are_checked_where_they_are() -> None:
    """JAX would repeat the one target for every sample."""
    mod = program(
        "R.nn.nll_loss(x, y)", 'R.Tensor(("n", 3), "float32")', 'R.Tensor(("m",), "int32")'
    )
    assert BindSymbolicVars({"n": 4, "m": 4})(mod) is not mod
    with pytest.raises(OpError, match=TARGETS):
        BindSymbolicVars({"n": 4, "m": 1})(mod)


@pytest.mark.parametrize(
    "value", ["R.strided_slice(x, [0], [n], [8])", "R.strided_slice(x, [0], [0], [n])"]
)
def test_a_place_that_turns_out_to_be_negative_is_no_place_from_the_front(value: str) -> None:
    """Literal ones count from the back, and the type does not know that this one will."""
    mod = parse_functions(f"""
        @R.function
        def main(x: R.Tensor((8, 2), "float32"), s: R.Shape(["n"])):
            n = T.int64()
            y = {value}
            return y
        """)
    x = np.ones((8, 2), "float32")
    for run in (to_jax(mod, "main"), VirtualMachine(build(mod))["main"]):
        chex.assert_shape(run(x, (3,)), (5 if "[8]" in value else 3, 2))
        with pytest.raises(ValueError, match=r"-3, .* must not be negative|negative, found .*-3"):
            run(x, (-3,))


@pytest.mark.parametrize(
    "value",
    [
        "R.add(x, y)",
        "R.where(R.greater(x, y), x, y)",
        "R.einsum((x, y), 'ij,ij->ij')",
        "R.broadcast_to(x, R.shape([n + 2, 3]))",
    ],
)
def test_sizes_that_are_never_equal_broadcast_where_one_is_1(value: str) -> None:
    mod = parse_functions(f"""
        @R.function
        def main(x: R.Tensor(("n", 3), "float32"), y: R.Tensor(("n + 2", 3), "float32")):
            n = T.int64()
            z = {value}
            return z
        """)
    adjoint = Gradient("main", cotangent=True)(mod)
    one, two, three = (np.ones((size, 3), "float32") for size in (1, 2, 3))
    _, (to_x, to_y) = to_jax(adjoint, "main_adjoint")(one, three, three)
    chex.assert_shape([to_x, to_y], [(1, 3), (3, 3)])
    assert float(to_x.sum() + to_y.sum()) in (9.0, 18.0)
    for run in (to_jax(mod, "main"), VirtualMachine(build(mod))["main"]):
        chex.assert_shape(run(one, three), (3, 3))
        with pytest.raises(ValueError, match=r"broadcast|is both 2 and 4"):
            run(two, np.ones((4, 3), "float32"))


@pytest.mark.parametrize(
    ("value", "y"),
    [
        ("R.nn.prelu(x, y, axis=0)", '("n + 2",)'),
        ("R.index_put(x, (R.const([0, 1], 'int64'),), y)", '("k", 3)'),
    ],
)
def test_one_of_symbolic_size_may_stand_for_all(value: str, y: str) -> None:
    mod = parse_functions(f"""
        @R.function
        def main(x: R.Tensor(("n", 3), "float32"), y: R.Tensor({y}, "float32")):
            z = {value}
            return z
        """)
    assert mod["main"].ret_ty == mod["main"].params[0].ty
