"""Carries of loops that the way back computes from what the step before has saved.

A step saves the carry that it got, if its gradient needs that. Where the step before saves what
gave it, such as the product below a layer's activation, the way back reads that instead.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, Tuple, TupleGetItem, Var, const
from relaxjax.ir.op import get_op
from relaxjax.ir.tuples import field_of
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import substitute

from ..program.program import Program
from ..program.step import Step


@dataclass(frozen=True)
class Carried:
    """A part of the carry, `var`, which is `result` of the step before.

    `again` computes that of what is saved. The first step got `start`.
    """

    var: Var
    result: Var
    again: tuple[Step, ...]
    start: Expr

    @property
    def reads(self) -> set[Var]:
        """What it is computed of."""
        return {self.result, *(var for step in self.again for var in step.inputs)}


def carries_that_follow(
    program: Program, kept: Sequence[Var], start: Expr, again: Callable[[Step], bool]
) -> list[Carried]:
    """What of the `kept` follows from the rest of it, as far as `again` allows.

    The steps of the program are those of a loop's body, which starts with the carry `start`.
    """
    found: list[Carried] = []
    needed: set[Var] = set()
    for var in kept:
        ends = _ends(program, var, start)
        if ends is None or var in needed:
            continue
        others = set(kept) - {var} - {one.var for one in found}
        sources = {other for other in others if _is_tensor(other)}
        steps = _between(program, ends[0], sources, again)
        if steps is not None:
            found.append(Carried(var, ends[0], steps, ends[1]))
            needed |= sources & {ends[0], *(v for step in steps for v in step.inputs)}
    return found


def _ends(program: Program, var: Var, start: Expr) -> tuple[Var, Expr] | None:
    """What a step gives for the part `var` of its carry, and what that was at the start."""
    carry, result = program.function.params[0], program.function.body.body
    if not isinstance(result, Tuple):
        return None
    value = program.step_of[var].binding.value
    last, first = result.fields[0], start
    if isinstance(value, TupleGetItem) and value.tuple_value is carry:
        last, first = field_of(last, value.index), field_of(first, value.index)
    elif var is not carry:
        return None
    return (last, first) if _is_tensor(var) and isinstance(last, Var) else None


def _is_tensor(var: Var) -> bool:
    return isinstance(var.ty, TensorType) and var.ty.dims is not None


def _between(
    program: Program, result: Var, sources: set[Var], again: Callable[[Step], bool]
) -> tuple[Step, ...] | None:
    """The steps from the sources to a result; None where they need more, or may not be run."""
    needed = {result} - sources
    for step in reversed(program.forward):
        if step.var in needed:
            if step.is_closure or not again(step):
                return None
            needed |= set(step.inputs) - sources
    if needed & set(program.function.params):
        return None
    return tuple(step for step in program.forward if step.var in needed)


def emit_carried(
    builder: BlockBuilder, some: Sequence[Carried], stacks: Mapping[Var, Expr], index: Expr
) -> dict[Var, Expr]:
    """The carries that the step `index` got, from the `stacks` of what all steps have saved."""
    before = builder.emit(get_op("lax.max")(get_op("lax.sub")(index, _int(1)), _int(0)), "before")
    is_first = builder.emit(get_op("lax.eq")(index, _int(0)), "is_first")
    names: dict[Var, Expr] = {}
    wanted = {var for one in some for var in one.reads}
    for var, stack in stacks.items():
        if var in wanted:
            names[var] = builder.emit(row_of(stack, before), f"{var.name}_before")
    for step in dict.fromkeys(step for one in some for step in one.again):
        value = substitute(step.binding.value, names)
        names[step.var] = builder.emit(value, f"{step.var.name}_before")
    found: dict[Var, Expr] = {}
    for one in some:
        before_this = names.get(one.result, one.result)  # as it is where it is of outside the loop
        value = get_op("lax.select_n")(is_first, before_this, one.start)
        found[one.var] = builder.emit(value, one.var.name)
    return found


def row_of(stack: Expr, index: Expr) -> Expr:
    """One of the tensors of a stack."""
    return get_op("lax.squeeze")(part_of(stack, index), dimensions=[0])


def part_of(stack: Expr, index: Expr) -> Expr:
    """One of the tensors of a stack, as a stack of one."""
    dims = _dims(stack)
    places = (index, *(_int(0) for _ in dims))
    return get_op("lax.dynamic_slice")(stack, *places, slice_sizes=[1, *dims])


def with_part(stack: Expr, part: Expr, index: Expr) -> Expr:
    """A stack with one of its tensors replaced by that of a stack of one."""
    places = (index, *(_int(0) for _ in _dims(stack)))
    return get_op("lax.dynamic_update_slice")(stack, part, *places)


def as_part(row: Expr) -> Expr:
    """A tensor as a stack of one."""
    assert isinstance(row.ty, TensorType)
    assert row.ty.dims is not None
    return get_op("lax.reshape")(row, new_sizes=[1, *row.ty.dims])


def _dims(stack: Expr) -> tuple[Dim, ...]:
    """The dimensions of each tensor of a stack."""
    assert isinstance(stack.ty, TensorType)
    assert stack.ty.dims is not None
    return stack.ty.dims[1:]


def _int(number: int) -> Expr:
    return const(number, "int32")
