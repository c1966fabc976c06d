"""Numbers kept in 16 or 8 bits between steps of a training, such as the moments of an optimizer.

They are rounded up or down by chance, so that the mean of many roundings is the number itself. A
mean that moves by a thousandth a step would not move at all if each step rounded to the nearest:
numbers of bfloat16 are 1/128 apart. What decides is a hash of the number and of the step, and no
random key: it is the same on every device, in every layout, and after a training was broken off.

In 8 bits a number is a small float, three bits of it behind the point, in parts of the largest of
its block. Signed it goes down to 2^-16 of that, and to zero below. What is never negative has the
bit of the sign for its exponent, and goes down to 2^-32; it is zero where it was zero only, because
optimizers divide by such numbers.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from relaxjax.ir.dims import can_prove_different
from relaxjax.ir.types import TensorType, TupleType, is_float

from .cost_rules import per_element
from .declare import OpError, op
from .extremes import extreme
from .lowered_cost import LOWERED
from .shapes import element_count, with_dtype

BLOCK = 256  # numbers that share a scale

_FRACTION = 20  # bits of a float32 that a number of 8 bits does not have
_ONE = np.float32(1).view(np.uint32) >> _FRACTION
_BETWEEN_STEPS = {
    "instead": "numbers are kept so between steps; differentiate what a step computes"
}
_INTEGERS = ("int32", "int64", "uint32", "uint64")


def _require_floats(data: TensorType) -> None:
    if data.dtype is not None and not is_float(data.dtype):
        raise OpError(f"`data` must be of floats, found dtype {data.dtype}")


def _require_step(step: TensorType) -> None:
    if step.ndim not in (-1, 0) or step.dtype not in (None, *_INTEGERS):
        raise OpError(f"`step` must be one integer of 32 bits or more, found {step}")


def _bits(x: Any) -> Any:
    return lax.bitcast_convert_type(x, jnp.uint32)


def _floats(bits: Any) -> Any:
    return lax.bitcast_convert_type(bits, jnp.float32)


def _chance(x: Any, step: Any) -> Any:
    """32 bits for each number, as good as random, of its own bits and the step's: MurmurHash3."""
    turn = step.astype(jnp.uint32) * jnp.uint32(0x9E3779B9)
    found = _bits(x) ^ turn
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        found = (found ^ (found >> jnp.uint32(shift))) * jnp.uint32(factor)
    return found ^ (found >> jnp.uint32(16))


def _round(data: Any, step: Any) -> Any:
    wide = data.astype(jnp.float32)
    moved = _bits(wide) + (_chance(wide, step) >> jnp.uint32(16))
    rounded = _floats(moved & jnp.uint32(0xFFFF0000))
    return jnp.where(jnp.isfinite(wide), rounded, wide).astype(jnp.bfloat16)


@op(
    "relax.narrow.round",
    lower=_round,
    facts=_BETWEEN_STEPS,
    cost=per_element(12),
    fusion="broadcast",
)
def round_by_chance(data: TensorType, step: TensorType) -> TensorType:
    """Numbers in bfloat16, rounded up or down by chance, so that the mean is the number itself.

    What decides is a hash of the number and of `step`, an integer: another one rounds otherwise.
    """
    _require_floats(data)
    _require_step(step)
    return with_dtype(data, "bfloat16")


def _first(signed: bool) -> tuple[Any, int]:
    """The upper bits of a float32 for the code 0, and the largest code, which stands for one."""
    largest = 127 if signed else 255
    return np.uint32(_ONE - largest), largest


def _in_blocks(x: Any) -> Any:
    flat = x.reshape(-1)
    return jnp.pad(flat, (0, -flat.shape[0] % BLOCK)).reshape(-1, BLOCK)


def _as_before(blocks: Any, shape: Any, count: Any) -> Any:
    return blocks.reshape(-1)[:count].reshape(shape)


_largest = extreme(jnp.max)


def _encode(data: Any, step: Any, signed: bool) -> Any:
    blocks = _in_blocks(data.astype(jnp.float32))
    scales = _largest(jnp.abs(blocks), axis=1)
    of_block = scales[:, None]
    part = jnp.where(of_block > 0, jnp.abs(blocks) / of_block, jnp.float32(0))
    chance = _chance(blocks, step)
    first, largest = _first(signed)
    upper = (_bits(part) + (chance >> jnp.uint32(32 - _FRACTION))) >> jnp.uint32(_FRACTION)
    code = lax.clamp(first, upper, np.uint32(first + largest)) - first
    least = (first + np.uint32(1) << np.uint32(_FRACTION)).view(np.float32)
    # Below the least number a code may be 0, by chance where it has a sign.
    bound = least * (chance >> jnp.uint32(8)).astype(jnp.float32) * jnp.float32(2**-24)
    small = part > (bound if signed else jnp.float32(0))
    code = jnp.where(part < least, small.astype(jnp.uint32), code)
    if signed:
        code = jnp.where(blocks < 0, -code.astype(jnp.int32), code.astype(jnp.int32))
    codes = code.astype(jnp.int8 if signed else jnp.uint8)
    return _as_before(codes, data.shape, data.size), scales


@op("relax.narrow.encode", lower=_encode, facts=_BETWEEN_STEPS, cost=LOWERED)
def encode(data: TensorType, step: TensorType, signed: bool = True) -> TupleType:
    """Numbers in 8 bits, and the largest absolute value of each block of 256 of them in order.

    The codes are int8, or uint8 unless `signed`, for numbers that are never negative. Codes are
    chosen by chance as `narrow.round` does, so that the mean is the number itself. Those that are
    not `signed` are 0 where the number is 0, and in no other case.
    """
    _require_floats(data)
    _require_step(step)
    codes = with_dtype(data, "int8" if signed else "uint8")
    if data.dims is None:
        return TupleType((codes, TensorType(None, "float32", 1, data.vdevice)))
    blocks = (element_count(data.dims) + (BLOCK - 1)) // BLOCK
    return TupleType((codes, TensorType((blocks,), "float32", vdevice=data.vdevice)))


def _decode(codes: Any, scales: Any) -> Any:
    signed = codes.dtype == jnp.int8
    blocks = _in_blocks(codes)
    first, _ = _first(signed)
    size = jnp.abs(blocks.astype(jnp.int32)).astype(jnp.uint32)
    part = _floats((size + first) << jnp.uint32(_FRACTION))
    part = jnp.where(size > 0, part, jnp.float32(0)) * scales[:, None]
    value = jnp.where(blocks < 0, -part, part) if signed else part
    return _as_before(value, codes.shape, codes.size)


@op("relax.narrow.decode", lower=_decode, facts=_BETWEEN_STEPS, cost=LOWERED)
def decode(codes: TensorType, scales: TensorType) -> TensorType:
    """The numbers in float32 that the codes of `narrow.encode` stand for, by the scales."""
    if codes.dtype not in (None, "int8", "uint8"):
        raise OpError(f"`codes` must be int8 or uint8, found dtype {codes.dtype}")
    if scales.dtype not in (None, "float32") or scales.ndim not in (-1, 1):
        raise OpError(f"`scales` must be float32 of one dimension, found {scales}")
    if codes.dims is not None and scales.dims is not None:
        blocks = (element_count(codes.dims) + (BLOCK - 1)) // BLOCK
        if can_prove_different(blocks, scales.dims[0]):
            raise OpError(
                f"`scales` must have one number for each block of {BLOCK}, {blocks}, found "
                f"{scales.dims[0]}"
            )
    return with_dtype(codes, "float32")
