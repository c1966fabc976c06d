"""Layouts written as index maps: axes in another order, cut into tiles, joined again.

Such a map takes the place along each axis apart into digits, as clocks take time apart into hours
and minutes, and each axis of the result is made of some of these digits. So the tensor is padded to
whole tiles, reshaped to an axis for each digit, transposed, and reshaped to the result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import jax.numpy as jnp

from relaxjax.ir.dims import Dim, DimExpr, DimOp, SymbolicVar, can_prove_equal
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.index_map import IndexMap, index_axes, index_map, index_map_over
from relaxjax.ir.tensor_types import known_dtype
from relaxjax.ir.types import TensorType, is_float
from relaxjax.ir.wording import counted

from .cost_rules import MOVES
from .declare import OpError, op
from .emit import call, dims_of
from .shape_layouts import renamed
from .shapes import at_most, element_count


@dataclass(frozen=True, slots=True)
class Digit:
    """`place // stride % base` along an axis, `scale` times which goes to an axis of the result.

    The highest digit of an axis has no base: it counts as far as the axis is long.
    """

    axis: int
    stride: int
    base: int | None
    output: int
    scale: int

    def extent(self, dims: Sequence[Any]) -> Any:
        """How many values the digit has."""
        if self.base is not None:
            return self.base
        length = dims[self.axis]
        return length if self.stride == 1 else (length + (self.stride - 1)) // self.stride


@lru_cache(maxsize=256)
def _digits(layout: IndexMap) -> tuple[Digit, ...]:
    """The digits of a map: by axis, the highest first."""
    found = [
        _digit(layout, atom, output, scale)
        for output, place in enumerate(layout.outputs)
        for atom, scale in _terms(layout, place)
    ]
    ordered = sorted(found, key=lambda digit: (digit.axis, -digit.stride))
    for axis, name in enumerate(layout.names):
        _check_strides(layout, name, [digit for digit in ordered if digit.axis == axis])
    return tuple(ordered)


def _terms(layout: IndexMap, place: Dim) -> list[tuple[Dim, int]]:
    """A sum of digits as the digits and their scales."""
    if place == 0:
        return []
    if not isinstance(place, DimExpr):
        return [(place, 1)]
    terms = [(factors, scale) for factors, scale in place.terms]
    if any(len(factors) != 1 or factors[0][1] != 1 or scale < 1 for factors, scale in terms):
        raise _no_digit(layout)
    return [(factors[0][0], scale) for factors, scale in terms]


def _digit(layout: IndexMap, atom: Dim, output: int, scale: int) -> Digit:
    axes = index_axes(layout.ndim)
    match atom:
        case SymbolicVar():
            return Digit(axes.index(atom), 1, None, output, scale)
        case DimOp("//", SymbolicVar() as var, int() as stride):
            return Digit(axes.index(var), stride, None, output, scale)
        case DimOp("%", SymbolicVar() as var, int() as base):
            return Digit(axes.index(var), 1, base, output, scale)
        case DimOp("%", DimOp("//", SymbolicVar() as var, int() as stride), int() as base):
            return Digit(axes.index(var), stride, base, output, scale)
        case DimOp("//", DimOp("%", SymbolicVar() as var, int() as whole), int() as stride):
            if whole % stride == 0:
                return Digit(axes.index(var), stride, whole // stride, output, scale)
    raise _no_digit(layout)


def _no_digit(layout: IndexMap) -> OpError:
    return OpError(
        "`index_map` must give sums of places along the axes, or of parts of them such as "
        f"`c // 4` and `c % 4`, but it is {layout}"
    )


def _check_strides(layout: IndexMap, name: str, digits: Sequence[Digit]) -> None:
    """Each digit must count what the ones below it leave over."""
    expected = 1
    for position, digit in enumerate(reversed(digits), start=1):
        if digit.stride != expected or (digit.base is None and position < len(digits)):
            raise OpError(
                f"`index_map` must take each element to a place of its own, but {layout} does not: "
                f"the parts of `{name}` must be like `{name} // 8`, `{name} // 4 % 2`, `{name} % 4`"
            )
        expected *= digit.base or 1


def _check_shape(layout: IndexMap, dims: Sequence[Dim]) -> None:
    """The digits must cover each axis, and fill each axis of the result without gaps."""
    digits = _digits(layout)
    for axis, name in enumerate(layout.names):
        top = next((digit for digit in digits if digit.axis == axis), None)
        reach = 1 if top is None else top.base and top.stride * top.base
        if reach is not None and not at_most(dims[axis], reach):
            raise OpError(
                f"`index_map` must take each element to a place of its own, but {layout} tells "
                f"only {reach} places along `{name}` apart, which has {dims[axis]}"
            )
    for output in range(len(layout.outputs)):
        size: Dim = 1
        for digit in reversed(_of_output(digits, output)):
            if not can_prove_equal(size, digit.scale):
                raise OpError(
                    f"`index_map` must fill the result without gaps, but in axis {output} of "
                    f"{layout} the elements of `{layout.names[digit.axis]}` are {digit.scale} "
                    f"places apart, where {size} places lie between them"
                )
            size = size * digit.extent(dims)


def _of_output(digits: Sequence[Digit], output: int) -> list[Digit]:
    """The digits that an axis of the result is made of, the highest first."""
    found = [digit for digit in digits if digit.output == output]
    return sorted(found, key=lambda digit: -digit.scale)


def transformed_shape(layout: IndexMap, dims: Sequence[Any]) -> list[Any]:
    """The shape of the result."""
    digits = _digits(layout)
    return [
        element_count([digit.extent(dims) for digit in _of_output(digits, output)])
        for output in range(len(layout.outputs))
    ]


def _layout_transform(x: Any, index_map: IndexMap, pad_value: float | None) -> Any:
    digits = _digits(index_map)
    tops = {digit.axis: digit for digit in reversed(digits)}
    whole = [tops[a].stride * tops[a].extent(x.shape) if a in tops else 1 for a in range(x.ndim)]
    pads = [(0, after - before) for after, before in zip(whole, x.shape, strict=True)]
    if pads != [(0, 0)] * x.ndim:
        x = jnp.pad(x, pads, constant_values=jnp.asarray(pad_value or 0, x.dtype))
    apart = x.reshape([digit.extent(x.shape) for digit in digits])
    order = [d for o in range(len(index_map.outputs)) for d in _of_output(digits, o)]
    moved = jnp.transpose(apart, [digits.index(digit) for digit in order])
    return moved.reshape(transformed_shape(index_map, x.shape))


def inverse_map(layout: IndexMap, dims: Sequence[Dim]) -> IndexMap:
    """The map back, of a tensor of shape `dims` that is padded to whole tiles."""
    digits = _digits(layout)
    axes = index_axes(len(layout.outputs))
    places: list[Dim] = [0] * layout.ndim
    for output, axis in enumerate(axes):
        for position, digit in enumerate(_of_output(digits, output)):
            part = axis // digit.scale
            part = part % digit.extent(dims) if position else part
            places[digit.axis] = places[digit.axis] + part * digit.stride
    return index_map_over([f"i{number}" for number in range(len(axes))], axes, places)


def _gradient(g: Expr, y: Expr, x: Expr, index_map: IndexMap, pad_value: float | None) -> Expr:
    """The layout of `x` again, without what was padded."""
    dims = dims_of(x)
    back = inverse_map(index_map, dims)
    whole = transformed_shape(back, dims_of(y))
    g = call("layout_transform", g, back)
    cut = [axis for axis, size in enumerate(whole) if not can_prove_equal(size, dims[axis])]
    if not cut:
        return g
    return call("strided_slice", g, cut, [0] * len(cut), [dims[axis] for axis in cut])


def _axes(call: Call, ndim: int) -> list[int] | None:
    """The axes in the order in which a map puts them, where it only does that."""
    axes, outputs = index_axes(ndim), call.attrs["index_map"].outputs
    return [axes.index(place) for place in outputs] if set(outputs) == set(axes) else None


def _complete(x: Expr, pad_value: float | None, **rest: Any) -> Mapping[str, Any]:
    """The padding as a number of the tensor's kind."""
    dtype = known_dtype(x)
    whole = pad_value is not None and pad_value % 1 == 0
    if dtype is None or is_float(dtype) or not whole:
        return {}
    return {"pad_value": int(pad_value or 0)}


