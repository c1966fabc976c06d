"""Tensors as TVM writes them into JSON: a flat list of nodes, the bytes of each tensor in base64.

One text holds a table `{kind: [tensor, ...]}`. It is read with nothing but `json` and `base64`, so
text from anywhere is safe to read, and whatever is malformed in it is a `ValueError`.
"""

import base64
import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from .dtypes import DLPACK_CODES

Array: TypeAlias = np.ndarray[Any, Any]

KIND = "ir.GenericConst"
KINDS = (KIND, "relax.expr.Constant")  # the second is its name up to 0.25

_MAGIC = 0xDD5E40F096B4A13F
_CPU = 1
_MOST_DIMS = 64
_HEADER = struct.Struct("<QQiiiBBH")  # magic, reserved, device type and id, rank, code, bits, lanes
_PACKED_FLOATS = range(15, 18)  # codes of floats of 4 and 6 bits, which TVM packs in its own way
_CODES = {name: code for name, code in DLPACK_CODES.items() if code[0] not in _PACKED_FLOATS}
_NAMES = {code: name for name, code in _CODES.items()} | {(1, 1): "bool"}  # bool up to 0.19


def can_write(dtype: str) -> bool:
    """Whether a tensor of this dtype can stand in the table."""
    return dtype in _CODES


def write_tensors(tensors: Sequence[Array]) -> str:
    """The JSON text of the table `{"ir.GenericConst": tensors}`, one node a line."""
    writer = _Writer()
    kind = writer.node("ffi.String", KIND)
    items = [writer.constant(tensor) for tensor in tensors]
    root = writer.node("ffi.Map", [kind, writer.node("ffi.Array", items)])
    nodes = ",\n".join(writer.nodes)
    version = '{"tvm_version": "0.27.0.post1"}'
    return f'{{"root_index": {root}, "nodes": [\n{nodes}\n], "metadata": {version}}}'


class _Writer:
    """The nodes so far, each as JSON text; equal nodes but tensors are written once."""

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self._index: dict[str, int] = {}
        self._none = self.node("None")

    def node(self, kind: str, data: Any = None) -> int:
        text = json.dumps({"type": kind} if data is None else {"type": kind, "data": data})
        if text not in self._index:
            self._index[text] = len(self.nodes)
            self.nodes.append(text)
        return self._index[text]

    def record(self, kind: str, **fields: Any) -> int:
        return self.node(kind, {"span": self._none, **fields})

    def constant(self, tensor: Array) -> int:
        data = base64.b64encode(encode_tensor(tensor)).decode("ascii")
        self.nodes.append(json.dumps({"type": "ffi.Tensor", "data": data}))
        value = len(self.nodes) - 1
        ty = self.tensor_type(tensor.shape, str(tensor.dtype))
        return self.record(KIND, ty=ty, value=value)

    def tensor_type(self, shape: tuple[int, ...], dtype: str) -> int:
        index = self.record("ir.PrimType", dtype="int64")
        dims = [self.record("ir.IntImm", ty=index, value=self.node("int", dim)) for dim in shape]
        values = self.node("ffi.Array", dims)
        shape_type = self.record("relax.ShapeType", values=values, ndim=len(shape))
        expr = self.record("relax.expr.ShapeExpr", ty=shape_type, values=values)
        element = self.record("ir.PrimType", dtype=dtype)
        return self.record(
            "relax.TensorType", shape=expr, dtype=element, vdevice=self._none, ndim=len(shape)
        )


def encode_tensor(tensor: Array) -> bytes:
    """A tensor as bytes: header, shape, the number of bytes that follow, and these."""
    code, bits = _CODES[str(tensor.dtype.newbyteorder("="))]
    little = tensor.astype(tensor.dtype.newbyteorder("<")) if bits > 8 else tensor
    content = _pack(tensor, bits) if bits < 8 else np.ascontiguousarray(little).tobytes()
    head = _HEADER.pack(_MAGIC, 0, _CPU, 0, tensor.ndim, code, bits, 1)
    return head + struct.pack(f"<{tensor.ndim + 1}q", *tensor.shape, len(content)) + content


def decode_tensor(data: bytes) -> Array:
    """The tensor that `encode_tensor` wrote; anything else is a ValueError."""
    name, shape, size, start = _described(data)
    return _decode_content(data[start:], size, shape, name)


def tensor_length(data: bytes | memoryview) -> int:
    """How many of these bytes the tensor takes that they begin with, by what it says of itself."""
    _, _, size, start = _described(data[: _HEADER.size + 8 * (_MOST_DIMS + 1)])
    return start + size


