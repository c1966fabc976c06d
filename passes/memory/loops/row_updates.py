"""The steps of a loop that change rows of stacks, each as soon as it has what the update takes.

The stacks are a part of the carry, and a row is written over the old one. XLA does so in place
where nothing reads the old row later: what reads it comes before, by what an operator waits for,
and new values that others take are read back from where they were written.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.emit_function import emit_sequence
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function, SeqExpr
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.reached import reached
from relaxjax.ir.renew import renew
from relaxjax.ir.tensor_types import has_floats
from relaxjax.ir.tuples import at, each_tensor, filled
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ir.uses import values_of_kind
from relaxjax.ir.walk import all_vars, free_vars, used_vars
from relaxjax.ops.loop_types import unstacked
from relaxjax.passes.differentiation.vjp import in_terms_of

from ..program.caller import written_out
from ..program.loop_pairs import first_and_second
from .carries import as_part, part_of, with_part
from .loop_updates import Update

# What XLA may compute in each kernel that reads it.
_INSIDE = ("elementwise", "broadcast", "injective")


@dataclass(frozen=True)
class Writes:
    """In which order the stacks of an update are written, so that each old row is read before.

    Where it `reads_back`, a new value that is made of another is made of what was written.
    """

    update: Update
    reads_back: bool

    @staticmethod
    def of(update: Update) -> "Writes | None":
        """The writes of an update; None where each would have to come before another."""
        for reads_back in (True, False):
            found = Writes(update, reads_back)
            try:
                _ = found.stacks
            except CycleError:
                continue
            return found
        return None

    @cached_property
    def new(self) -> dict[Var, Var]:
        """The stacks that do not stay as they are, with their new values."""
        return {stack: new for stack, new in self.update.new.items() if new is not stack}

    @cached_property
    def cones(self) -> dict[Var, set[Var]]:
        """What each new value is made of, but for what is behind values that are read back."""
        return {stack: self._cone(new) for stack, new in self.new.items()}

    def _cone(self, new: Var) -> set[Var]:
        calls = self.update.calls

        def made_of(var: Var) -> Iterable[Var]:
            is_made = var in calls and (var is new or not self.is_read_back(var))
            return used_vars(calls[var]) if is_made else ()

        return set(reached([new], made_of))

    def is_read_back(self, value: Var) -> bool:
        return self.reads_back and value in self.update.calls and value in self.new.values()

    @cached_property
    def stacks(self) -> list[Var]:
        """The stacks in the order in which they are written."""
        before: dict[Var, list[Var]] = {stack: self.readers(stack) for stack in self.new}
        for stack, cone in self.cones.items():
            made_of = (other for other, new in self.new.items() if new in cone)
            before[stack] += (o for o in made_of if o is not stack and self.reads_back)
        return list(TopologicalSorter(before).static_order())

    def readers(self, stack: Var) -> list[Var]:
        """The others whose new values are made of the old one of a stack."""
        return [other for other, cone in self.cones.items() if stack in cone and other is not stack]


@dataclass(frozen=True)
class UpdatingLoop:
    """A loop whose steps make the updates of what it gave."""

    call: Call
    xs: Expr  # without names for tuples
    step: Function
    count: int
    writes: Sequence[Writes]

    @cached_property
    def stacks(self) -> list[Var]:
        return [stack for one in self.writes for stack in one.update.new]

    def emit(self, builder: BlockBuilder) -> tuple[Var, Var]:
        """Bind the loop, and the tuple of the stacks after it."""
        iota = get_op("lax.iota")(dtype="int32", shape=[self.count], dimension=0)
        rest = filled(self.xs, lambda _, leaf: Tuple(()) if leaf in self.stacks else leaf)
        step = builder.emit(self._step(rest.ty), "updating_step")
        start = Tuple((self.call.args[1], Tuple(tuple(self.stacks))))
        args = (step, start, Tuple((rest, builder.emit(iota, "numbers"))))
        looped = builder.emit(replace(self.call, args=args, ty=None), "updating")
        last = builder.emit(TupleGetItem(looped, 0))
        stacks = builder.emit(TupleGetItem(last, 1), "updated_stacks")
        ys = TupleGetItem(looped, 1)
        return builder.emit(Tuple((TupleGetItem(last, 0), ys)), "looped"), stacks

    def _step(self, xs: Type | None) -> Function:
        """The step, which has the stacks in its carry, and is told its number."""
        own_carry, own_given = self.step.params
        assert own_carry.ty is not None
        assert xs is not None
        types = tuple(stack.ty for stack in self.stacks if stack.ty is not None)
        carry = Var(own_carry.name, TupleType((own_carry.ty, TupleType(types))))
        row = each_tensor(xs, unstacked)
        given = Var(own_given.name, TupleType((row, TensorType((), "int32"))))
        builder = BlockBuilder()
        numbers = (n for one in self.writes for n in one.update.numbers.values())
        taken = [*all_vars(self.step), *self.stacks, *(v for n in numbers for v in used_vars(n))]
        with builder.scope(taken=[var.name for var in taken]):
            number = builder.emit(TupleGetItem(given, 1), "number")
            stacks = builder.emit(TupleGetItem(carry, 1), "stacks")
            whole = {
                stack: builder.emit(TupleGetItem(stacks, place), stack.name)
                for place, stack in enumerate(self.stacks)
            }
            parts, rows = self._parts(builder, whole, number)
            old = filled(self.xs, lambda way, leaf: rows.get(leaf, at(given, (0, *way))))
            both = dict(zip(self.step.params, (TupleGetItem(carry, 0), old), strict=True))
            rest = in_terms_of(self.step.body, both)
            emit_sequence(builder, rest)
            known: dict[Expr, Tuple] = dict(values_of_kind(rest.bindings(), Tuple).items())
            last, ys = first_and_second(written_out(rest.body, known))
            made = _Rows(self.writes, rest, (last, ys), rows, parts).written(builder, whole, number)
            gone = {one.update.path[1:] for one in self.writes}
            left = filled(ys, lambda way, leaf: Tuple(()) if way in gone else leaf)
            new = Tuple(tuple(made[stack] for stack in self.stacks))
            body = builder.sequence(Tuple((Tuple((last, new)), left)))
        return renew(make_function((carry, given), body, ret_ty=body.ty))[0]

    @staticmethod
    def _parts(
        builder: BlockBuilder, whole: Mapping[Var, Var], number: Var
    ) -> tuple[dict[Expr, Var], dict[Expr, Var]]:
        """The parts of stacks that a step changes, as stacks of one, and as the tensors in them."""
        squeeze = get_op("lax.squeeze")
        parts: dict[Expr, Var] = {
            stack: builder.emit(part_of(own, number), f"{stack.name}_part")
            for stack, own in whole.items()
        }
        rows: dict[Expr, Var] = {
            stack: builder.emit(squeeze(parts[stack], dimensions=[0]), f"{stack.name}_row")
            for stack in whole
        }
        return parts, rows


class _Rows:
    """The rows of a step: what the gradients' are, and what reads the old ones of stacks."""

    def __init__(
        self,
        writes: Sequence[Writes],
        body: SeqExpr,
        results: tuple[Expr, Expr],
        rows: Mapping[Expr, Var],
        parts: Mapping[Expr, Var],
    ) -> None:
        self.writes, self.rows, self.parts = writes, rows, parts
        self.users: dict[Var, list[Var]] = {}
        self.values = {binding.var: binding.value for binding in body.bindings()}
        for binding in body.bindings():
            for var in free_vars(binding.value):
                self.users.setdefault(var, []).append(binding.var)
        self.gradients = [at(results[1], one.update.path[1:]) for one in writes]
        self.ends = {leaf for value in results for leaf in used_vars(value)}

    def written(
        self, builder: BlockBuilder, whole: Mapping[Var, Var], number: Var
    ) -> dict[Var, Expr]:
        """The stacks with the new rows of a step."""
        readers = {stack: self._readers(row) for stack, row in self.rows.items()}
        reached = {reader for found in readers.values() for reader in found}
        once: dict[Expr, Var] = {}
        for gradient in self.gradients:
            # What XLA would compute of old rows in kernels that come after they were written.
            if isinstance(gradient, Var) and gradient in reached and self._is_inside(gradient):
                once[gradient] = builder.emit(get_op("relax.grad.once")(gradient), gradient.name)
        new: dict[Var, Expr] = dict(whole)
        for one, gradient in zip(self.writes, self.gradients, strict=True):
            given = builder.emit(as_part(once.get(gradient, gradient)), "gradient")
            known: dict[Expr, Expr] = {one.update.gradient: given, **self.parts}
            for stack in one.stacks:
                row = _emit_row(builder, one, stack, known)
                moments = [once.get(var, var) for var in readers[stack]]
                for moment in (*moments, *(new[other] for other in one.readers(stack))):
                    row = builder.emit(get_op("relax.grad.delay")(row, moment), "late")
                new[stack] = builder.emit(with_part(whole[stack], row, number), f"{stack.name}_new")
                if one.is_read_back(one.new[stack]):
                    # By a number that XLA does not know to be the same: else it would not read.
                    again = builder.emit(get_op("relax.grad.delay")(number, new[stack]), "again")
                    known[one.new[stack]] = builder.emit(part_of(new[stack], again), "part")
        return new

    def _readers(self, row: Var) -> list[Var]:
        """What is computed of a row, once it is no more than a part of a kernel."""
        found: dict[Var, None] = {}
        waiting, seen = [row], {row}
        if row in self.gradients:
            found[row] = None
        while waiting:
            for user in self.users.get(waiting.pop(), ()):
                if user in seen:
                    continue
                seen.add(user)
                is_end = user in self.ends or not self._is_inside(user)
                if is_end and has_floats(user.ty):
                    found[user] = None
                if self._is_inside(user) or not has_floats(user.ty):
                    waiting.append(user)
        return list(found)

    def _is_inside(self, var: Var) -> bool:
        """Whether XLA may compute a value in each kernel that reads it."""
        value = self.values.get(var)
        if not isinstance(value, Call):
            return True
        return isinstance(value.op, Op) and value.op.fusion in _INSIDE


def _emit_row(
    builder: BlockBuilder, writes: Writes, stack: Var, known: Mapping[Expr, Expr]
) -> Expr:
    """The new row of a stack, of rows and values that are known."""
    update, cone = writes.update, writes.cones[stack]
    found = dict(known)
    dims = getattr(stack.ty, "dims", None) or ()
    for var, call in update.calls.items():
        if var in cone and var not in found:
            args = tuple(
                found[a] if a in found else _number(a, update, dims[1:]) for a in call.args
            )
            found[var] = builder.emit(replace(call, args=args, ty=None), f"{var.name}_part")
    return found[update.new[stack]]


def _number(arg: Expr, update: Update, dims: Sequence[object]) -> Expr:
    """The number that fills an argument, spread over a row where it was over a stack."""
    number = update.numbers[arg]
    if isinstance(arg.ty, TensorType) and arg.ty.ndim == 0:
        return number
    return get_op("lax.broadcast_in_dim")(number, shape=[1, *dims], broadcast_dimensions=[])