@op(
    "relax.layout_transform",
    complete=_complete,
    layout=renamed(_axes),
    lower=_layout_transform,
    gradient=_gradient,
    precision="follow",
    fusion="injective",
    cost=MOVES,
)
def layout_transform(
    x: TensorType, index_map: Annotated[IndexMap, index_map], pad_value: float | None = None
) -> TensorType:
    """`x` in another layout: y[index_map(i)] = x[i], and `pad_value` where no element of x goes.

    The map is a function, `lambda n, c: (n, c // 4, c % 4)`, or the layouts before and after,
    "NCHW -> NCHW4c". Where an axis is no whole number of tiles, the last one is padded, with 0
    unless `pad_value` says otherwise.
    """
    if x.ndim not in (-1, index_map.ndim):
        raise OpError(
            f"`index_map` takes {index_map.ndim} places, but `x` has {counted(x.ndim, 'dimension')}"
        )
    if pad_value is not None and not is_float(x.dtype or "float") and pad_value % 1:
        raise OpError(f"`pad_value` must be an integer for an `x` of {x.dtype}, found {pad_value}")
    _digits(index_map)
    if x.dims is None:
        return TensorType(None, x.dtype, len(index_map.outputs), x.vdevice)
    _check_shape(index_map, x.dims)
    return TensorType(transformed_shape(index_map, x.dims), x.dtype, vdevice=x.vdevice)
