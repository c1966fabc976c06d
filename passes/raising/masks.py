"""Masks of attention: which keys (columns) queries (rows) see."""

from collections.abc import Callable, Mapping
from operator import add, mul, sub
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np

from relaxjax.ir.expr import Constant
from relaxjax.ir.tensor_types import known_dims, known_dtype
from relaxjax.ir.types import is_float

from .reading import Reading, View

_Range: TypeAlias = tuple[float, float]  # the least number, and the largest

_COUNTING = ("int32", "uint32", "int64", "uint64")  # they count any sequence without coming round


def bare(mask: View, reading: Reading) -> View:
    """A mask without what lays it along further axes, or takes it together with all."""
    while True:
        mask = reading.peeled(mask)
        turned = reading.call(mask.expr, "relax.permute_dims")
        both = reading.args(mask, "and_")
        if turned is not None and turned.attrs["axes"] is not None:
            places = turned.attrs["axes"]
            axes = (mask.axes[places.index(axis)] for axis in range(len(places)))
            mask = View(turned.args[0], tuple(axes))
            continue
        shown = [one for one in both or () if reading.number(one) != 1]
        if both is None or len(shown) != 1:
            return mask
        mask = shown[0]


def sees(mask: View, rows: int, columns: int, reading: Reading) -> str | None:
    """What a mask lets be seen: "all", or "causal", where no row sees a later column."""
    mask = bare(mask, reading)
    if reading.number(mask) == 1:
        return "all"
    if isinstance(mask.expr, Constant):
        table = _table(mask.expr.data, mask.axes, rows, columns)
        is_lower = table is not None and np.array_equal(table, np.tril(np.ones(table.shape, bool)))
        return "causal" if is_lower else None
    both = reading.args(mask, "and_")
    if both is not None:
        found = {sees(one, rows, columns, reading) for one in both}
        return None if None in found else "causal" if "causal" in found else "all"
    whole = _whole(mask, reading)
    if whole is not None:
        return sees(whole, rows, columns, reading)
    chosen = reading.args(mask, "select_n")
    if chosen is not None and len(chosen) == 3:
        if reading.number(chosen[1]) == 0 and reading.number(chosen[2]) == 1:
            return sees(chosen[0], rows, columns, reading)
        return None
    return _compared(mask, rows, columns, reading)


def _whole(mask: View, reading: Reading) -> View | None:
    """Numbers of which a mask shows where they are not 0."""
    if known_dtype(mask.expr) != "bool":
        return None
    different = reading.with_number(mask, "ne")
    if different is not None:
        return different[0] if different[1] == 0 else None
    converted = reading.args(mask, "convert_element_type")
    return None if converted is None else converted[0]


def _compared(mask: View, rows: int, columns: int, reading: Reading) -> str | None:
    """Whether a mask says that rows count from the same place as columns, and are not before."""
    earlier, later = reading.args(mask, "le"), reading.args(mask, "ge")
    pair = earlier[::-1] if earlier is not None else later
    if pair is None:
        return None
    row, column = (_counted(view, reading) for view in pair)
    if row is None or column is None or row[1] != column[1]:
        return None
    return "causal" if (row[0], column[0]) == (rows, columns) else None


def _table(
    data: np.ndarray, axes: tuple[int | None, ...], rows: int, columns: int
) -> np.ndarray | None:
    """The numbers by rows and columns, if they are the same along all other axes."""
    if rows not in axes or columns not in axes:
        return None
    kept = axes.index(rows), axes.index(columns)
    if 0 in data.shape:
        return None
    one = data[tuple(slice(None) if axis in kept else slice(1) for axis in range(data.ndim))]
    if not (data == one).all():
        return None
    table = one.squeeze(tuple(axis for axis in range(data.ndim) if axis not in kept))
    return table if kept[0] < kept[1] else table.T


def _counted(view: View, reading: Reading) -> tuple[int, float] | None:
    """The axis along which numbers count up, and from where."""
    moved = reading.with_number(view, "add")
    view, start = (view, 0.0) if moved is None else moved
    view = reading.peeled(view)
    count = reading.call(view.expr, "iota")
    if count is None or known_dtype(count) not in _COUNTING:
        return None
    axis = view.axes[count.attrs["dimension"]]
    return None if axis is None else (axis, start)


def is_finite(view: View, reading: Reading) -> bool:
    """Whether numbers that are added to scores are seen to be finite, as those for a mask are."""
    dtype = known_dtype(view.expr)
    found = _range(view, reading) if is_float(dtype) else None
    if found is None:
        return False
    largest = jnp.finfo(dtype).max  # type: ignore[no-untyped-call]  # JAX has no types for it
    return max(map(abs, found)) <= float(largest)


def _range(view: View, reading: Reading) -> _Range | None:
    """Between which numbers those of a tensor lie; None where that is not seen."""
    view = reading.unturned(view)
    dims = known_dims(view.expr)
    if isinstance(view.expr, Constant):
        data = view.expr.data.astype("float64")
        return (float(data.min()), float(data.max())) if data.size else None
    if known_dtype(view.expr) == "bool":
        return 0.0, 1.0
    count = reading.call(view.expr, "iota")
    if count is not None and dims is not None:
        last = dims[count.attrs["dimension"]]
        return (0.0, float(last)) if isinstance(last, int) else None
    for name, made in _RANGES.items():
        args = reading.args(view, name)
        parts = [_range(arg, reading) for arg in (args or ())[name == "select_n" :]]
        if parts and None not in parts:
            return made(*(part for part in parts if part is not None))
    return None


def _by_ends(combine: Callable[[float, float], float]) -> Callable[[_Range, _Range], _Range]:
    """The range of what is largest and least where its arguments are."""

    def made(one: _Range, other: _Range) -> _Range:
        ends = [combine(a, b) for a in one for b in other]
        return min(ends), max(ends)

    return made


def _union(*parts: _Range) -> _Range:
    return min(low for low, _ in parts), max(high for _, high in parts)


_RANGES: Mapping[str, Callable[..., _Range]] = {
    "select_n": _union,
    "convert_element_type": _union,
    "neg": lambda part: (-part[1], -part[0]),
    "abs": lambda part: (0.0, max(map(abs, part))),
    "add": _by_ends(add),
    "sub": _by_ends(sub),
    "mul": _by_ends(mul),
}
