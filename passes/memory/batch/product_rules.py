"""Where samples are in products, convolutions, and what is picked from and added to tables."""

from collections.abc import Sequence
from dataclasses import replace

from relaxjax.ir.expr import Call

from .kinds import TOTAL, WHOLE, Along, Batch, Kind, Taken, dims_of


def product(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    """Samples are summed over, or along an axis that the product has: one sample at a time."""
    summed, batches = call.attrs["dimension_numbers"]
    side = 0 if isinstance(kinds[0], Along) else 1
    kind, other = kinds[side], kinds[1 - side]
    assert isinstance(kind, Along)
    for axes in (summed, batches):
        if kind.axis in axes[side]:
            place = list(axes[side]).index(kind.axis)
            partner = replace(kind, axis=axes[1 - side][place])
            taken = (kind, partner) if side == 0 else (partner, kind)
            return Taken(taken, TOTAL if axes is summed else replace(kind, axis=place))
    if other is not WHOLE:
        return None
    free = _free(call, 0), _free(call, 1)
    axis = len(batches[0]) + side * len(free[0]) + free[side].index(kind.axis)
    return Taken(tuple(kinds), replace(kind, axis=axis))


def _free(call: Call, side: int) -> list[int]:
    """The axes of a factor that the other one has none of."""
    summed, batches = call.attrs["dimension_numbers"]
    rank = len(dims_of(call.args[side]))
    return [axis for axis in range(rank) if axis not in (*summed[side], *batches[side])]


def convolution(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    """Samples are images, or channels that are summed over, as in the gradient of a kernel."""
    numbers = call.attrs["dimension_numbers"]["ConvDimensionNumbers"]
    image, kernel, out = (numbers[name] for name in ("lhs_spec", "rhs_spec", "out_spec"))
    one_group = call.attrs["feature_group_count"] == 1
    is_plain = one_group and call.attrs["batch_group_count"] == 1
    data, weights = kinds
    if isinstance(data, Along):
        if data.axis == image[0] and weights is WHOLE and call.attrs["batch_group_count"] == 1:
            return Taken((data, WHOLE), replace(data, axis=out[0]))
        if data.axis == image[1] and one_group:
            return Taken((data, replace(data, axis=kernel[1])), TOTAL)
        return None
    assert isinstance(weights, Along)
    if weights.axis == kernel[1] and one_group:
        return Taken((replace(weights, axis=image[1]), weights), TOTAL)
    if weights.axis == kernel[0] and is_plain:
        return Taken((WHOLE, weights), replace(weights, axis=out[1]))
    return None


def gather(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    """Samples have places of their own, in their own table or in one that all share."""
    numbers = call.attrs["dimension_numbers"]["GatherDimensionNumbers"]
    own, of_places = numbers["operand_batching_dims"], numbers["start_indices_batching_dims"]
    offsets = list(numbers["offset_dims"])
    table, places = kinds
    if isinstance(table, Along) and table.axis in own:
        places = replace(table, axis=of_places[list(own).index(table.axis)])
    if isinstance(places, Along):
        rank = len(dims_of(call))
        others = [axis for axis in range(rank) if axis not in offsets]
        if places.axis >= len(others):
            return None
        wanted: Kind = WHOLE
        if places.axis in of_places:
            wanted = replace(places, axis=own[list(of_places).index(places.axis)])
        return Taken((wanted, places), replace(places, axis=others[places.axis]))
    assert isinstance(table, Along)
    sizes = call.attrs["slice_sizes"]
    dropped = (*numbers["collapsed_slice_dims"], *own)
    if (
        places is not WHOLE
        or table.axis in (*dropped, *numbers["start_index_map"])
        or sizes[table.axis] != dims_of(call.args[0])[table.axis]
    ):
        return None
    kept = [axis for axis in range(len(sizes)) if axis not in dropped]
    result = replace(table, axis=offsets[kept.index(table.axis)])
    return Taken(tuple(kinds), result, {"slice_sizes": list(batch.part_of(sizes, table))})


def scattered(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    """Numbers that are added at places, of each sample in its own table or in one that they share.

    What is added to a table that is shared is a sum, if nothing is in there.
    """
    numbers = call.attrs["dimension_numbers"]["ScatterDimensionNumbers"]
    own, of_places = numbers["operand_batching_dims"], numbers["scatter_indices_batching_dims"]
    windows = list(numbers["update_window_dims"])
    table, places, updates = kinds
    others = [axis for axis in range(len(dims_of(call.args[2]))) if axis not in windows]
    dropped = (*numbers["inserted_window_dims"], *own)
    kept = [axis for axis in range(len(dims_of(call.args[0]))) if axis not in dropped]
    if isinstance(table, Along):
        if table.axis in own:
            places = replace(table, axis=of_places[list(own).index(table.axis)])
        elif table.axis in kept:
            updates = replace(table, axis=windows[kept.index(table.axis)])
    if isinstance(updates, Along) and updates.axis in windows:
        axis = kept[windows.index(updates.axis)]
        sizes = dims_of(call.args[0])[axis], dims_of(call.args[2])[updates.axis]
        is_moved = axis in numbers["scatter_dims_to_operand_dims"] or sizes[0] != sizes[1]
        if places is not WHOLE or is_moved:
            return None
        wanted = replace(updates, axis=axis)
        return Taken((wanted, WHOLE, updates), wanted)
    if isinstance(updates, Along) and not isinstance(places, Along):
        places = replace(updates, axis=others.index(updates.axis))
    if not isinstance(places, Along) or places.axis >= len(others):
        return None
    updates = replace(places, axis=others[places.axis])
    if places.axis in of_places:
        wanted = replace(places, axis=own[list(of_places).index(places.axis)])
        return Taken((wanted, places, updates), wanted)
    return Taken((TOTAL, places, updates), TOTAL)


def written(call: Call, kinds: Sequence[Kind], batch: Batch) -> Taken | None:
    """Numbers that replace others: one sample may not replace those of another."""
    taken = scattered(call, kinds, batch)
    return None if taken is None or taken.result is TOTAL else taken
