"""IDX files are read and written exactly, and every damage to one is named."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from relaxjax.datasets import IdxError, idx

MATRIX = np.arange(6, dtype=np.uint8).reshape(2, 3)
MATRIX_BYTES = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 0, 1, 2, 3, 4, 5])


def test_the_format_byte_by_byte() -> None:
    assert idx.encode(MATRIX) == MATRIX_BYTES
    np.testing.assert_array_equal(idx.decode(MATRIX_BYTES, "m"), MATRIX)


def test_elements_are_big_endian_in_the_file_and_native_in_memory() -> None:
    content = idx.encode(np.array([258], np.int32))
    assert content[-4:] == bytes([0, 0, 1, 2])
    array = idx.decode(content, "x")
    assert array.dtype.isnative
    assert array.tolist() == [258]


@given(
    npst.arrays(
        st.sampled_from(["uint8", "int8", "int16", "int32", "float32", "float64", ">i4", "<f8"]),
        npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    )
)
def test_what_is_encoded_decodes_equal(array: idx.Array) -> None:
    decoded = idx.decode(idx.encode(array), "x")
    assert decoded.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(decoded, array)


@pytest.mark.parametrize("name", ["m-idx2-ubyte", "m-idx2-ubyte.gz"])
def test_files_plain_and_gzipped(tmp_path: Path, name: str) -> None:
    idx.write(tmp_path / name, MATRIX)
    np.testing.assert_array_equal(idx.read(tmp_path / name), MATRIX)
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")


def test_gzip_is_told_by_content_not_by_name(tmp_path: Path) -> None:
    (tmp_path / "images").write_bytes(gzip.compress(MATRIX_BYTES))
    (tmp_path / "images.gz").write_bytes(MATRIX_BYTES)
    np.testing.assert_array_equal(idx.read(tmp_path / "images"), MATRIX)
    np.testing.assert_array_equal(idx.read(tmp_path / "images.gz"), MATRIX)


def test_equal_arrays_give_equal_gzipped_bytes(tmp_path: Path) -> None:
    idx.write(tmp_path / "a.gz", MATRIX)
    idx.write(tmp_path / "b.gz", MATRIX.copy())
    content = (tmp_path / "a.gz").read_bytes()
    assert content == (tmp_path / "b.gz").read_bytes()
    assert content[4:8] == b"\0\0\0\0", "the header's time must be fixed"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "x is not an IDX file: .* begins with ``"),
        (b"\0\0\x08", "x is not an IDX file: .* begins with `00 00 08`"),
        (b"PK\x03\x04" + MATRIX_BYTES, "x is not an IDX file: .* begins with `50 4b 03 04`"),
        (b"\0\0\x0a\x01\0\0\0\0", r"x has element type 0x0a, but IDX knows only 0x08 \(uint8\)"),
        (MATRIX_BYTES[:11], "x is cut off: a header of 2 dimensions takes 12 bytes, .* has 11"),
        (MATRIX_BYTES[:-1], r"x is cut off: .* shape \(2, 3\) of uint8, 6 bytes, but 5 bytes"),
        (MATRIX_BYTES + b"\0", r"x is too long: .* shape \(2, 3\) of uint8, 6 bytes, but 7 bytes"),
    ],
)
def test_malformed_content_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(IdxError, match=message):
        idx.decode(content, "x")


def test_a_header_that_promises_terabytes_takes_no_memory() -> None:
    with pytest.raises(IdxError, match=r"promises shape .* but 4 bytes follow"):
        idx.decode(bytes([0, 0, 14, 3]) + b"\xff" * 12 + b"\0" * 4, "x")


@pytest.mark.parametrize(
    "damage",
    [lambda zipped: zipped[:-9], lambda zipped: zipped[:12] + b"\xff\xff" + zipped[14:]],
    ids=["cut off", "overwritten"],
)
def test_a_damaged_gzip_file_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(damage(gzip.compress(MATRIX_BYTES)))
    with pytest.raises(IdxError, match=r"images\.gz is a damaged gzip file: "):
        idx.read(path)


def test_the_file_is_named_in_errors(tmp_path: Path) -> None:
    (tmp_path / "labels").write_bytes(b"text")
    with pytest.raises(IdxError, match="labels is not an IDX file"):
        idx.read(tmp_path / "labels")


def test_an_element_type_that_idx_lacks_is_refused() -> None:
    with pytest.raises(IdxError, match=r"hold uint8, .*, but the array is of uint16: convert it"):
        idx.encode(np.zeros(3, np.uint16))
