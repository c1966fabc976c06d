"""What NumPy computes of constants is what XLA computes, bit for bit."""

from typing import Any

import jax
import numpy as np
import pytest
from parsing import parse_functions

from relaxjax.ir.expr import Call, Constant
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.types import dtype_name
from relaxjax.ops.lax import x64_for
from relaxjax.passes import FoldConstant
from relaxjax.passes.simplification import exact_numbers
from relaxjax.passes.simplification.exact_numbers import exact_result

NUMBERS = [0.0, -0.0, 1.0, -2.5, 1 / 3, 1e30, -1e30, 3.4e38, 1e-30, np.inf, -np.inf, np.nan]
WHOLE = [0, 1, -7, 5, 2**31 - 1, -(2**31), 3, -3]
FLOATS = [np.asarray(NUMBERS, dtype) for dtype in ("float32", "float64")]
INTEGERS = [np.asarray(WHOLE, "int32"), np.asarray(WHOLE, "int64") * 2**20]
PAIRS: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    f"{name} of {array.dtype}": (name, [array[:, None], array[None]], {})
    for name in ("add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge")
    for array in (*FLOATS, *INTEGERS)
}
PAIRS |= {
    f"{name} of {array.dtype}": (name, [array[:, None], array[None]], {})
    for name in ("max", "min", "and_", "or_", "xor")
    for array in (*INTEGERS, np.asarray([True, False]))
}
PAIRS |= {
    f"rem of {array.dtype}": ("rem", [array[:, None], array[None, 1:]], {}) for array in INTEGERS
}
CASES: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    **{
        f"{name} of {array.dtype}": (name, [array], {})
        for name in ("neg", "abs")
        for array in (*FLOATS, *INTEGERS)
    },
    **{
        f"{array.dtype} to {dtype}": ("convert_element_type", [array], {"new_dtype": dtype})
        for array, dtypes in (
            (FLOATS[0], ["float64", "complex64"]),
            (FLOATS[1], ["float32", "complex128"]),
            (INTEGERS[0], ["float32", "float64", "int8", "uint16", "int64", "bool"]),
            (INTEGERS[1], ["float32", "int32", "uint8"]),
            (np.asarray([True, False]), ["float32", "int32"]),
        )
        for dtype in dtypes
    },
    **{
        f"not of {array.dtype}": ("not_", [array], {})
        for array in (INTEGERS[0], np.asarray([True, False]))
    },
    **{f"sqrt of {array.dtype}": ("sqrt", [abs(array[:-1])], {}) for array in FLOATS},
    "select_n": ("select_n", [np.asarray([True, False]), FLOATS[0][:2], FLOATS[0][3:5]], {}),
    "select_n by one": ("select_n", [np.asarray(True), FLOATS[0][:2], FLOATS[0][3:5]], {}),
    "reshape": ("reshape", [FLOATS[0]], {"new_sizes": [3, 4], "dimensions": None}),
    "broadcast_in_dim": (
        "broadcast_in_dim",
        [INTEGERS[0][:3, None]],
        {"shape": [2, 3, 4], "broadcast_dimensions": [1, 2]},
    ),
}


CASES["broadcast_in_dim of complex numbers"] = (
    "broadcast_in_dim",
    [np.asarray([1 - 2j, complex(0.0, -0.0)], "complex64")],
    {"shape": [3, 2], "broadcast_dimensions": [1]},
)


def call_of(name: str, arrays: list[Any], attrs: dict[str, Any]) -> Call:
    call = get_op(name)(*map(Constant, arrays), **attrs)
    assert isinstance(call, Call)
    return call


def assert_same(call: Call, arrays: list[Any], result: np.ndarray | None) -> None:
    assert isinstance(call.op, Op)
    assert call.op.lower is not None
    with x64_for(call.ty, call.attrs, *(arg.ty for arg in call.args)):
        expected = np.asarray(call.op.lower(*map(jax.numpy.asarray, arrays), **call.attrs))
    assert result is not None
    assert dtype_name(result.dtype) == dtype_name(expected.dtype)
    assert result.shape == expected.shape
    assert result.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("name", "arrays", "attrs"), CASES.values(), ids=CASES)
def test_a_result(name: str, arrays: list[Any], attrs: dict[str, Any]) -> None:
    call = call_of(f"lax.{name}", arrays, attrs)
    assert_same(call, arrays, exact_result(call, arrays))


@pytest.mark.parametrize(("name", "arrays", "attrs"), PAIRS.values(), ids=PAIRS)
def test_a_result_of_two(name: str, arrays: list[Any], attrs: dict[str, Any]) -> None:
    both = [np.ascontiguousarray(one) for one in np.broadcast_arrays(*arrays)]
    call = call_of(f"lax.{name}", both, attrs)
    assert_same(call, both, exact_result(call, both))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
def test_a_result_by_operators_of_relax(name: str) -> None:
    arrays = [FLOATS[0][:, None], FLOATS[0]]
    call = call_of(f"relax.{name}", arrays, {})
    assert_same(call, arrays, exact_result(call, arrays))


def test_quotients_of_floats() -> None:
    """But for those too small to be normal."""
    array = FLOATS[0]
    both = [np.repeat(array, len(array)), np.tile(array, len(array))]
    with np.errstate(all="ignore"):
        quotients = np.abs(np.divide(*(one.astype("float64") for one in both)))
    usual = ~(quotients < np.finfo("float32").tiny) | (quotients == 0)
    both = [one[usual] for one in both]
    call = call_of("lax.div", both, {})
    assert_same(call, both, exact_result(call, both))


LEFT: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "too small a result": ("mul", [np.float32(1e-30), np.float32(1e-10)], {}),
    "too small an argument": ("add", [np.float32(1e-40), np.float32(1)], {}),
    "half precision": ("add", [np.float16(1), np.float16(2)], {}),
    "quotients of integers": ("div", [np.int32(-7), np.int32(2)], {}),
    "a float made whole": ("convert_element_type", [np.float32(1e20)], {"new_dtype": "int32"}),
    "the sign of -0.0": ("sign", [np.float32(-0.0)], {}),
    "one of three": ("select_n", [np.int32(7), *[np.float32(1)] * 3], {}),
    "a remainder by zero": ("rem", [np.int32(7), np.int32(0)], {}),
    "which zero is larger": ("max", [np.float32(0.0), np.float32(-0.0)], {}),
    "no root": ("sqrt", [np.float32(-1)], {}),
    "products of complex numbers": ("mul", [np.complex64(1j), np.complex64(2j)], {}),
    "powers": ("exp", [np.float32(1)], {}),
}


@pytest.mark.parametrize(("name", "numbers", "attrs"), LEFT.values(), ids=LEFT)
def test_what_depends_on_who_computes_it(
    name: str, numbers: list[Any], attrs: dict[str, Any]
) -> None:
    arrays = [np.asarray(number) for number in numbers]
    assert exact_result(call_of(f"lax.{name}", arrays, attrs), arrays) is None


def test_folding_asks_xla_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []

    def watched(call: Call, values: Any) -> np.ndarray | None:
        result = exact_numbers.exact_result(call, values)
        found.append(result is not None)
        return result

    monkeypatch.setattr("relaxjax.passes.simplification.fold_constant.exact_result", watched)
    mod = parse_functions("""
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        a = L.neg(R.const([1.0, 2.0], "float32"))
        b = L.div(a, R.const([3.0, 3.0], "float32"))
        c = L.exp(b)
        return L.mul(x, c)
    """)
    folded = FoldConstant()(mod)
    assert found == [True, True, False]
    assert "L.exp" not in folded.script()
