"""Optimizers that treat each number of a parameter by itself, as their functions prove it."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expr import Call, Expr, ShapeExpr, Var
from relaxjax.ir.function import Function, VarBinding
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType, dtype_name
from relaxjax.ir.walk import substitute, used_vars
from relaxjax.ops.shapes import same_dims
from relaxjax.passes.simplification.tensors import is_elementwise, number_of
from relaxjax.trainable.storage import Storage

from .row_formula import PARAMS, STATES, OptimizerFunction
from .stack_layers import rows_of
from .update import loss_of, tensor_type, unpacked, with_dtype, written_update

# What an update takes of one parameter: which of the three tuples it is in, and of states the run.
Key: TypeAlias = tuple[int, int]


class Run(NamedTuple):
    """One state for each parameter, of its shape, from the state `start` on; or a single number.

    `owners` are the numbers of these parameters in the order of the states: optax goes by name.
    """

    start: int
    owners: tuple[int, ...] = ()

    @property
    def is_single(self) -> bool:
        return not self.owners


class BoundOptimizer(Protocol):
    """An optimizer that knows its parameters: its update as a function, and its first state.

    `state_names` tell its states from those of others, where their types do not. `state_owners` say
    of which parameter, by its number, each state is, as a momentum is; None for the others.
    """

    @property
    def state(self) -> Any: ...

    @property
    def state_names(self) -> Sequence[str]:
        return ()

    @property
    def state_owners(self) -> Sequence[int | None]:
        return ()

    def get_function(self) -> Function: ...


def runs_of(
    states: Sequence[Any], params: Sequence[Var], owners: Sequence[int | None] = ()
) -> list[Run] | None:
    """The states as single numbers and runs; None where some are neither.

    `owners` say which parameter each state is of, as far as that is known.
    """
    found: list[Run] = []
    place = 0
    while place < len(states):
        order = run_at(states[place:], params, owners[place:])
        if not order and np.shape(states[place]) != ():
            return None
        found.append(Run(place, order))
        place += len(order) or 1
    return found


def run_at(
    states: Sequence[Any], params: Sequence[Var], owners: Sequence[int | None] = ()
) -> tuple[int, ...]:
    """The owners of the states in front, one of each parameter, of its shape; else none.

    Where it is not said whose they are, they are in the order of the parameters.
    """
    dims = [tuple(tensor_type(param).dims or ()) for param in params]
    shapes = [np.shape(state) for state in states[: len(dims)]]
    said = tuple(owner for owner in owners[: len(dims)] if owner is not None)
    order = said if sorted(said) == list(range(len(dims))) else tuple(range(len(dims)))
    return order if shapes == [dims[number] for number in order] else ()


def update_by_number(ready: BoundOptimizer, params: Sequence[Var]) -> "UpdateByNumber | None":
    """The update of an optimizer, if its function proves that each number goes by itself.

    All that depends on a parameter, on its gradient or on its states is computed of these number by
    number, and of single numbers that depend on no parameter: there is no norm and no mean, and
    nothing of another parameter. None where that is not seen.
    """
    runs = runs_of(ready.state, params, getattr(ready, "state_owners", ()))
    if runs is None:
        return None
    read = OptimizerFunction(ready.get_function())
    found = UpdateByNumber(tuple(ready.state), tuple(params), runs, read)
    return found if found.is_proven else None


@dataclass(frozen=True)
class UpdateByNumber:
    """How an optimizer updates parameters, of which its function `read` has one after the other."""

    state: tuple[Any, ...]
    params: tuple[Var, ...]
    runs: Sequence[Run]
    read: OptimizerFunction

    @cached_property
    def owned_states(self) -> dict[int, tuple[int, int]]:
        """The parameter that a state is of, and its run; single numbers are not among them."""
        return {
            at: (number, place)
            for place, run in enumerate(self.runs)
            for at, number in enumerate(run.owners, run.start)
        }

    @cached_property
    def inputs(self) -> dict[Var, tuple[int, Key]]:
        """The variables for what belongs to a parameter: which that is, and what of it."""
        found: dict[Var, tuple[int, Key]] = {}
        for var, (group, index) in self.read.inputs.items():
            if group != STATES:
                found[var] = index, (group, 0)
            elif index in self.owned_states:
                number, run = self.owned_states[index]
                found[var] = number, (STATES, run)
        return found

    @cached_property
    def owners(self) -> dict[Var, int] | None:
        """The parameter that variables depend on; None where some do so not number by number."""
        found = {var: number for var, (number, _) in self.inputs.items()}
        for binding in self.read.function.body.bindings():
            if binding.var in self.read.inputs or binding.var in self.read.tuples:
                continue
            numbers = {found[var] for var in used_vars(binding.value) if var in found}
            if not numbers:
                continue
            if len(numbers) > 1 or not isinstance(binding, VarBinding):
                return None
            (found[binding.var],) = numbers
            if not self._is_by_number(binding, found):
                return None
        return found

    def _is_by_number(self, binding: VarBinding, owners: Mapping[Var, int]) -> bool:
        call, dims = binding.value, tensor_type(self.params[owners[binding.var]]).dims
        if not isinstance(call, Call) or not is_elementwise(call):
            return False
        own = [arg for arg in call.args if arg in owners]
        others = [arg for arg in call.args if arg not in owners]
        return all(_has_dims(each, dims) for each in (binding.var, *own)) and all(
            number_of(other, self.read.known) is not None for other in others
        )

    @property
    def is_proven(self) -> bool:
        """Whether the new values of each parameter are made of its own alone."""
        owners = self.owners
        if owners is None or any(len(fields) != count for fields, count in self._results()):
            return False
        params, states = self.read.results
        of_states = (self.owned_states.get(at, (None,))[0] for at in range(len(states)))
        wanted = [*range(len(params)), *of_states]
        return [owners.get(f) if isinstance(f, Var) else None for f in (*params, *states)] == wanted

    def _results(self) -> Iterator[tuple[Sequence[Expr], int]]:
        return zip(self.read.results, (len(self.params), len(self.state)), strict=True)

    def result(self, number: int, key: Key) -> Expr:
        """The new value of something of a parameter."""
        group, run = key
        if group == PARAMS:
            return self.read.results[0][number]
        return self.read.results[1][self._place(self.runs[run], number)]

    @staticmethod
    def _place(run: Run, number: int) -> int:
        """Where the state of a parameter is."""
        return run.start + run.owners.index(number)

    @property
    def keys(self) -> list[Key]:
        """What of each parameter has a new value."""
        runs = [(int(STATES), at) for at, run in enumerate(self.runs) if not run.is_single]
        return [(PARAMS, 0), *runs]

    def calls(self, number: int) -> Iterator[tuple[Var, Call]]:
        """What is computed number by number for a parameter, in order."""
        owners = self.owners or {}
        for binding in self.read.function.body.bindings():
            is_own = owners.get(binding.var) == number and binding.var not in self.inputs
            if is_own and isinstance(binding.value, Call):
                yield binding.var, binding.value

    def formula(self, number: int) -> list[Hashable]:
        """What makes the new values of a parameter: equal for those that are updated alike."""
        names: dict[Expr, Hashable] = {
            var: key for var, (owner, key) in self.inputs.items() if owner == number
        }
        found: list[Hashable] = []
        for var, call in self.calls(number):
            names[var] = len(found)
            args = tuple(names[a] if a in names else self._number(a) for a in call.args)
            found.append((call.op, call.attrs, args, tensor_type(var).dtype))
        return [*found, *(names[self.result(number, key)] for key in self.keys)]

    def _number(self, arg: Expr) -> Hashable:
        return "number", tensor_type(arg).ndim == 0, number_of(arg, self.read.known)

    def stored(self, arrays: Sequence[Var], storage: Storage) -> "StoredUpdate":
        """The same for the arrays in which the parameters are stored."""
        states: list[np.ndarray[Any, Any]] = []
        for run in self.runs:
            if run.is_single:
                states.append(np.asarray(self.state[run.start]))
                continue
            own = [self.state[self._place(run, n)] for n in range(len(self.params))]
            states += map(np.asarray, storage.inside(own))
        writer = _Writer(self, tuple(arrays), storage, [dtype_name(s.dtype) for s in states])
        return StoredUpdate(tuple(states), writer.function())


@dataclass(frozen=True)
class StoredUpdate:
    """The update of stored arrays, as an optimizer that knows its parameters."""

    state: tuple[Any, ...]
    function: Function
    state_names: Sequence[str] = ()
    state_owners: Sequence[int | None] = ()

    def get_function(self) -> Function:
        return self.function


class _Writer:
    """Writes the update of arrays in which parameters are stored, each by the formula of its own.

    Rows of a stack that are updated in several ways are taken out of it, and put together again.
    """

    def __init__(
        self,
        update: UpdateByNumber,
        arrays: Sequence[Var],
        storage: Storage,
        state_dtypes: Sequence[str],
    ) -> None:
        self.update, self.arrays, self.members = update, arrays, storage.members
        self.state_dtypes = state_dtypes
        # Where each run begins among the stored states.
        self.starts = [0]
        for run in update.runs:
            self.starts.append(self.starts[-1] + (1 if run.is_single else len(arrays)))

    def function(self) -> Function:
        arrays, self.loss = list(map(tensor_type, self.arrays)), loss_of(self.update.read.function)
        types = arrays, arrays, list(self._state_types())
        return remove_all_unused(written_update(types, self.loss, self._write))

    def _write(self, builder: BlockBuilder, *given: Var) -> tuple[list[Expr], list[Expr]]:
        self.builder = builder
        values, gradients, states = (unpacked(builder, var) for var in given)
        self.singles = self._emit_singles(states)
        return self._updated((values, gradients), states)

    def _state_types(self) -> Iterator[TensorType]:
        """The types of the states: those of a run lie as the arrays do."""
        for start, run in zip(self.starts, self.update.runs, strict=False):
            if run.is_single:
                yield TensorType((), self.state_dtypes[start])
            else:
                for place, array in enumerate(self.arrays, start):
                    yield with_dtype(tensor_type(array), self.state_dtypes[place])

    def _emit_singles(self, states: Sequence[Expr]) -> dict[Var, Expr]:
        """What depends on no parameter, by the variables of the optimizer's own function."""
        read, owners = self.update.read, self.update.owners or {}
        runs = zip(self.starts, self.update.runs, strict=False)
        at = {run.start: states[start] for start, run in runs if run.is_single}
        known: dict[Var, Expr] = {
            var: at[index]
            for var, (group, index) in read.inputs.items()
            if group == STATES and index in at
        }
        known |= zip(read.function.params[STATES + 1 :], self.loss, strict=True)
        for binding in read.function.body.bindings():
            var = binding.var
            if not (var in known or var in owners or var in read.tuples):
                known[var] = self.builder.emit(substitute(binding.value, known), var.name)
        return known

    def _updated(
        self, given: tuple[Sequence[Expr], Sequence[Expr]], states: Sequence[Expr]
    ) -> tuple[list[Expr], list[Expr]]:
        """The new arrays and states."""
        update, params, new = self.update, list[Expr](), list(states)
        for start, run in zip(self.starts, update.runs, strict=False):
            if run.is_single:
                new[start] = substitute(update.read.results[1][run.start], self.singles)
        for place, rows in enumerate(self.members):
            own: dict[Key, Expr] = {(group, 0): of[place] for group, of in enumerate(given)}
            at = {key: self.starts[key[1]] + place for key in update.keys[1:]}
            found = self._array(rows, own | {key: states[start] for key, start in at.items()})
            params.append(found[PARAMS, 0])
            for key, start in at.items():
                new[start] = found[key]
        return params, new

    def _array(self, rows: Sequence[int], own: Mapping[Key, Expr]) -> dict[Key, Expr]:
        """The new values of an array, which has so many parameters."""
        first, *others = (self.update.formula(number) for number in rows)
        if all(formula == first for formula in others):
            return self._one(rows[0], own)
        names = [self.update.params[number].name for number in rows]
        parts = {key: rows_of(self.builder, value, names) for key, value in own.items()}
        new = [
            self._one(number, {key: values[at] for key, values in parts.items()})
            for at, number in enumerate(rows)
        ]
        stack = get_op("relax.stack")
        return {
            key: self.builder.emit(stack([one[key] for one in new], axis=0))
            for key in self.update.keys
        }

    def _one(self, number: int, own: Mapping[Key, Expr]) -> dict[Key, Expr]:
        """The new values by the formula of a parameter, of what is given instead of its own."""
        update = self.update
        known: dict[Expr, Expr] = {
            var: own[key] for var, (owner, key) in update.inputs.items() if owner == number
        }
        dims = tensor_type(own[PARAMS, 0]).dims
        assert dims is not None
        shape = ShapeExpr(dims)
        # Rows of numbers: what stood beside one stands beside all of them, spread like them.
        is_row = bool(dims) and tensor_type(update.params[number]).ndim == 0
        for var, call in update.calls(number):
            args = tuple(
                known[a] if a in known else self._filled(a, shape, is_row) for a in call.args
            )
            known[var] = self.builder.emit(replace(call, args=args, ty=None), var.name)
        return {key: known[update.result(number, key)] for key in update.keys}

    def _filled(self, arg: Expr, shape: ShapeExpr, is_row: bool) -> Expr:
        """A single number, spread over an array where it was spread over a parameter."""
        number = number_of(arg, self.update.read.known)
        assert number is not None
        known = substitute(number, self.singles)
        if tensor_type(arg).ndim == 0 and not is_row:
            return known
        return get_op("relax.broadcast_to")(known, shape)


def _has_dims(expr: Expr, dims: Any) -> bool:
    return isinstance(expr.ty, TensorType) and same_dims(expr.ty.dims, dims)
