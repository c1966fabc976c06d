"""Quotients, remainders, powers and absolute values of integers, at every edge."""

import math

import chex
import jax
import numpy as np
import pytest
from applying import applied

from relaxjax.ir import BlockBuilder, Constant, SymbolicVar, TensorType, Var, const
from relaxjax.lowering import VirtualMachine, build, to_jax
from relaxjax.ops.emit import call
from relaxjax.passes import FoldConstant, LegalizeOps

LEAST = np.iinfo("int32").min
BY_ZERO: dict[str, list[int]] = {
    "divide": [-1, -1, -1],
    "floor_divide": [-1, -1, -1],
    "mod": [7, 0, LEAST],
    "floor_mod": [0, 0, 0],
}


@pytest.mark.parametrize("name", BY_ZERO)
def test_a_constant_divided_by_zero_is_what_it_is_at_run_time(name: str) -> None:
    """XLA, which divides constants while it compiles, would end the process."""
    x, zeros = np.asarray([7, 0, LEAST], "int32"), np.zeros(3, "int32")
    builder = BlockBuilder()
    with builder.function("main", []):
        builder.emit_func_output(builder.emit(call(name, const(x), const(zeros))))
    module = builder.get()
    assert list(VirtualMachine(build(module))["main"]()) == BY_ZERO[name]
    assert list(applied(name, x, zeros)) == BY_ZERO[name]
    folded = FoldConstant()(module)["main"].body.body
    assert isinstance(folded, Constant)
    assert list(folded.data) == BY_ZERO[name]


def test_a_quotient_of_unsigned_integers_by_zero_has_all_bits() -> None:
    x, y = np.asarray([7, 9], "uint8"), np.asarray([0, 2], "uint8")
    assert list(applied("divide", x, y)) == [255, 4]


@pytest.mark.parametrize("name", ["divide", "floor_divide"])
def test_the_least_integer_divided_by_minus_one_is_itself(name: str) -> None:
    assert applied(name, np.asarray([LEAST], "int32"), np.asarray([-1], "int32")) == [LEAST]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64"])
def test_powers_of_integers_wrap_as_those_of_numpy(dtype: str) -> None:
    """Powers from the 64th on, too, which those of jax.numpy are not."""
    x = np.asarray([0, 1, 2, 3, 5, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    y = np.asarray([0, 1, 2, 3, 7, 31, 63, 64, 65, 100, 127], dtype)[:, None]
    with jax.enable_x64(True):
        chex.assert_trees_all_equal(applied("power", x, y), np.power(x, y))


def test_negative_powers_of_integers_are_cut_off_towards_zero() -> None:
    x = np.asarray([2, -2, 1, -1, 0], "int32")
    wanted = {-1: [0, 0, 1, -1, -1], -2: [0, 0, 1, 1, -1], LEAST: [0, 0, 1, 1, -1]}
    for exponent, result in wanted.items():
        assert list(applied("power", x, np.asarray(exponent, "int32"))) == result


def test_powers_of_integers_can_be_spelt_out_for_any_size_and_mapped() -> None:
    x, builder = Var("x", TensorType((SymbolicVar("n"),), "int32")), BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(x ** const(70, "int32")))
    run = to_jax(LegalizeOps()(builder.get()), "main")
    numbers = np.asarray([[2, 3, -3], [1, 0, 5]], "int32")
    chex.assert_trees_all_equal(run(numbers[0]), numbers[0] ** np.int32(70))
    assert run(numbers[0][:0]).shape == (0,)
    chex.assert_trees_all_equal(jax.vmap(run)(numbers), numbers ** np.int32(70))


def test_unsigned_integers_are_their_own_absolute_values() -> None:
    assert list(applied("abs", np.asarray([0, 200], "uint8"))) == [0, 200]


@pytest.mark.parametrize(
    ("dtype", "least", "largest", "expected"),
    [
        ("uint32", -5, math.inf, [0, 2**32 - 1]),
        ("uint32", 1, 2**40, [1, 2**32 - 1]),
        ("int8", -1000, 3.5, [0, 3]),
        ("float32", 1, 2**40, [1, 2**32]),
    ],
)
def test_bounds_that_32_bits_do_not_hold(
    dtype: str, least: float, largest: float, expected: list[float]
) -> None:
    most = 127 if dtype == "int8" else 2**32 - 1
    assert list(applied("clip", np.asarray([0, most], dtype), least, largest)) == expected
