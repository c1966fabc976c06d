"""JAX's gather and scatter by NumPy: windows of an array that begin where integers say."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode


@dataclass(frozen=True)
class _Windows:
    """Where windows begin in an array, and which of its dimensions they leave out.

    A window leaves out what it has one place of only: dimensions that are collapsed, and those
    that go along with a dimension of the indices, the batched ones.
    """

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    collapsed: tuple[int, ...]
    batched: tuple[int, ...]
    starts: dict[int, Any]  # by dimension; each array is of the shape of `count`
    count: tuple[int, ...]

    @property
    def kept(self) -> list[int]:
        return [d for d in range(len(self.shape)) if d not in (*self.collapsed, *self.batched)]

    def are_inside(self) -> Any:
        """Which windows lie inside the array."""
        inside = np.ones(self.count, bool)
        for dim, start in self.starts.items():
            inside &= (start >= 0) & (start <= self.shape[dim] - self.sizes[dim])
        return inside

    def places(self) -> tuple[Any, ...]:
        """An index of the array for each place of each window, moved inside if it is not."""
        kept, found = self.kept, []
        for dim, (whole, size) in enumerate(zip(self.shape, self.sizes, strict=True)):
            start = np.clip(self.starts.get(dim, np.zeros(self.count, int)), 0, whole - size)
            index = start.reshape(self.count + (1,) * len(kept))
            if dim in kept:
                behind = len(kept) - 1 - kept.index(dim)
                index = index + np.arange(size).reshape((-1,) + (1,) * behind)
            found.append(index)
        return tuple(np.broadcast_arrays(*found)) if found else ()


def _windows(
    shape: tuple[int, ...],
    sizes: tuple[int, ...],
    collapsed: tuple[int, ...],
    batched: tuple[int, ...],
    indices: Any,
    dims: tuple[int, ...],
    along: tuple[int, ...],
) -> _Windows:
    """Those that begin at `indices`, of which the last dimension goes through `dims`.

    Each of the batched dimensions goes along with one of the indices, `along`.
    """
    indices = indices.astype("int64")
    count = indices.shape[:-1]
    starts = {dim: indices[..., place] for place, dim in enumerate(dims)}
    for dim, axis in zip(batched, along, strict=True):
        starts[dim] = np.indices(count)[axis]
    return _Windows(shape, sizes, collapsed, batched, starts, count)


def gather(
    x: Any,
    indices: Any,
    dimension_numbers: Any,
    slice_sizes: Any,
    mode: GatherScatterMode,
    fill_value: Any,
    **params: Any,
) -> Any:
    numbers = dimension_numbers
    windows = _windows(
        x.shape,
        tuple(slice_sizes),
        numbers.collapsed_slice_dims,
        numbers.operand_batching_dims,
        indices,
        numbers.start_index_map,
        numbers.start_indices_batching_dims,
    )
    found = x[windows.places()]
    if mode == GatherScatterMode.FILL_OR_DROP:
        inside = windows.are_inside().reshape(windows.count + (1,) * len(windows.kept))
        found = np.where(inside, found, _filling(x.dtype) if fill_value is None else fill_value)
    behind = range(len(windows.count), found.ndim)
    return np.moveaxis(found, list(behind), numbers.offset_dims)


def _filling(dtype: Any) -> Any:
    """What JAX fills with where nothing is said."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
    return True if dtype.kind == "b" else np.nan


def scatter(combine: np.ufunc | None) -> Callable[..., Any]:
    """The rule of a scatter that combines an element with its update: of None, it replaces it."""

    def rule(
        x: Any,
        indices: Any,
        updates: Any,
        dimension_numbers: Any,
        mode: GatherScatterMode,
        **params: Any,
    ) -> Any:
        numbers = dimension_numbers
        left_out = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
        own = iter(updates.shape[axis] for axis in numbers.update_window_dims)
        windows = _windows(
            x.shape,
            tuple(1 if dim in left_out else next(own) for dim in range(x.ndim)),
            numbers.inserted_window_dims,
            numbers.operand_batching_dims,
            indices,
            numbers.scatter_dims_to_operand_dims,
            numbers.scatter_indices_batching_dims,
        )
        first = len(windows.count)
        behind = range(first, first + len(windows.kept))
        values = np.moveaxis(updates, numbers.update_window_dims, list(behind))
        clips = mode == GatherScatterMode.CLIP
        inside = np.ones(windows.count, bool) if clips else windows.are_inside()
        places = tuple(place[inside] for place in windows.places())
        result = np.array(x)
        if combine is None:
            result[places] = values[inside]
        else:
            combine.at(result, places, values[inside])
        return result

    return rule
