"""Elementwise operators that follow in several branches alike: biases and activations."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Binding, VarBinding
from relaxjax.ir.op import Op
from relaxjax.ir.tensor_types import known_dims, known_dtype
from relaxjax.ir.types import TensorType
from relaxjax.ir.uses import Uses
from relaxjax.ir.walk import used_vars


class Surroundings(Protocol):
    """What is known of the block that the branches stand in."""

    counts: dict[Var, int]
    known: Uses

    def groups_behind(self, variables: Iterable[Var]) -> int: ...


@dataclass(frozen=True)
class Stage:
    """One operator that every branch goes through, at the argument `place` of its calls.

    `parts` are the other arguments that differ from branch to branch, by their places: they have
    elements along the axis that the branches are put together along.
    """

    call: Call
    place: int
    bindings: list[VarBinding]
    parts: dict[int, list[Expr]] = field(default_factory=dict)

    @property
    def operands(self) -> list[Expr]:
        """The first argument that differs, for each of the branches."""
        return next(iter(self.parts.values()), [])

    @property
    def all_parts(self) -> list[Expr]:
        return [operand for parts in self.parts.values() for operand in parts]


def stages(
    branches: Sequence[VarBinding], axis: int, group: int, around: Surroundings
) -> list[Stage]:
    """The operators that follow in all branches of a group alike, as far as they do."""
    found: list[Stage] = []
    ends = list(branches)
    while (stage := _next(ends, axis, around)) is not None:
        used = (var for part in stage.all_parts for var in used_vars(part))
        if around.groups_behind(used) & group:
            break
        found.append(stage)
        ends = stage.bindings
    return found


def _next(ends: Sequence[VarBinding], axis: int, around: Surroundings) -> Stage | None:
    """The operator that reads each of the branches, and is the only one to do so."""
    readers = [_only_reader(binding.var, around) for binding in ends]
    bindings = [reader for reader in readers if isinstance(reader, VarBinding)]
    calls = [reader.value for reader in bindings if isinstance(reader.value, Call)]
    if len(calls) < len(ends) or len({reader.var for reader in bindings}) < len(ends):
        return None
    first = calls[0]
    if not isinstance(first.op, Op) or not first.op.facts.get("elementwise"):
        return None
    place = first.args.index(ends[0].var) if ends[0].var in first.args else -1
    alike = all(
        call.op is first.op and call.attrs == first.attrs and len(call.args) == len(first.args)
        for call in calls
    )
    fed = alike and all(
        place >= 0 and call.args[place] is end.var and _same_shape(call, end.var)
        for call, end in zip(calls, ends, strict=True)
    )
    if not fed:
        return None
    parts = _parts(calls, place, [end.var for end in ends], axis)
    return None if parts is None else Stage(first, place, bindings, parts)


def _parts(
    calls: Sequence[Call], place: int, ends: Sequence[Var], axis: int
) -> dict[int, list[Expr]] | None:
    """The other arguments that differ from branch to branch; None where they do not fit."""
    parts: dict[int, list[Expr]] = {}
    for other in range(len(calls[0].args)):
        operands = [call.args[other] for call in calls]
        same = all(operand == operands[0] for operand in operands)
        if other == place or (same and not _runs(operands[0], axis)):
            continue
        if not _fit_together(operands, ends, axis):
            return None
        parts[other] = operands
    return parts


def _only_reader(var: Var, around: Surroundings) -> Binding | None:
    if around.counts.get(var) != 1:
        return None
    return next((around.known.bindings[reader] for reader in around.known.users_of(var)), None)


def _same_shape(call: Call, var: Var) -> bool:
    types = (call.ty, var.ty)
    return all(isinstance(ty, TensorType) and ty.dims is not None for ty in types) and (
        known_dims(call) == known_dims(var)
    )


def _runs(operand: Expr, axis: int) -> bool:
    """Whether a tensor has elements along an axis, and is not repeated along it."""
    dims = known_dims(operand)
    return dims is None or (len(dims) >= -axis and dims[axis] != 1)


def _fit_together(operands: Sequence[Expr], ends: Sequence[Var], axis: int) -> bool:
    """Whether operands are as wide as their branches, and else of one shape and dtype."""
    shapes = [known_dims(operand) for operand in operands]
    widths = [known_dims(end) for end in ends]
    rests = set()
    for shape, width, operand in zip(shapes, widths, operands, strict=True):
        if shape is None or width is None or len(shape) < -axis or shape[axis] != width[axis]:
            return False
        place = axis % len(shape)
        dtype = known_dtype(operand)
        rests.add((shape[:place], shape[place + 1 :], dtype))
    return len(rests) == 1
