"""Scaling rules that families of operators share: how factors along an axis pass through them."""

from collections.abc import Mapping, Sequence

from relaxjax.ir.expr import Call
from relaxjax.ir.op import Axis, ScalingRule
from relaxjax.ir.types import TensorType


def _of_only_argument(call: Call, axis: Axis) -> list[Mapping[int, Axis]]:
    return [{0: axis}]


def _same_axis(call: Call, place: int, axis: Axis) -> tuple[Axis] | None:
    return (axis,) if place == 0 else None


# f(s x) = s f(x), for every s, or for those that are not negative.
LINEAR = ScalingRule(_of_only_argument, _same_axis)
HOMOGENEOUS = ScalingRule(_of_only_argument, _same_axis, nonnegative=True)
# s (x + y) = s x + s y.
SUM = ScalingRule(lambda call, axis: [{0: axis, 1: axis}])
# s (x y) = (s x) y = x (s y).
PRODUCT = ScalingRule(lambda call, axis: [{0: axis}, {1: axis}])
QUOTIENT = ScalingRule(_of_only_argument)


def _axis_of(layout: str, letter: str) -> int:
    return layout.index(letter) - len(layout)


def _letter(layout: str, axis: Axis) -> str | None:
    return None if axis is None else layout[axis]


def pooled(nonnegative: bool) -> ScalingRule:
    """Of pooling: the axes that no window slides along keep their factors."""

    def to_arguments(call: Call, axis: Axis) -> Sequence[Mapping[int, Axis]]:
        letter = _letter(call.attrs["out_layout"], axis)
        if axis is None or letter is None:
            return [{0: None}]
        return [{0: _axis_of(call.attrs["layout"], letter)}] if letter in "NC" else []

    def to_result(call: Call, place: int, axis: Axis) -> tuple[Axis] | None:
        letter = _letter(call.attrs["layout"], axis)
        if letter is None:
            return (None,)
        return (_axis_of(call.attrs["out_layout"], letter),) if letter in "NC" else None

    return ScalingRule(to_arguments, to_result, nonnegative=nonnegative)


def convolution_scaling(transposed: bool) -> ScalingRule:
    """Channels that come out are the kernel's outputs, channels that go in its inputs.

    Of groups, each kernel sees the channels of its own group only, so their factors belong to the
    kernel's inputs only without groups, and with one channel a group to its outputs.
    """

    def to_arguments(call: Call, axis: Axis) -> Sequence[Mapping[int, Axis]]:
        if axis is None:
            return [{1: None}, {0: None}]
        if _letter(call.attrs["out_layout"], axis) != "C":
            return []
        if transposed and call.attrs["groups"] != 1:
            return []
        return [{1: _axis_of(call.attrs["kernel_layout"], "O")}]

    def to_partner(call: Call, place: int, axis: Axis) -> tuple[int, Axis] | None:
        if place != 0 or (axis is not None and _letter(call.attrs["data_layout"], axis) != "C"):
            return None
        if axis is None:
            return (1, None)
        kernel, groups = call.attrs["kernel_layout"], call.attrs["groups"]
        if groups == 1 or transposed:
            return (1, _axis_of(kernel, "I"))
        ty = call.args[1].ty
        dims = ty.dims if isinstance(ty, TensorType) else None
        depthwise = dims is not None and dims[kernel.index("O")] == groups
        return (1, _axis_of(kernel, "O")) if depthwise else None

    return ScalingRule(to_arguments, to_partner=to_partner)


def _product_to_arguments(call: Call, axis: Axis) -> Sequence[Mapping[int, Axis]]:
    left, right = (arg.ty.ndim if isinstance(arg.ty, TensorType) else 0 for arg in call.args)
    if axis is None:
        return [{1: None}, {0: None}]
    if left < 2 or right < 2:
        return []
    return [{1: -1}] if axis == -1 else [{0: -2}] if axis == -2 else []


def _product_to_partner(call: Call, place: int, axis: Axis) -> tuple[int, Axis] | None:
    other = call.args[1 - place].ty
    if axis is None:
        return (1 - place, None)
    if not isinstance(other, TensorType) or other.ndim < 2:
        return None
    inner = {0: -1, 1: -2}
    return (1 - place, inner[1 - place]) if axis == inner[place] else None


# Columns that come out are the right factor's, rows the left one's; what is summed is in both.
MATRIX_PRODUCT = ScalingRule(_product_to_arguments, to_partner=_product_to_partner)
