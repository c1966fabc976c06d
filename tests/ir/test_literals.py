"""Literals read back as exactly the value that they were written from."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from relaxjax.ir.expr import Constant, const, np_dtype
from relaxjax.ir.literals import array_text, number_text, string_text
from relaxjax.ir.tensor_json import Array


@given(st.text())
def test_a_string_reads_back(value: str) -> None:
    text = string_text(value)
    assert eval(text) == value
    assert text.isprintable()


def test_printable_characters_stand_as_they_are() -> None:
    assert string_text('层 "a"\n\\') == '"层 \\"a\\"\\n\\\\"'


@given(
    st.one_of(
        *(st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False)),
        st.complex_numbers(allow_nan=False),
    )
)
def test_a_number_reads_back(value: complex | None) -> None:
    again = eval(number_text(value))
    assert again == value
    assert type(again) is type(value)
    assert repr(again) == repr(value)


def test_nan_is_a_call_of_float() -> None:
    assert number_text(math.nan) == 'float("nan")'


DTYPES = (
    *("bool", "int8", "int64", "uint8", "uint64", "float16", "float32", "float64", "bfloat16"),
    *("int2", "int4", "uint4", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"),
)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_small_tensor_reads_back(dtype: str) -> None:
    data = np.array([[0, 1], [1, 0]]).astype(np_dtype(dtype))
    text = array_text(data)
    assert text is not None
    assert const(eval(text), dtype) == Constant(data)


@given(
    npst.arrays(
        st.sampled_from(["float16", "float32", "float64", "int8", "uint64", "bool"]),
        npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    )
)
def test_what_is_written_as_lists_reads_back_bit_by_bit(data: Array) -> None:
    text = array_text(data)
    if text is not None:
        assert const(eval(text), data.dtype) == Constant(data)


def test_numbers_that_have_no_literal() -> None:
    data = np.array([-math.inf, math.inf, -0.0, 0.1], np.float32)
    assert array_text(data) == '[float("-inf"), float("inf"), -0.0, 0.1]'


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        ("float16", "[0.1, 1e-05, 0.3333, 65504.0]"),
        ("float32", "[0.1, 1e-05, 0.33333334, 65504.0]"),
        ("float64", "[0.1, 1e-05, 0.3333333333333333, 65504.0]"),
        ("bfloat16", "[0.1, 1e-05, 0.334, 65536.0]"),
    ],
)
def test_numbers_have_no_more_digits_than_their_dtype_can_tell_apart(
    dtype: str, wanted: str
) -> None:
    assert array_text(np.array([0.1, 1e-5, 1 / 3, 65504.0]).astype(np_dtype(dtype))) == wanted


def test_a_big_tensor_has_no_literal() -> None:
    assert array_text(np.zeros(16, np.int8)) is not None
    assert array_text(np.zeros(17, np.int8)) is None


def test_a_tensor_whose_shape_or_bits_lists_cannot_say_has_no_literal() -> None:
    assert array_text(np.zeros((2, 0), np.float32)) == "[[], []]"
    assert array_text(np.zeros((0, 2), np.float32)) is None
    strange_nan = np.array([0x7FC00001], np.uint32).view(np.float32)
    assert array_text(strange_nan) is None
    assert array_text(np.array(1 + 2j, np.complex64)) is None


def test_a_tensor_that_no_table_takes_is_written_as_lists_whatever_its_size() -> None:
    data = np.ones(20, ml_dtypes.float4_e2m1fn)
    assert array_text(data) == f"[{', '.join(['1.0'] * 20)}]"
