"""What values are when a batch is taken in equal parts: of a part, of each, or a sum over them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from relaxjax.ir.expr import Expr
from relaxjax.ir.function import Binding
from relaxjax.ir.tensor_types import static_dims


@dataclass(frozen=True)
class Along:
    """A part of the value goes along an axis, and is of the same part of the batch.

    The axis counts samples, with `outer` of something else around them: flattened from steps by
    samples by channels, it has the steps around.
    """

    axis: int
    outer: int = 1


@dataclass(frozen=True)
class Numbered:
    """The numbers along an axis, which start from 0 in each part."""

    axis: int


class Undivided(Enum):
    """A value that has no parts."""

    WHOLE = "whole"  # the same for each part of the batch
    TOTAL = "total"  # the sum of what is computed of each part
    AFTER = "after"  # computed of such sums


WHOLE, TOTAL, AFTER = Undivided.WHOLE, Undivided.TOTAL, Undivided.AFTER

# That of a tuple has the kinds of its fields.
Kind: TypeAlias = Along | Numbered | Undivided | tuple["Kind", ...]


class MixedError(Exception):
    """A value takes several samples at once, and is no sum over them: its binding, if known."""

    def __init__(self, binding: Binding | None = None) -> None:
        super().__init__(binding)
        self.binding = binding


@dataclass(frozen=True)
class Batch:
    """How many samples there are, and in how many equal parts they are taken."""

    size: int
    parts: int

    def part_of(self, dims: Sequence[int], kind: Kind) -> tuple[int, ...]:
        """The sizes of a part of a value."""
        if not isinstance(kind, Along | Numbered):
            return tuple(dims)
        sizes = list(dims)
        sizes[kind.axis] //= self.parts
        return tuple(sizes)

    def reshaped(self, old: Sequence[int], new: Sequence[int], kind: Along) -> Along | None:
        """Where the samples are in the same numbers of another shape, if along one axis."""
        if 0 in old:  # which of its axes are the same cannot be told by sizes
            return None
        around = math.prod(old[: kind.axis]) * kind.outer
        before = 1
        for axis, size in enumerate(new):
            if around % before == 0:
                outer = around // before
                if size % (outer * self.size) == 0:
                    return Along(axis, outer)
            before *= size
        return None


@dataclass(frozen=True)
class Taken:
    """How a part is computed: as which kinds of its arguments, what it is, with which attributes.

    `attrs` are those that differ, because they say sizes.
    """

    args: tuple[Kind, ...]
    result: Kind
    attrs: Mapping[str, Any] = field(default_factory=dict)


def dims_of(expr: Expr) -> tuple[int, ...]:
    """The sizes of a tensor, which are to be known: else nothing is known of its samples."""
    dims = static_dims(expr.ty)
    if dims is None:
        raise MixedError
    return tuple(dims)


def has(kind: Kind, one: Kind) -> bool:
    """Whether a value, or a part of a tuple, is of that kind."""
    return any(has(field, one) for field in kind) if isinstance(kind, tuple) else kind is one


def is_of_parts(kind: Kind) -> bool:
    """Whether a value, or a part of a tuple, differs from one part of the batch to the next."""
    return any(map(is_of_parts, kind)) if isinstance(kind, tuple) else kind is not WHOLE
