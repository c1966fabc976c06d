"""Rows of a table that are looked up, as `jax.vmap` reads them."""

from typing import Any

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import known_dims, static_dims
from relaxjax.passes.simplification.tensors import fill

from .reading import Reading, raises


@raises("lax.gather")
def row_lookup(call: Call, reading: Reading) -> Expr | None:
    """Whole rows by their number and zeros, which is what `jax.vmap` makes of `table[i]`.

    They are looked up by their number alone, as by `table[ids]`: the gradient is then known to be
    rows, and the axis along which each is one is not there.
    """
    table, places = call.args
    dims, out = known_dims(table), static_dims(call.ty)
    numbers: Any = call.attrs["dimension_numbers"]["GatherDimensionNumbers"]
    everywhere = numbers["start_index_map"] == tuple(range(len(dims or ())))
    chosen = numbers["collapsed_slice_dims"], numbers["operand_batching_dims"]
    if not dims or len(dims) < 2 or out is None or not everywhere or chosen != ((), ()):
        return None
    if call.attrs["slice_sizes"] != (1, *dims[1:]):
        return None
    rows = _before_zeros(places, len(dims), reading)
    if rows is None:
        return None
    _, *others = numbers["offset_dims"]
    by_number = Attrs(
        numbers,
        offset_dims=[axis - 1 for axis in others],
        collapsed_slice_dims=[0],
        start_index_map=[0],
    )
    attrs = {**call.attrs, "dimension_numbers": {"GatherDimensionNumbers": by_number}}
    found = get_op("lax.gather")(table, rows, **attrs)
    return get_op("lax.reshape")(found, new_sizes=list(out))


def _before_zeros(places: Expr, count: int, reading: Reading) -> Expr | None:
    """The first of so many numbers of each place, if the others are zeros."""
    joined = reading.call(places, "concatenate")
    shape = known_dims(places)
    if joined is None or shape is None or joined.attrs["dimension"] != len(shape) - 1:
        return None
    first, *others = joined.args
    if known_dims(first) != (*shape[:-1], 1) or shape[-1] != count:
        return None
    are_zeros = all(fill(part, reading.known) == 0 for part in others)
    return first if others and are_zeros else None
