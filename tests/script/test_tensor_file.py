"""Files of arrays: checksums tell a damaged one, and one without any is taken as it is."""

import json
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from relaxjax.script.tensor_file import FileKind, TensorFile, write_tensors

KIND = FileKind("mine", "file of mine", ValueError)
ARRAYS = {
    "w": np.arange(6, dtype="float32").reshape(2, 3),
    "scalar": np.asarray(2, "int64"),
    "short": np.arange(3).astype(ml_dtypes.bfloat16),
    "bytes": np.arange(5).astype("float8_e4m3fn"),
    "none": np.zeros((0, 3), "float32"),
    "same": np.zeros(2, "float32"),
    "twice": np.zeros(2, "float32"),
}


def written(folder: Path) -> Path:
    write_tensors(folder / "file", KIND, ARRAYS, {"said": "0.01"})
    return folder / "file"


def check_read(path: Path) -> None:
    file = TensorFile(path, KIND)
    assert file.header["said"] == "0.01"
    assert set(file.names) == set(ARRAYS)
    for name, array in ARRAYS.items():
        found = file.read(name)
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert found.tobytes() == array.tobytes()


def numbers_at(content: bytes | bytearray) -> int:
    return 8 + int(struct.unpack("<Q", content[:8])[0])


@pytest.mark.parametrize("bit", [0, 3, 7])
def test_a_flipped_bit_is_found_wherever_it_is(bit: int, tmp_path: Path) -> None:
    """Or it changes nothing, as in the white space behind a header."""
    path = written(tmp_path)
    content = path.read_bytes()
    check_read(path)
    for place in range(bit % 2, len(content), 3):
        path.write_bytes(
            content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
        )
        is_text = place < numbers_at(content)
        with suppress(ValueError) if is_text else pytest.raises(ValueError, match="what it holds"):
            check_read(path)


def test_the_array_is_named_and_the_mend(tmp_path: Path) -> None:
    path = written(tmp_path)
    content = bytearray(path.read_bytes())
    content[content.index(ARRAYS["w"].tobytes(), numbers_at(content)) + 5] ^= 1
    path.write_bytes(content)
    file = TensorFile(path, KIND)
    match = (
        r"file` is damaged: what it holds of `w` is not what was written, by its checksum: take "
        "another one, or a copy of this one from elsewhere$"
    )
    for _ in range(2):
        with pytest.raises(ValueError, match=match):
            file.read("w")
    for name in ARRAYS.keys() - {"w"}:
        file.read(name)


def test_a_text_in_the_header_has_a_checksum_too(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"0.01", b"0.03"))
    with pytest.raises(ValueError, match="the text in its header is not what was written"):
        TensorFile(path, KIND)


def changed(path: Path, arrays: dict[str, Any], *left_out: str) -> None:
    """Write the file anew, with other arrays and without some texts of its header."""
    with safetensors.safe_open(path, "numpy") as file:
        texts = file.metadata()
    kept = {name: text for name, text in texts.items() if name not in left_out}
    safetensors.numpy.save_file(arrays, path, kept)


@pytest.mark.parametrize("change", ["swapped", "moved", "lacking"])
def test_arrays_are_those_of_their_names_and_shapes(change: str, tmp_path: Path) -> None:
    path = written(tmp_path)
    arrays = safetensors.numpy.load_file(path)
    if change == "swapped":
        arrays["same"], arrays["short"] = arrays["short"], arrays["same"]
    elif change == "moved":
        arrays["w"] = arrays["w"].reshape(3, 2)
    else:
        del arrays["scalar"]
    changed(path, arrays)
    with pytest.raises(ValueError, match="file` is damaged: "):
        check_read(path)


def test_a_file_without_checksums_is_read(tmp_path: Path) -> None:
    path = written(tmp_path)
    arrays = safetensors.numpy.load_file(path)
    changed(path, arrays, "checksum", "checksums")
    check_read(path)
    arrays["w"] = arrays["w"] + 1
    changed(path, arrays, "checksum", "checksums")
    np.testing.assert_array_equal(TensorFile(path, KIND).read("w"), ARRAYS["w"] + 1)


@pytest.mark.parametrize("checksums", ["[1]", "{", '{"w": "0"}', "1"])
def test_checksums_that_cannot_be_read_are_an_error(checksums: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    texts = {"format": "mine", "types": json.dumps({}), "checksums": checksums}
    safetensors.numpy.save_file({"v": np.zeros(2)}, path, texts)
    with pytest.raises(ValueError, match="is damaged: its header is wrong"):
        TensorFile(path, KIND)
