"""Updates that are made number by number of what a loop gives, and of what a step changes.

Of such an update each step of the loop can make its own part, as soon as it has what that is of.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function, VarBinding
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import has_floats
from relaxjax.ir.tuples import Path, fields_or_self, leaves
from relaxjax.ir.types import TensorType, same_type
from relaxjax.ir.uses import Uses, values_of_kind
from relaxjax.ir.walk import free_vars, used_vars
from relaxjax.ops.loop_types import known_steps_of
from relaxjax.ops.shapes import same_dims
from relaxjax.passes.simplification.tensors import is_elementwise, number_of

from ..program.caller import Place, note_place, written_out
from ..program.loop_pairs import loop_call
from ..program.step import size_of

# A set that keeps its order, so that a program is the same text in each process.
Ordered: TypeAlias = dict[Var, None]

# What a step changes: a field of its result, and the parameter whose memory that takes.
_RENEWED = {1: 0, 2: 1, 3: 2}


@dataclass(frozen=True)
class Update:
    """What is made number by number of a stack that a loop gives, the `gradient`.

    `calls` are in order, and `numbers` what fills arguments of theirs. `new` are the stacks in the
    step's parameters that they change or read, each with its new value: itself where it stays. All
    that is made of the gradient is `gone`, once the loop makes the new values.
    """

    path: Path  # to the gradient in the loop's result
    gradient: Var
    calls: Mapping[Var, Call]
    new: Mapping[Var, Var]
    numbers: Mapping[Expr, Expr]
    gone: frozenset[Var]


class StepProgram:
    """A training step as one function, without names for what has one."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.bindings = tuple(function.body.bindings())
        self.known = Uses.of(function)
        self.tuples: dict[Expr, Tuple] = dict(values_of_kind(self.bindings, Tuple).items())
        self.place_of: dict[Var, Place] = {v: (at,) for at, v in enumerate(function.params)}
        for binding in self.bindings:
            note_place(self.place_of, binding.var, binding.value)

    @cached_property
    def stacks(self) -> dict[Place, Var]:
        """The first variable for each tensor that a step changes."""
        found: dict[Place, Var] = {}
        for var, place in self.place_of.items():
            if place[0] in _RENEWED.values() and isinstance(var.ty, TensorType):
                found.setdefault(place, var)
        return found

    @cached_property
    def results(self) -> dict[Var, list[Place]]:
        """The values that the function returns, and whose places among the parameters they take.

        A result that takes none has an empty place.
        """
        found: dict[Var, list[Place]] = {}
        value = written_out(self.function.body.body, self.tuples)
        fields = fields_or_self(value)
        for at, field in enumerate(fields):
            for way, leaf in leaves(field):
                if isinstance(leaf, Var):
                    place = (_RENEWED[at], *way) if at in _RENEWED else ()
                    found.setdefault(leaf, []).append(place)
        return found

    def is_returned(self, var: Var) -> bool:
        """Whether it is a tuple that the function returns and nothing else takes."""
        return var in self.tuples and all(map(self.is_returned, self.known.users_of(var)))

    @cached_property
    def loops(self) -> list[VarBinding]:
        """The loops of a known number of steps, whose function is theirs alone."""
        return [b for b in self.bindings if isinstance(b, VarBinding) and self._is_loop(b)]

    def _is_loop(self, binding: VarBinding) -> bool:
        call = loop_call(binding)
        if call is None or call.op is not get_op("relax.scan") or call.args[2].ty is None:
            return False
        is_own = self.known.used_once(call.args[0])
        is_known = isinstance(self.known.value(call.args[0]), Function)
        return is_own and is_known and known_steps_of(call) is not None

    def updates(self, loop: VarBinding, least_bytes: int) -> list[Update]:
        """The updates of the stacks of so many bytes or more that the steps of a loop can make."""
        given = [
            (path, gradient)
            for path, gradient in self._given(loop.var)
            if has_floats(gradient.ty) and size_of(gradient) >= least_bytes
        ]
        beside = _Beside(self, loop) if given else None
        found: list[Update] = []
        taken: set[Var] = set()
        for path, gradient in given:
            update = None if beside is None else beside.update(path, gradient)
            if update is not None and taken.isdisjoint(update.new):
                found.append(update)
                taken.update(update.new)
        return found

    def _given(self, loop: Var) -> list[tuple[Path, Var]]:
        """The stacks that a loop gives, each of which is used under one name."""
        found: dict[Path, list[Var]] = {}
        whole: list[Path] = []  # what is used as a tuple
        waiting: list[tuple[Path, Var]] = [((), loop)]
        while waiting:
            path, var = waiting.pop()
            parts = [(user, self.known.value(user)) for user in self.known.users_of(var)]
            taken = [(u, part.index) for u, part in parts if isinstance(part, TupleGetItem)]
            if self.known.count(var) > len(taken):
                whole.append(path)
            for user, index in taken:
                way = (*path, index)
                if isinstance(user.ty, TensorType):
                    found.setdefault(way, []).append(user)
                else:
                    waiting.append((way, user))
        return [
            (way, names[0])
            for way, names in sorted(found.items())
            if way[0] == 1
            and len(names) == 1
            and not any(path == way[: len(path)] for path in whole)
        ]


