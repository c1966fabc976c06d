"""Repeated blocks of a function as one loop."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.expr import Call, Constant, Expr, PrimExpr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, BindingBlock, DataflowBlock, Function, SeqExpr, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.tuples import one_or_tuple
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.ir.walk import all_vars, map_bindings, rewrite, substitute, used_vars
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.error_notes import in_function

from .repeats import Repeats, Slot, find_repeats

# The numbers of random keys as variables, so that layers which draw may be steps of one loop.
Numbers = Mapping[Var, int]

_DTYPE = "uint32"  # that of the number which is folded into a key

# Whether a segment and how often it comes is worth a loop.
Accept = Callable[[Sequence[Binding], int], bool]


@pass_factory(opt_level=0)
def RollBlocks(
    mod: IRModule, func_name: str | None = None, min_repeats: int = 4, checkpoint: bool = False
) -> IRModule:
    """Put layers of equal structure, each fed by the one before, into one loop over their weights.

    Such layers are segments of one block of bindings that compute the same and use the same
    variables from outside, but for their own weights, which are stacked. What later bindings use
    of every layer comes out of the loop stacked. Layers that draw random numbers, such as those
    with dropout, draw the same ones in the loop.

    A program of many layers compiles faster so, and its backward program is one loop too. Stacking
    costs time in each call: SetupTrainer has the parameters stored as stacks instead.

    Args:
        func_name: the function to change; all of them where it is None.
        min_repeats: how many layers there are at least.
        checkpoint: that of the loop, as R.scan explains it.
    """
    if min_repeats < 2:
        raise ValueError(f"`min_repeats` must be at least 2, found {min_repeats}")
    if func_name is not None and not isinstance(mod[func_name], Function):
        raise ValueError(f"`{func_name}` is no Relax function: it has no blocks to roll")
    changed = {}
    for name, function in mod.relax_functions().items():
        if func_name in (None, name):
            with in_function(name, function):
                rolled = rolled_function(function, min_repeats, checkpoint=checkpoint)
            changed[name] = rolled
    return mod.with_functions(changed)


def rolled_function(
    function: Function,
    min_repeats: int,
    accept: Accept = lambda segment, count: True,
    checkpoint: bool = False,
) -> Function:
    """A function with its repeated segments as loops: those that `accept` says yes to."""
    body, numbers = _with_number_variables(function.body)
    rolling = _Rolling(function, min_repeats, accept, checkpoint, numbers)
    blocks, used_after = list(body.blocks), set(used_vars(body.body))
    for index in range(len(blocks) - 1, -1, -1):
        blocks[index] = rolling.block(blocks[index], used_after)
        used_after |= {var for b in blocks[index].bindings for var in used_vars(b.value)}
    if all(new is old for new, old in zip(blocks, body.blocks, strict=True)):
        return function
    rolled = replace(body, blocks=tuple(blocks))
    return replace(function, body=_with_numbers(rolled, numbers))


@dataclass(frozen=True)
class _Rolling:
    """The rolling of one function's blocks."""

    function: Function
    min_repeats: int
    accept: Accept
    checkpoint: bool
    numbers: Numbers

    def block(self, block: BindingBlock, used_after: set[Var]) -> BindingBlock:
        """A block with loops in it; what is rolled once is not looked into again."""
        while True:
            bindings = block.bindings
            found = find_repeats(bindings, used_after, self.min_repeats)
            repeats = next((r for r in found if self._accepts(bindings, r)), None)
            if repeats is None:
                return block
            loop = self._loop(bindings, repeats, isinstance(block, DataflowBlock))
            parts = (*bindings[: repeats.start], *loop, *bindings[repeats.end :])
            block = replace(block, bindings=parts)

    def _accepts(self, bindings: Sequence[Binding], repeats: Repeats) -> bool:
        segment = bindings[repeats.start : repeats.start + repeats.period]
        return self.accept(segment, repeats.count)

    def _loop(
        self, bindings: Sequence[Binding], repeats: Repeats, dataflow: bool
    ) -> tuple[Binding, ...]:
        """The loop, and the variables of the segments that are used after it."""
        builder = BlockBuilder()
        taken = [var.name for var in (*all_vars(self.function), *self.function.params)]
        with builder.scope(taken=taken):
            with builder.dataflow() if dataflow else builder.scope():
                stacks = _stacks(repeats)
                stacked = [builder.emit(self._stack(c), f"{c[0].name}_stack") for c in stacks]
                block = builder.emit(_block(bindings, repeats, stacks), "block")
                init, xs = one_or_tuple(repeats.init), one_or_tuple(stacked)
                attrs = {"length": repeats.count, "checkpoint": self.checkpoint}
                looped = builder.emit(get_op("relax.scan")(block, init, xs, **attrs), "looped")
                for binding in _results(builder, bindings, repeats, looped):
                    builder.emit_binding(binding)
                if not dataflow:
                    return tuple(builder.sequence(Tuple()).bindings())
            return tuple(builder.sequence(Tuple()).bindings())

    def _stack(self, column: tuple[Var, ...]) -> Expr:
        known = _column_of(column, self.numbers)
        return _stack_of(column) if known is None else known


def _stack_of(values: Sequence[Expr]) -> Expr:
    """Values of one type stacked; tuples are a tuple of stacks."""
    ty = values[0].ty
    if not isinstance(ty, TupleType):
        return get_op("relax.stack")(list(values), axis=0)
    places = range(len(ty.fields))
    return Tuple(tuple(_stack_of([TupleGetItem(v, place) for v in values]) for place in places))


