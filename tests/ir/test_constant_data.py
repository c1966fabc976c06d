"""The numbers of constants: their dtypes, and what no constant can hold."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from relaxjax.ir import Constant, Span, TensorType, const
from relaxjax.ir.node import replace


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.0, "float32"),
        (1, "int32"),
        (True, "bool"),
        ([1.0, 2.0], "float32"),
        ([[1], [2]], "int32"),
        ([True], "bool"),
        (np.float64(1.0), "float64"),
        (np.zeros(2), "float64"),
        (np.int8(1), "int8"),
        (jnp.ones(2, "bfloat16"), "bfloat16"),
    ],
)
def test_dtypes_of_constants(value: object, dtype: str) -> None:
    """Python's numbers get the dtypes that programs want, arrays keep their own."""
    constant = const(value)
    assert constant.dtype == dtype
    assert constant.ty == TensorType(np.asarray(value).shape, dtype)
    assert const(value, "float16").dtype == "float16"


def test_a_constant_is_a_frozen_copy() -> None:
    data = np.zeros(2, "float32")
    constant = Constant(data)
    data[0] = 1
    assert constant.data[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        constant.data[0] = 1


def test_a_constant_takes_no_second_copy() -> None:
    constant = const([1.0, 2.0])
    assert replace(constant, span=Span("model.py", 1)).data is constant.data


def test_a_constant_is_in_the_byte_order_of_the_machine() -> None:
    assert Constant(np.array([1.0], ">f4")) == const([1.0])


@pytest.mark.parametrize(
    "data", ["text", np.array([object()]), np.array("2020", "datetime64"), 10**30]
)
def test_a_constant_holds_numbers(data: Any) -> None:
    with pytest.raises(TypeError, match=r"is a tensor of numbers that a dtype can hold, but `.*`"):
        Constant(data)


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (300, "uint8", "`300` cannot be a constant of dtype uint8: .* out of bounds"),
        (2**40, None, "`1099511627776` cannot be a constant of dtype int32: .* out of bounds"),
        (float("nan"), "int32", "`nan` cannot be a constant of dtype int32: cannot convert"),
        ("a", "float32", "`'a'` cannot be a constant of dtype float32: could not convert"),
        (np.array([300]), "uint8", r"`array\(\[300\]\)` cannot be a constant of dtype uint8"),
        (np.array([-1], "int32"), "uint32", "cannot be a constant of dtype uint32"),
        (np.array([1.5]), "int32", "cannot be a constant of dtype int32"),
        (np.array([np.nan]), "int32", "cannot be a constant of dtype int32"),
        ([1, [2]], None, r"`\[1, \[2\]\]` cannot be a constant: "),
        (
            1e39,
            "float32",
            r"`1e\+39` cannot be a constant of dtype float32, whose numbers go from ",
        ),
        (
            1e39,
            None,
            "constant of dtype float32, whose numbers go from -3.40282e.38 to 3.40282e.38",
        ),
        ([1.0, 7e4], "float16", r"`\[1.0, 70000.0\]` cannot be .* go from -65504 to 65504"),
        (np.array(1e39), "bfloat16", "dtype bfloat16, whose numbers go from "),
        (-1e39j, "complex64", "dtype complex64, whose numbers go from -3.4"),
        (7e4, "float8_e5m2", "dtype float8_e5m2, whose numbers go from -57344 to 57344"),
        (float("inf"), "float8_e4m3fn", "dtype float8_e4m3fn, whose numbers go from -448 to 448"),
        (7, "float4_e2m1fn", "dtype float4_e2m1fn, whose numbers go from -6 to 6"),
        (float("nan"), "float4_e2m1fn", "dtype float4_e2m1fn, whose numbers go from -6 to 6"),
        (0, "float8_e8m0fnu", "dtype float8_e8m0fnu, whose numbers go from 5.8"),
        (2**200, "bfloat16", "cannot be a constant of dtype bfloat16: expected number"),
    ],
)
def test_a_number_that_a_dtype_cannot_hold(value: Any, dtype: str | None, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        const(value, dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e5m2", "complex64"])
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_what_is_infinite_stays_so(value: float, dtype: str) -> None:
    assert repr(complex(const(value, dtype).data).real) == repr(value)
