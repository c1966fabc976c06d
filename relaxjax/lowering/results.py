"""Whether what an operator's lowering gives is of the type that the operator says it has."""

from typing import Any

from relaxjax.ir.expr import Call
from relaxjax.ir.types import TensorType, TupleType, Type

from .arguments import Symbols, narrow


def misfit(call: Call, value: Any, symbols: Symbols) -> str | None:
    """What a lowering gives in the place of a value of the call's type, and the type; None if it
    fits, as far as the sizes in the type are known.

    Where nobody looked, JAX would repeat what has the size one in whatever comes after.
    """
    if _fits(value, call.ty, symbols):
        return None
    found = described_value(value)
    return f"the lowering of {call.op} gives a result of type {found}, but its type is {call.ty}"


def _fits(value: Any, ty: Type | None, symbols: Symbols) -> bool:
    match ty:
        case TupleType(fields=fields):
            is_one = isinstance(value, tuple | list) and len(value) == len(fields)
            return is_one and all(
                _fits(item, field, symbols) for item, field in zip(value, fields, strict=True)
            )
        case TensorType(dtype=dtype, dims=dims, ndim=ndim) if hasattr(value, "shape"):
            known = [symbols.value(dim) if symbols.knows(dim) else None for dim in dims or ()]
            return (
                ndim in (-1, len(value.shape))
                and (dtype is None or str(value.dtype) in (dtype, narrow(dtype)))
                and all(map(_may_be, known, value.shape))
            )
    return True


def _may_be(known: Any, found: Any) -> bool:
    """Whether a size is as it should be; those of exported programs may be no numbers."""
    return known == found or not (isinstance(known, int) and isinstance(found, int))


def described_value(value: Any) -> str:
    """A value as its type is written."""
    if isinstance(value, tuple | list):
        return f"R.Tuple({', '.join(map(described_value, value))})"
    if hasattr(value, "shape"):
        return f'R.Tensor({tuple(value.shape)}, dtype="{value.dtype}")'
    return f"`{value!r}`"