class _Beside:
    """What of a function a loop depends on, and what depends on it."""

    def __init__(self, program: StepProgram, loop: VarBinding) -> None:
        self.program, self.known, self.loop = program, program.known, loop
        self.before: set[Var] = {loop.var}
        for binding in reversed(program.bindings):
            if binding.var in self.before:
                self.before.update(free_vars(binding.value))
        self.after: set[Var] = {loop.var}
        for binding in program.bindings:
            if not self.after.isdisjoint(free_vars(binding.value)):
                self.after.add(binding.var)

    def update(self, path: Path, gradient: Var) -> Update | None:
        """The update of a stack that the loop gives; None where it is not made number by number."""
        made = self._made_of(gradient)
        operands = None if made is None else self._operands(gradient, made)
        if made is None or operands is None:
            return None
        values, stacks, numbers = operands
        new = self._new({gradient: None, **values}, stacks)
        if new is None or not self._are_alone({*values, *new}, values):
            return None
        calls, names = self._calls(values)
        new = {stack: names.get(value, value) for stack, value in new.items()}
        return Update(path, gradient, calls, new, numbers, frozenset({gradient, *made}))

    def _calls(self, values: Ordered) -> tuple[dict[Var, Call], dict[Var, Var]]:
        """The calls of an update, in order, and which values are others that wait."""
        calls: dict[Var, Call] = {}
        names: dict[Var, Var] = {}
        for binding in self.program.bindings:
            call = binding.value
            if binding.var not in values or not isinstance(call, Call):
                continue
            args = tuple(names.get(a, a) if isinstance(a, Var) else a for a in call.args)
            if _waits(call) and isinstance(args[0], Var):
                names[binding.var] = args[0]
            else:
                calls[binding.var] = replace(call, args=args)
        return calls, names

    def _made_of(self, gradient: Var) -> Ordered | None:
        """What is computed of the gradient; None where that is not all number by number."""
        found: Ordered = {}
        waiting = [gradient]
        while waiting:
            var = waiting.pop()
            for user in self.known.users_of(var):
                value = self.known.value(user)
                if self.program.is_returned(user):
                    continue  # `_new` looks at results
                if not (_is_like(user, gradient) and (is_elementwise(value) or _waits(value, var))):
                    return None
                if user not in found:
                    found[user] = None
                    waiting.append(user)
        return found

    def _operands(
        self, gradient: Var, made: Iterable[Var]
    ) -> tuple[Ordered, Ordered, dict[Expr, Expr]] | None:
        """All values of an update, the stacks that it takes, and the numbers; None for others."""
        values, stacks, numbers = dict.fromkeys(made), Ordered(), dict[Expr, Expr]()
        waiting = list(values)
        while waiting:
            value = self.known.value(waiting.pop())
            assert isinstance(value, Call)
            args = value.args[:1] if _waits(value) else value.args
            for arg in args:
                if arg is gradient or arg in values or arg in stacks:
                    continue
                number = number_of(arg, self.known)
                if number is not None:
                    if not self.after.isdisjoint(used_vars(number)):
                        return None
                    numbers[arg] = number
                elif not isinstance(arg, Var) or not _is_like(arg, gradient):
                    return None
                elif self._stack(arg) is arg:
                    stacks[arg] = None
                elif is_elementwise(self.known.value(arg)):
                    values[arg] = None
                    waiting.append(arg)
                else:
                    return None
        return values, stacks, numbers

    def _stack(self, var: Var) -> Var | None:
        place = self.program.place_of.get(var)
        return None if place is None else self.program.stacks.get(place)

    def _new(self, values: Ordered, stacks: Ordered) -> dict[Var, Var] | None:
        """The stacks of an update, and their new values; None where others are made of it, too."""
        new: dict[Var, Var] = {}
        for var in (*values, *stacks):
            for place in self.program.results.get(var, ()):
                stack = self.program.stacks.get(place)
                if stack is None or not same_type(stack.ty, var.ty) or not has_floats(stack.ty):
                    return None
                new[stack] = var
        is_whole = stacks.keys() <= new.keys()
        return new if is_whole and not values.keys().isdisjoint(new.values()) else None

    def _are_alone(self, own: Iterable[Var], values: Ordered) -> bool:
        """Whether what else reads values and stacks comes before the loop has given anything."""
        for var in own:
            for user in self.known.users_of(var):
                is_known = user in values or user in self.before
                if not (is_known or self.program.is_returned(user)):
                    return False
        return True


def _is_like(var: Expr, gradient: Var) -> bool:
    one, other = var.ty, gradient.ty
    return (
        isinstance(one, TensorType)
        and isinstance(other, TensorType)
        and same_dims(one.dims, other.dims)
    )


def _waits(value: Expr | None, var: Var | None = None) -> bool:
    """Whether a value is another, which is `var`, once something else is computed."""
    is_delay = isinstance(value, Call) and value.op is get_op("relax.grad.delay")
    return is_delay and isinstance(value, Call) and var in (None, value.args[0])
