"""A lower bound of what a program takes, in whatever order, and whatever is computed again.

XLA computes a product of matrices, or a convolution, of tensors in memory, and into one: all of
these are there at once. So is all that a loop of unknown length carries. So is, beside them, what
was computed before and is used after them, if it is a value of the backward part, which is computed
once.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from relaxjax.ir.expr import Call, Expr, TupleGetItem, Var
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType
from relaxjax.ir.uses import Uses
from relaxjax.ir.wording import counted
from relaxjax.ops.cost_rules import dims_of

from ..program.program import Program
from ..program.step import Step, size_of
from .carried import carried_at_once

_PRODUCT, _CONVOLUTION = "lax.dot_general", "lax.conv_general_dilated"
# What a product or a convolution may do itself as it reads.
_READ_THROUGH = frozenset({"lax.transpose", "lax.rev", "lax.convert_element_type"})
# So many values are told one by one.
_TOLD = 6


@dataclass(frozen=True)
class Bound:
    """The bytes that are needed at least, for `step`, and what is `held` then, in bytes."""

    bytes: int = 0
    step: Step | None = None
    held: Mapping[Var, int] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.step is None:
            return "0 bytes"
        span = self.step.span
        place = "" if span is None else f", {span.shown_file}:{span.line},"
        largest = sorted(self.held.items(), key=lambda item: -item[1])
        told, rest = largest[:_TOLD], largest[_TOLD:]
        held = ", ".join(f"`{var.name}` of {size:,}" for var, size in told)
        more = f", and {sum(size for _, size in rest):,} in {len(rest)} more" if rest else ""
        needed = f"{counted(self.bytes, 'byte')} for `{self.step.var.name}`{place}"
        return f"{needed} which takes, gives or carries {held}{more}"


def least_bytes(program: Program) -> Bound:
    """What any order of a program takes beside its arguments and results, on a CPU."""
    return _Least(program).bound


class _Least:
    """What must be there while each step of a program is computed."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.stored: dict[Var, tuple[Var, int] | None] = {}
        # The memory of the results, which other values may have until these are computed.
        own = [var for var in program.results if var not in program.in_place]
        self.rooms = sorted(size_of(var) for var in own)
        bit = {step.var: 1 << place for place, step in enumerate(program.steps)}
        before = _reached(program.steps, bit, {s.var: s.inputs for s in program.steps})
        users = {var: tuple(s.var for s in steps) for var, steps in program.users.items()}
        after = _reached(program.steps[::-1], bit, users)
        needed = sum(bit[var] for var in program.results if var in bit)
        once = sum(bit[s.var] for s in program.backward if _is_kernel(s))
        read = {s.var: sum(bit[var] for var in {*s.inputs} if var in bit) for s in program.steps}
        read_after = _reached(program.steps[::-1], read, users)
        self.bound = Bound()
        known, loop = Uses.of(program.function), get_op("lax.while_loop")
        for step in program.steps:
            if not after[step.var] & needed:
                continue
            self._consider(self._inside(step))
            across = self._of_bits(once & before[step.var] & read_after[step.var])
            own = [*step.inputs, step.var] if _is_kernel(step) else []
            carried = carried_at_once(step.var, known) if step.op is loop else {}
            if own or across or carried:
                self._consider(self._at(step, [*own, *across], carried))

    def _of_bits(self, bits: int) -> list[Var]:
        """The values whose places are the bits of a number."""
        found = []
        while bits:
            found.append(self.program.steps[(bits & -bits).bit_length() - 1].var)
            bits &= bits - 1
        return found

    def _consider(self, bound: Bound) -> None:
        self.bound = max(self.bound, bound, key=lambda bound: bound.bytes)

    def _inside(self, step: Step) -> Bound:
        """Of a step of a loop, whose values have no room in what the loop gives."""
        loop = self.program.loops.get(step.var)
        return Bound() if loop is None else least_bytes(loop)

    def _at(self, step: Step, values: Iterable[Var], carried: Mapping[Var, int]) -> Bound:
        """Of values that are there while a step is computed, and of what a loop carries."""
        roots = map(self._root, values)
        found = {**dict(root for root in roots if root is not None), **carried}
        held = {var: size for var, size in found.items() if var not in self.program.in_place}
        rooms = list(self.rooms)
        least = 0
        for size in sorted(held.values(), reverse=True):
            place = bisect_left(rooms, size)
            if place < len(rooms):
                rooms.pop(place)
            else:
                least += size
        return Bound(least, step, held)

    def _root(self, var: Var) -> tuple[Var, int] | None:
        """The value that is in memory where this one is read, and its bytes.

        None for what is the caller's, and for what may be computed as it is read.
        """
        if var not in self.stored:
            self.stored[var] = self._found_root(var)
        return self.stored[var]

    def _found_root(self, var: Var) -> tuple[Var, int] | None:
        step = self.program.step_of.get(var)
        if step is None or not isinstance(var.ty, TensorType):
            return None
        if isinstance(step.binding.value, TupleGetItem):
            return (var, step.size) if step.inputs[0] in self.program.loops else None
        if step.is_view or (step.op is not None and step.op.name in _READ_THROUGH):
            root = self._root(step.inputs[0]) if step.inputs else None
            return None if root is None else (root[0], min(root[1], step.size))
        is_written = step.is_elementwise and any(map(self._is_full, step.inputs))
        return (var, step.size) if _is_kernel(step) or is_written else None

    def _is_full(self, var: Var) -> bool:
        """Whether it has numbers of its own, and is no constant spread out."""
        step = self.program.step_of.get(var)
        return (step is None and isinstance(var.ty, TensorType)) or self._root(var) is not None


def _reached(
    steps: Collection[Step], bit: Mapping[Var, int], of: Mapping[Var, Collection[Var]]
) -> dict[Var, int]:
    """What each step leads to, with its own, as the bits of a number."""
    found: dict[Var, int] = {}
    for step in steps:
        bits = bit[step.var]
        for var in of.get(step.var, ()):
            bits |= found.get(var, 0)
        found[step.var] = bits
    return found


def _is_kernel(step: Step) -> bool:
    """Whether it is a convolution, or a product of matrices that is no sum of products."""
    call = step.binding.value
    if step.op is None or not isinstance(call, Call):
        return False
    if step.op.name != _PRODUCT:
        return step.op.name == _CONVOLUTION
    summed = call.attrs["dimension_numbers"][0]
    batch = call.attrs["dimension_numbers"][1]
    return all(
        _is_several(arg, axes)
        and _is_several(arg, set(range(len(dims_of(arg)))) - {*axes, *others})
        for arg, axes, others in zip(call.args, summed, batch, strict=True)
    )


def _is_several(arg: Expr, axes: Collection[int]) -> bool:
    """Whether a tensor has more than one place along some axes."""
    return any(dims_of(arg)[axis] != 1 for axis in axes)
