"""Loops back that write what they give over what they have read: one stack in the place of two.

A step back that is the last to read a saved tensor may give another of its type, such as the
adjoint of a product. The stack of the one is then a part of the carry, and the other is written
into it, which XLA does in place where all that reads the row comes before.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.emit_function import emit_sequence
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function, SeqExpr
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.renew import renew
from relaxjax.ir.tensor_types import has_floats
from relaxjax.ir.tuples import Path, at, each_tensor, filled, leaves
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ir.walk import all_vars, free_vars
from relaxjax.ops.loop_types import stacked
from relaxjax.passes.differentiation.vjp import in_terms_of

from ..program.loop_pairs import first_and_second
from .carries import as_part, row_of, with_part


def replaced(
    step: Function, free: Mapping[int, Type | None], read: Collection[Path]
) -> dict[Path, int]:
    """The ways to what a step back gives that is of the type of one of the `free` tensors.

    It has to be in what is `read` of the loop's result: XLA drops the rest of that.
    """
    left, found = dict(free), dict[Path, int]()
    for path, y in leaves(first_and_second(step.body.body)[1]):
        is_read = any((1, *path)[: len(way)] == way for way in read)
        place = next((place for place, ty in left.items() if ty == y.ty), None)
        if place is not None and is_read and isinstance(y, Var):
            found[path] = place
            del left[place]
    return found


@dataclass(frozen=True)
class Overwriting:
    """A step back, and which of the tensors in the field `at` of what it is given it replaces.

    `over` are the ways to what it gives for them, each with the place of the tensor.
    """

    step: Function
    at: int
    count: int  # of steps
    over: Mapping[Path, int]

    def loop(self, builder: BlockBuilder, call: Call, stacks: Expr) -> Expr:
        """What the loop of the step gave, by one that writes over the `stacks`."""
        _, start, xs = call.args
        assert isinstance(xs, Tuple)
        iota = get_op("lax.iota")(dtype="int32", shape=[self.count], dimension=0)
        fields = [*xs.fields, builder.emit(iota, "numbers")]
        fields[self.at] = Tuple(tuple(TupleGetItem(stacks, i) for i in self._rest))
        taken = Tuple(tuple(TupleGetItem(stacks, i) for i in self.over.values()))
        step = builder.emit(self._step(), "step_back")
        args = (step, Tuple((start, taken)), Tuple(tuple(fields)))
        looped = builder.emit(replace(call, args=args, ty=None), "looped")
        last = builder.emit(TupleGetItem(looped, 0))
        full = builder.emit(TupleGetItem(last, 1), "written")
        some = {path: TupleGetItem(full, place) for place, path in enumerate(self.over)}
        ys = filled(
            first_and_second(self.step.body.body)[1],
            lambda path, _: some[path] if path in some else at(looped, (1, *path)),
        )
        return Tuple((TupleGetItem(last, 0), ys))

    @property
    def _rest(self) -> list[int]:
        """The tensors that stay."""
        taken = set(self.over.values())
        return [i for i in range(len(_saved(self.step, self.at))) if i not in taken]

    def _step(self) -> Function:
        """The step, which is told its number, and has the stacks in its carry."""
        carry, given = self._params()
        builder = BlockBuilder()
        with builder.scope(taken=[var.name for var in all_vars(self.step)]):
            assert isinstance(given.ty, TupleType)
            number = builder.emit(TupleGetItem(given, len(given.ty.fields) - 1), "number")
            stacks = self._stacks(builder, carry)
            rows = {i: builder.emit(row_of(stack, number), "row") for i, stack in stacks.items()}
            old = (TupleGetItem(carry, 0), self._given(given, rows))
            rest = in_terms_of(self.step.body, dict(zip(self.step.params, old, strict=True)))
            last, ys = first_and_second(emit_sequence(builder, rest))
            found = dict(leaves(ys))
            full = []
            for path, i in self.over.items():
                y = found[path]
                for reader in _readers(rest, rows[i], y):
                    y = builder.emit(get_op("relax.grad.delay")(y, reader), "late")
                full.append(builder.emit(with_part(stacks[i], as_part(y), number), "written"))
            ys = filled(ys, lambda path, y: Tuple(()) if path in self.over else y)
            body = builder.sequence(Tuple((Tuple((last, Tuple(tuple(full)))), ys)))
        return renew(make_function((carry, given), body, ret_ty=body.ty))[0]

    def _params(self) -> tuple[Var, Var]:
        """The carry of the step, and what it is given."""
        carry, given = self.step.params
        saved = _saved(self.step, self.at)
        assert carry.ty is not None
        assert isinstance(given.ty, TupleType)
        fields = [*given.ty.fields, TensorType((), "int32")]
        fields[self.at] = TupleType(tuple(saved[i] for i in self._rest))
        taken = (saved[i] for i in self.over.values())
        stacks = tuple(each_tensor(ty, lambda ty: stacked(ty, self.count)) for ty in taken)
        both = TupleType((carry.ty, TupleType(stacks)))
        return Var(carry.name, both), Var(given.name, TupleType(tuple(fields)))

    def _stacks(self, builder: BlockBuilder, carry: Var) -> dict[int, Expr]:
        """The stacks of what is written over, by its numbers."""
        stacks = builder.emit(TupleGetItem(carry, 1), "stacks")
        return {
            i: builder.emit(TupleGetItem(stacks, place), "stack")
            for place, i in enumerate(self.over.values())
        }

    def _given(self, given: Var, rows: Mapping[int, Expr]) -> Tuple:
        """What the step was given, with the `rows` of the stacks in the place of what it was."""
        old = self.step.params[1].ty
        assert isinstance(old, TupleType)
        saved: dict[int, Expr] = dict(rows)
        for place, i in enumerate(self._rest):
            saved[i] = TupleGetItem(TupleGetItem(given, self.at), place)
        fields: list[Expr] = [TupleGetItem(given, i) for i in range(len(old.fields))]
        fields[self.at] = Tuple(tuple(saved[i] for i in sorted(saved)))
        return Tuple(tuple(fields))


def _saved(step: Function, at: int) -> tuple[Type, ...]:
    """The types of what a step back is given that was saved."""
    given = step.params[1].ty
    assert isinstance(given, TupleType)
    saved = given.fields[at]
    assert isinstance(saved, TupleType)
    return saved.fields


def _readers(body: SeqExpr, row: Expr, y: Expr) -> list[Var]:
    """The results of a step that are computed of a row, and not of y, which is written over it."""
    reached = {row}
    for binding in body.bindings():
        if binding.var is not y and not reached.isdisjoint(free_vars(binding.value)):
            reached.add(binding.var)
    ends = dict.fromkeys(leaf for _, leaf in leaves(body.body) if isinstance(leaf, Var))
    return [leaf for leaf in ends if leaf in reached and leaf is not y and has_floats(leaf.ty)]
