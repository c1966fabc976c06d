"""What narrow numbers are, in numpy: one number after the other, by its bits."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

_WORD = 2**32


def _chance(x: Any, step: Any) -> int:
    """MurmurHash3's last steps, of the bits of a float32 and the number of a step."""
    found = int(np.float32(x).view(np.uint32)) ^ (int(step) * 0x9E3779B9 % _WORD)
    found = (found ^ found >> 16) * 0x85EBCA6B % _WORD
    found = (found ^ found >> 13) * 0xC2B2AE35 % _WORD
    return found ^ found >> 16


def round_by_chance(x: Any, step: Any) -> Any:
    def one(number: Any) -> Any:
        bits = int(np.float32(number).view(np.uint32)) + (_chance(number, step) >> 16)
        return np.uint32(bits >> 16 << 16).view(np.float32)

    found = [one(number) for number in x.astype("float32").ravel()]
    return np.array(found, "float32").reshape(x.shape).astype(ml_dtypes.bfloat16)


def _parts(signed: bool) -> Any:
    """What the codes from 0 on stand for, in parts of the scale: floats of three bits and zero."""
    largest = 127 if signed else 255
    places = [divmod(code - largest, 8) for code in range(1, largest + 1)]
    return np.array([0.0, *((1 + fraction / 8) * 2.0**power for power, fraction in places)])


def _code(number: Any, scale: Any, step: Any, parts: Any, signed: bool) -> int:
    """The code below or above, by chance; what is too small is the least, or zero by chance."""
    part, chance = np.float32(abs(number)) / (scale or np.float32(1)), _chance(number, step)
    if part < parts[1]:
        return int(part > (parts[1] * (chance >> 8) / 2**24 if signed else 0))
    below = int(np.searchsorted(parts, part, "right")) - 1
    if part == parts[below]:
        return below
    share = (part - parts[below]) / (parts[below + 1] - parts[below])
    return below + int(share * 2**20 + (chance >> 12) >= 2**20)


def encode(x: Any, step: Any, signed: bool = True) -> Any:
    flat, parts = x.astype("float32").ravel(), _parts(signed)
    blocks = [flat[at : at + 256] for at in range(0, flat.size, 256)]
    scales = [np.float32(np.abs(block).max()) for block in blocks]
    codes = [
        _code(number, scale, step, parts, signed) * (-1 if number < 0 else 1)
        for block, scale in zip(blocks, scales, strict=True)
        for number in block
    ]
    dtype = "int8" if signed else "uint8"
    return np.array(codes, dtype).reshape(x.shape), np.array(scales, "float32")


def decode(codes: Any, scales: Any) -> Any:
    flat = codes.astype("int64").ravel()
    parts = _parts(codes.dtype == np.int8)[abs(flat)]
    return (np.sign(flat) * parts * np.repeat(scales, 256)[: flat.size]).reshape(codes.shape)


NARROW: dict[str, Callable[..., Any]] = {
    "relax.narrow.round": round_by_chance,
    "relax.narrow.encode": encode,
    "relax.narrow.decode": decode,
}
