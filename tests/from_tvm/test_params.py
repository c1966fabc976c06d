"""Named arrays in the bytes in which TVM writes them."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import relaxjax.tvm

runtime: Any = relaxjax.tvm.runtime  # whose names are those of the table

# What TVM 0.27 writes for two arrays: floats of (2, 3), and two ones of int64.
WRITTEN = bytes.fromhex(
    "b79c04054f8de5f700000000000000000200000000000000010000000000000061010000000000000062020000"
    "00000000003fa1b496f0405edd0000000000000000010000000000000002000000022001000200000000000000"
    "03000000000000001800000000000000000000000000803f0000004000004040000080400000a0403fa1b496f0"
    "405edd000000000000000001000000000000000100000000400100020000000000000010000000000000000100"
    "0000000000000100000000000000"
)
PARAMS = {"a": np.arange(6, dtype="float32").reshape(2, 3), "b": np.ones(2, "int64")}


def test_the_bytes_are_those_of_tvm(tmp_path: Path) -> None:
    given = {name: runtime.tensor(array) for name, array in PARAMS.items()}
    assert runtime.save_param_dict(given) == WRITTEN
    runtime.save_param_dict_to_file(PARAMS, tmp_path / "w.params")
    assert (tmp_path / "w.params").read_bytes() == WRITTEN
    for found in (
        runtime.load_param_dict(bytearray(WRITTEN)),
        runtime.load_param_dict_from_file(tmp_path / "w.params"),
    ):
        assert list(found) == ["a", "b"]
        for name, array in PARAMS.items():
            np.testing.assert_array_equal(found[name].numpy(), array, strict=True)


def test_arrays_of_every_kind_come_back() -> None:
    arrays = {
        "truth": np.array([[True], [False]]),
        "empty": np.zeros((0, 3), "int8"),
        "scalar": np.float16(2),
        "few bits": np.ones(3, ml_dtypes.bfloat16),
        "swapped": np.arange(3, dtype=">i4"),
        "ü": np.arange(6.0).reshape(2, 3).T,
    }
    found = runtime.load_param_dict(runtime.save_param_dict(arrays))
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name].numpy(), array)
    assert runtime.load_param_dict(runtime.save_param_dict({})) == {}


def test_every_cut_is_an_error() -> None:
    for end in range(len(WRITTEN)):
        with pytest.raises(ValueError, match=r"cut short|needs 24 bytes|needs 16 bytes"):
            runtime.load_param_dict(WRITTEN[:end])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0" * 40, "these are no parameters"),
        (WRITTEN + b"\0", "1 bytes follow the last parameter"),
        (WRITTEN[:16] + b"\xff" * 8 + WRITTEN[24:], "names need more bytes"),
        (WRITTEN[:24] + b"\xff" * 8 + WRITTEN[32:], "bytes, and .* are due"),
        (WRITTEN[:42] + b"\x03" + WRITTEN[43:], "2 names, but 3 arrays"),
        (WRITTEN.replace(b"\x02\x20\x01", b"\x09\x20\x01"), "unknown dtype: code 9, 32 bits"),
        (WRITTEN.replace(b"\x18\0\0\0", b"\xff" * 4), "are due|cut short"),
    ],
)
def test_bytes_that_are_wrong(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        runtime.load_param_dict(data)


def test_what_is_no_number_is_not_written() -> None:
    match = "parameters are arrays of numbers, but `x` is of dtype <U1"
    with pytest.raises(TypeError, match=match):
        runtime.save_param_dict({"x": np.array(["a"])})