def _described(data: bytes | memoryview) -> tuple[str, tuple[int, ...], int, int]:
    """The dtype and the shape of a tensor, how many bytes it has, and where these begin."""
    if len(data) < _HEADER.size:
        raise ValueError(f"a tensor is cut short: {len(data)} bytes, and its header needs more")
    magic, _, _, _, ndim, code, bits, lanes = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise ValueError("the data of a tensor does not begin with the mark of a tensor")
    name = _NAMES.get((code, bits))
    if name is None or lanes != 1:
        raise ValueError(f"a tensor has an unknown dtype: code {code}, {bits} bits, {lanes} lanes")
    start = _HEADER.size + 8 * (ndim + 1)
    if not 0 <= ndim <= _MOST_DIMS or len(data) < start:
        raise ValueError(f"a tensor of rank {ndim} is cut short or has too many dimensions")
    *shape, size = struct.unpack_from(f"<{ndim + 1}q", data, _HEADER.size)
    return name, tuple(shape), size, start


def _decode_content(content: bytes, size: int, shape: tuple[int, ...], dtype: str) -> Array:
    if any(dim < 0 for dim in shape):
        raise ValueError(f"a tensor has the negative dimension {min(shape)}")
    count, bits = math.prod(shape), _CODES[dtype][1]
    expected = (count * bits + 7) // 8
    if not len(content) == size == expected:
        raise ValueError(
            f"a {dtype} tensor of shape {list(shape)} needs {expected} bytes, "
            f"but {len(content)} are there and {size} are announced"
        )
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if bits < 8:
        flat = _unpack(content, bits, count).astype(kind)
    else:
        flat = np.frombuffer(content, kind.newbyteorder("<")).astype(kind)
    try:
        return flat.reshape(shape)
    except ValueError as error:
        raise ValueError(f"no tensor can have the shape {list(shape)}: {error}") from None


def _pack(tensor: Array, bits: int) -> bytes:
    """Integers of less than a byte, the first in the lowest bits."""
    per_byte = 8 // bits
    values = tensor.astype(np.uint8).ravel() & ((1 << bits) - 1)
    padded = np.zeros((-(-values.size // per_byte), per_byte), np.uint8)
    padded.ravel()[: values.size] = values
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    packed: Array = np.bitwise_or.reduce(padded << shifts, axis=1).astype(np.uint8)
    return packed.tobytes()


def _unpack(content: bytes, bits: int, count: int) -> Array:
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    packed = np.frombuffer(content, np.uint8)[:, None]
    return ((packed >> shifts) & np.uint8((1 << bits) - 1)).ravel()[:count]


def read_tensors(text: str) -> dict[str, list[Array]]:
    """The tables of tensors in a JSON text of TVM's, by kind; what else it holds is passed over."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the metadata is no JSON: {error}") from None
    return _Reader(document).tables()


class _Reader:
    def __init__(self, document: Any) -> None:
        if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
            raise ValueError("the metadata must be a JSON object with a list `nodes`")
        self.nodes: list[Any] = document["nodes"]
        self.root = document.get("root_index")

    def tables(self) -> dict[str, list[Array]]:
        kind, pairs = self.node(self.root, "root_index")
        if kind != "ffi.Map" or not isinstance(pairs, list) or len(pairs) % 2:
            raise ValueError(f"the root of the metadata must be a map, but it is `{kind}`")
        found: dict[str, list[Array]] = {}
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            _, name = self.node(key, "a key")
            if name in KINDS:
                found[str(name)] = [self.constant(item) for item in self.array(value)]
        return found

    def node(self, index: Any, where: str) -> tuple[str, Any]:
        """The kind and the data of the node at `index`."""
        if type(index) is not int or not 0 <= index < len(self.nodes):
            raise ValueError(f"the metadata has no node {index!r}, which {where} names")
        node = self.nodes[index]
        if not isinstance(node, Mapping) or not isinstance(node.get("type"), str):
            raise ValueError(f"node {index} of the metadata must be an object with a `type`")
        return node["type"], node.get("data")

    def array(self, index: Any) -> list[Any]:
        kind, items = self.node(index, "a table")
        if kind != "ffi.Array" or not isinstance(items, list):
            raise ValueError(f"a table of constants must be an array, but node {index} is `{kind}`")
        return items

    def constant(self, index: Any) -> Array:
        kind, record = self.node(index, "a table")
        if kind not in KINDS or not isinstance(record, Mapping):
            raise ValueError(
                f"a constant is expected, but node {index} of the metadata is `{kind}`"
            )
        tensor_kind, data = self.node(record.get("value", record.get("data")), "a constant")
        if tensor_kind not in ("ffi.Tensor", "ffi.NDArray") or not isinstance(data, str):
            raise ValueError(f"the value of a constant must be a tensor, but it is `{tensor_kind}`")
        try:
            content = base64.b64decode(data, validate=True)
        except ValueError as error:
            raise ValueError(f"the data of a tensor is no base64: {error}") from None
        return decode_tensor(content)
