"""What an operator says of factors: how a scale along one axis moves through its calls.

Axes are counted from the back, so that they are the same for all tensors that broadcast. None
stands for a factor that is one number.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .expr import Call

Axis: TypeAlias = int | None


def _nowhere(call: Call, place: int, axis: Axis) -> None:
    return None


@dataclass(frozen=True)
class ScalingRule:
    """An operator's rules for factors.

    `to_arguments`: the result times a factor along `axis` is the call on arguments times it. Each
    of several ways names the arguments, by their places, and the axis in each.
    `to_result`: a call on the argument at `place` times a factor is the result times it, along the
    axis that it gives.
    `to_partner`: a call on the argument at `place` times a factor is the call on another argument
    times it: its place, and the axis in it.
    Where `nonnegative` is set, this holds for factors that are not below 0.
    """

    to_arguments: Callable[[Call, Axis], Sequence[Mapping[int, Axis]]]
    to_result: Callable[[Call, int, Axis], tuple[Axis] | None] = _nowhere
    to_partner: Callable[[Call, int, Axis], tuple[int, Axis] | None] = _nowhere
    nonnegative: bool = False
