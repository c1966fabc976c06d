"""Layouts, the names of a tensor's axes by letters, and windows that slide along spatial axes."""

from collections.abc import Sequence
from typing import Any

from jax import lax

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr
from relaxjax.ir.types import TensorType
from relaxjax.ops.conversions import as_ints
from relaxjax.ops.declare import OpError
from relaxjax.ops.emit import call

# The spatial axes of tensors by their number, as layouts name them.
SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def check_layout(name: str, layout: str, letters: str) -> None:
    """A layout that has not each letter once is an error."""
    if sorted(layout) != sorted(letters):
        _check_unpacked(name, layout)
        raise OpError(f'`{name}` must have each letter of "{letters}" once, found "{layout}"')


def spatial_axes(name: str, layout: str) -> int:
    """How many axes windows slide along, in a layout of images."""
    _check_unpacked(name, layout)
    count = len(layout) - 2
    if count not in SPATIAL:
        raise OpError(f'`{name}` must be like "NCHW", found "{layout}"')
    return count


def _check_unpacked(name: str, layout: str) -> None:
    """Channels in packets are for kernels that are written by hand; XLA chooses layouts itself."""
    if not any(map(str.isdigit, layout)):
        return
    plain = "".join(filter(str.isupper, layout))
    raise OpError(
        f'`{name}` must have each axis once, but "{layout}" has channels in packets: bring the '
        f'tensors into "{plain}" by R.permute_dims and R.reshape, or give the model as it was '
        "before TVM's ConvertLayout"
    )


def by_letter(values: Sequence[Any], layout: str) -> dict[str, Any]:
    """Values, one for each axis, by the letters of the axes."""
    return dict(zip(layout, values, strict=True))


def in_layout(values: dict[str, Any], layout: str) -> tuple[Any, ...]:
    """Values by letter in the order of a layout."""
    return tuple(values[letter] for letter in layout)


def relabelled(layout: str, **letters: str) -> str:
    """A layout with other letters for some of its axes."""
    return "".join(letters.get(letter, letter) for letter in layout)


def permutation(source: str, target: str) -> list[int]:
    """The axes of `source` in the order in which `target` has them."""
    return [source.index(letter) for letter in target]


def numbered(data: str, kernel: str, out: str) -> lax.ConvDimensionNumbers:
    """The layouts of a convolution for XLA, with the spatial axes in the order of `SPATIAL`.

    From letters JAX takes strides and padding to be in the order of the kernel's axes.
    """
    spatial = SPATIAL[len(data) - 2]
    images = tuple(tuple(permutation(layout, f"NC{spatial}")) for layout in (data, out))
    return lax.ConvDimensionNumbers(
        images[0], tuple(permutation(kernel, f"OI{spatial}")), images[1]
    )


def transposed(x: Expr, source: str, target: str) -> Expr:
    """A tensor brought from one layout into another."""
    return x if source == target else call("permute_dims", x, permutation(source, target))


def per_axis(name: str, value: Any, count: int) -> tuple[int, ...]:
    """A value for each spatial axis: one for all of them, or one each."""
    values = as_ints(value)
    values = values * count if len(values) == 1 else values
    if len(values) != count:
        raise OpError(f"`{name}` must have 1 or {count} values, found {list(values)}")
    return values


def both_sides(padding: Any, count: int) -> tuple[int, ...]:
    """Padding before each spatial axis, then after each; one value or one for each may be given."""
    values = as_ints(padding)
    if len(values) == 1:
        values = values * count
    if len(values) == count:
        values = values * 2
    if len(values) != 2 * count:
        raise OpError(f"`padding` must have 1, {count} or {2 * count} values, found {list(values)}")
    return values


def require_positive(**values: Sequence[Dim]) -> None:
    """Values that are 0 or less are an error."""
    for name, items in values.items():
        if any(isinstance(item, int) and item < 1 for item in items):
            raise OpError(f"`{name}` must be positive, found {list(items)}")


def window_span(size: Any, dilation: Any) -> Any:
    """How many elements a window reaches over."""
    return dilation * (size - 1) + 1


def require_rank(name: str, ty: TensorType, layout: str) -> None:
    if ty.ndim not in (-1, len(layout)):
        raise OpError(
            f'`{name}` must have {len(layout)} dimensions, as its layout "{layout}", '
            f"found {ty.ndim}"
        )


def pad_pairs(padding: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Padding by axis: before and after."""
    half = len(padding) // 2
    return list(zip(padding[:half], padding[half:], strict=True))