def _stacks(repeats: Repeats) -> list[tuple[Var, ...]]:
    """What differs from segment to segment, each column once."""
    columns = dict.fromkeys(slot.outer for slot in repeats.slots if slot.outer)
    return [column for column in columns if any(var is not column[0] for var in column)]


def _field(builder: BlockBuilder, packed: Expr, index: int, of: int, name: str) -> Expr:
    return packed if of == 1 else builder.emit(TupleGetItem(packed, index), name)


def _block(
    bindings: Sequence[Binding], repeats: Repeats, stacks: Sequence[tuple[Var, ...]]
) -> Function:
    """A segment as the body of a loop."""
    segment = bindings[repeats.start : repeats.start + repeats.period]
    carry = _param("carry", repeats.init)
    x = _param("own", [column[0] for column in stacks])
    builder = BlockBuilder()
    with builder.scope(taken=[carry.name, x.name]):
        inits = repeats.init
        carried = {
            local: _field(builder, carry, i, len(inits), inits[i].name)
            for i, local in enumerate(repeats.carried)
        }
        own = {
            column: _field(builder, x, i, len(stacks), column[0].name)
            for i, column in enumerate(stacks)
        }
        local: list[Expr] = []

        def meant(slot: Slot) -> Expr:
            if slot.local is None:
                return own.get(slot.outer, slot.outer[0])
            return carried[slot.local] if slot.is_carried else local[slot.local]

        slots = iter(repeats.slots)
        for binding in segment:
            value = rewrite(
                binding.value, lambda e: meant(next(slots)) if isinstance(e, Var) else e
            )
            with builder.origin(binding.span):
                local.append(builder.emit(value, binding.var.name))
        after = one_or_tuple([local[i] for i in repeats.carried])
        ys = Tuple(tuple(local[i] for i in repeats.outputs))
        seq = builder.sequence((after, ys))
    return make_function([carry, x], seq, ret_ty=seq.ty)


def _param(name: str, values: Sequence[Var]) -> Var:
    """A parameter for one value, called as that is, or for a tuple of several."""
    one = len(values) == 1
    return Var(values[0].name if one else name, one_or_tuple(values).ty)


def _results(
    builder: BlockBuilder, bindings: Sequence[Binding], repeats: Repeats, looped: Var
) -> Iterator[Binding]:
    """The variables that are used after the loop, as its results."""
    last = repeats.end - repeats.period
    final = TupleGetItem(looped, 0)
    many = len(repeats.carried) > 1
    after: Expr = builder.emit(final, "carried") if many else final
    for index, local in enumerate(repeats.carried):
        var = bindings[last + local].var
        yield VarBinding(var, TupleGetItem(after, index) if many else after, span=var.span)
    for index, local in enumerate(repeats.outputs):
        stacked = TupleGetItem(TupleGetItem(looped, 1), index)
        rows = _rows_of(builder, stacked, repeats.count)
        skipped = local in repeats.carried  # the last of them is among the carried
        for k in range(repeats.count - skipped):
            var = bindings[repeats.start + k * repeats.period + local].var
            yield VarBinding(var, rows[k], span=var.span)


def _rows_of(builder: BlockBuilder, stack: Expr, count: int) -> list[Expr]:
    """What lies in a stack, or in a tuple of stacks."""
    stacked = builder.emit(stack, "stacked")
    if isinstance(stacked.ty, TupleType):
        places = range(len(stacked.ty.fields))
        fields = [_rows_of(builder, TupleGetItem(stacked, place), count) for place in places]
        return [Tuple(tuple(field[k] for field in fields)) for k in range(count)]
    parts = builder.emit(get_op("relax.split")(stacked, count, axis=0), "parts")
    return [get_op("relax.squeeze")(TupleGetItem(parts, k), [0]) for k in range(count)]


def _with_number_variables(seq: SeqExpr) -> tuple[SeqExpr, Numbers]:
    """A body whose keys are made with variables in the place of numbers, and what these are.

    Nothing binds them: `_with_numbers` puts the numbers back.
    """
    variables: dict[int, Var] = {}

    def change(binding: Binding) -> Binding:
        number = _folded_in(binding.value)
        if number is None or not isinstance(binding.value, Call):
            return binding
        var = variables.setdefault(number, Var(f"number{number}", TensorType((), _DTYPE)))
        value = replace(binding.value, args=(binding.value.args[0], var))
        return replace(binding, value=value)

    changed = map_bindings(seq, change)
    return changed, {var: number for number, var in variables.items()}


def _with_numbers(seq: SeqExpr, numbers: Numbers) -> SeqExpr:
    """The body with each of the variables as the number that it stands for."""
    return substitute(seq, {var: PrimExpr(number) for var, number in numbers.items()})


def _column_of(variables: tuple[Var, ...], numbers: Numbers) -> Expr | None:
    """The numbers that variables stand for in one constant, None where they are no such."""
    if not all(var in numbers for var in variables):
        return None
    return Constant(np.array([numbers[var] for var in variables], _DTYPE))


def _folded_in(value: Expr) -> int | None:
    """The number that a call makes a key of, if it is one that the program spells."""
    if not isinstance(value, Call) or value.op is not get_op("relax.random.fold_in"):
        return None
    number = value.args[1]
    if not isinstance(number, PrimExpr) or not isinstance(number.value, int):
        return None
    return number.value
