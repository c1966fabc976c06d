"""The table of constants: TVM's own JSON, written and read exactly, and safe to read."""

import base64
import contextlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from relaxjax.ir.expr import Constant, np_dtype
from relaxjax.ir.tensor_json import _CODES as CODES
from relaxjax.ir.tensor_json import Array, decode_tensor, encode_tensor, read_tensors, write_tensors

KIND = "ir.GenericConst"

# What TVM 0.27 writes for the float32 vector [1, 2, 3].
TVM_VECTOR = "P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAQAAAAIgAQADAAAAAAAAAAwAAAAAAAAAAACAPwAAAEAAAEBA"


def _read(text: str) -> dict[str, list[Constant]]:
    """The tensors of a text as constants, which are equal where their bits are."""
    return {kind: list(map(Constant, tensors)) for kind, tensors in read_tensors(text).items()}


@given(
    st.lists(
        npst.arrays(
            st.sampled_from(["int8", "uint64", "float16", "float32", "complex64", "bool"]),
            npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
        ),
        max_size=4,
    )
)
def test_what_is_written_reads_back(tensors: list[Array]) -> None:
    assert _read(write_tensors(tensors)) == {KIND: list(map(Constant, tensors))}


@pytest.mark.parametrize("dtype", CODES)
def test_every_dtype_reads_back(dtype: str) -> None:
    data = np.array([1, 0, 1, 1, 0]).astype(np_dtype(dtype))
    again = decode_tensor(encode_tensor(data))
    assert again.dtype == data.dtype
    assert again.tobytes() == data.tobytes()


def test_negative_integers_of_less_than_a_byte_read_back() -> None:
    data = np.array([-8, 7, -1], np_dtype("int4"))
    assert encode_tensor(data)[-2:] == bytes([0x78, 0x0F])
    assert decode_tensor(encode_tensor(data)).astype(int).tolist() == [-8, 7, -1]


def test_the_bytes_are_those_of_tvm() -> None:
    vector = np.array([1, 2, 3], np.float32)
    assert base64.b64encode(encode_tensor(vector)).decode() == TVM_VECTOR
    assert decode_tensor(base64.b64decode(TVM_VECTOR)).tolist() == [1, 2, 3]


def test_big_endian_tensors_are_written_in_the_same_bytes() -> None:
    assert encode_tensor(np.array([1, 2, 3], ">f4")) == encode_tensor(np.array([1, 2, 3], "<f4"))


def test_types_that_are_equal_are_written_once() -> None:
    text = write_tensors([np.zeros(3), np.ones(3)])
    kinds = [node["type"] for node in json.loads(text)["nodes"]]
    assert kinds.count("ffi.Tensor") == kinds.count(KIND) == 2
    assert kinds.count("relax.TensorType") == 1


def test_the_kind_of_constants_up_to_tvm_0_25() -> None:
    document = {
        "root_index": 4,
        "nodes": [
            {"type": "ffi.String", "data": "relax.expr.Constant"},
            {"type": "ffi.NDArray", "data": TVM_VECTOR},
            {"type": "relax.expr.Constant", "data": {"data": 1, "span": 0}},
            {"type": "ffi.Array", "data": [2]},
            {"type": "ffi.Map", "data": [0, 3]},
        ],
    }
    expected = {"relax.expr.Constant": [Constant(np.array([1, 2, 3], np.float32))]}
    assert _read(json.dumps(document)) == expected


def test_tables_of_other_things_are_passed_over() -> None:
    document = {
        "root_index": 2,
        "nodes": [
            {"type": "ffi.String", "data": "relax.Other"},
            {"type": "ffi.Array", "data": []},
            {"type": "ffi.Map", "data": [0, 1]},
        ],
    }
    assert _read(json.dumps(document)) == {}


def _damaged(**changes: Any) -> str:
    """A good text with one node of a kind replaced, or one entry of the document."""
    document = json.loads(write_tensors([np.array([1, 2, 3], np.float32)]))
    for name, value in changes.items():
        if name in document:
            document[name] = value
        for index, node in enumerate(document["nodes"]):
            if isinstance(node, dict) and node["type"].endswith(f".{name}"):
                document["nodes"][index] = value
    return json.dumps(document)


def _tensor(data: bytes) -> str:
    return _damaged(Tensor={"type": "ffi.Tensor", "data": base64.b64encode(data).decode()})


GOOD = base64.b64decode(TVM_VECTOR)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the metadata is no JSON"),
        ("[" * 100_000, "the metadata is no JSON"),
        ("[]", "must be a JSON object with a list `nodes`"),
        ('{"nodes": 3}', "must be a JSON object with a list `nodes`"),
        (_damaged(root_index=-1), "has no node -1, which root_index names"),
        (_damaged(root_index=True), "has no node True, which root_index names"),
        (_damaged(root_index=99), "has no node 99"),
        (_damaged(root_index=0), "the root of the metadata must be a map, but it is `None`"),
        (_damaged(Map={"type": "ffi.Map", "data": [1]}), "must be a map"),
        (_damaged(Map={"type": 3}), "must be an object with a `type`"),
        (_damaged(Map={"type": "ffi.Map", "data": [1, 0]}), "a table of constants must be"),
        (
            _damaged(GenericConst={"type": "ir.Other", "data": {}}),
            "a constant is expected, but node 11 of the metadata is `ir.Other`",
        ),
        (_damaged(GenericConst={"type": KIND, "data": 3}), "a constant is expected"),
        (_damaged(GenericConst={"type": KIND, "data": {}}), "has no node None, which a constant"),
        (_damaged(Tensor={"type": "ffi.Tensor", "data": 3}), "must be a tensor"),
        (_damaged(Tensor={"type": "ffi.String", "data": "x"}), "it is `ffi.String`"),
        (_damaged(Tensor={"type": "ffi.Tensor", "data": "?"}), "is no base64"),
        (_damaged(Tensor={"type": "ffi.Tensor", "data": "é"}), "is no base64"),
        (_tensor(GOOD[:20]), "a tensor is cut short: 20 bytes"),
        (_tensor(b"\0" * 60), "does not begin with the mark of a tensor"),
        (_tensor(GOOD[:28] + b"\x63" + GOOD[29:]), "an unknown dtype: code 99, 32 bits, 1 lanes"),
        (_tensor(GOOD[:30] + b"\x02" + GOOD[31:]), "an unknown dtype: code 2, 32 bits, 2 lanes"),
        (_tensor(GOOD[:24] + b"\x7f" + GOOD[25:]), "a tensor of rank 127 is cut short"),
        (_tensor(GOOD[:24] + b"\xff" * 4 + GOOD[28:]), "a tensor of rank -1 is cut short"),
        (_tensor(GOOD[:40] + b"\x0d" + GOOD[41:]), "12 are there and 13 are announced"),
        (_tensor(GOOD[:-1]), "shape \\[3\\] needs 12 bytes, but 11 are there"),
        (_tensor(GOOD[:32] + b"\xff" * 8 + GOOD[40:]), "the negative dimension -1"),
    ],
)
def test_damage_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_tensors(text)


@given(st.data())
def test_any_damage_to_a_tensor_is_a_value_error_or_another_tensor(data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(GOOD) - 1))
    damaged = bytearray(GOOD)
    damaged[position] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(ValueError):
        assert isinstance(decode_tensor(bytes(damaged)), np.ndarray)


def test_an_empty_tensor_with_an_absurd_dimension_is_a_value_error() -> None:
    empty: Array = np.zeros((0, 1), np.float32)
    content = encode_tensor(empty)
    absurd = content[:40] + (2**62).to_bytes(8, "little") + content[48:]
    with pytest.raises(ValueError, match="tensor"):
        decode_tensor(absurd)
