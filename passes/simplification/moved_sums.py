"""Which sums over axes may move into loops, and which values are sums then.

A sum moves through what gives a sum if it is given sums: additions, carries of loops, and choices
of a branch. It stays where anything else reads a value that it would move through.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function
from relaxjax.ir.op import operator_name
from relaxjax.ir.tensor_types import known_dtype, known_ndim, static_dims
from relaxjax.ir.uses import Uses
from relaxjax.ops.control_call import ControlCall

from .tensors import has_shape_of

_LINEAR = frozenset({"lax.add", "lax.add_any", "lax.sub", "lax.neg"})
# In half precision, what is added to a large sum is lost.
_DTYPES = frozenset({"float32", "float64"})

Axes: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Field:
    """A field of what a loop or a choice gives."""

    of: Var
    index: int


Summed: TypeAlias = Var | Field


class MovedSums:
    """The sums of a function that may move into loops, whose functions are theirs alone."""

    def __init__(self, function: Function) -> None:
        self.known = Uses.of(function)
        self.controls: dict[Var, ControlCall] = {}
        self.owners: dict[Expr, Var] = {}  # of functions
        self.sources: dict[Var, tuple[Var, int]] = {}  # of parameters: a call, and what it hands on
        self.returned: dict[Expr, list[Field]] = {}
        for var, value in self.known.values.items():
            control = ControlCall.of(value, self.known)
            if control is not None and self._is_apart(control):
                self._enter(var, control)

    def _is_apart(self, control: ControlCall) -> bool:
        """Whether the functions are its own, and what is added up is added up for all samples."""
        # A condition for each of a batch goes on for some, while others stay as they are.
        condition = control.condition
        is_one = condition is None or known_ndim(condition.body.body) == 0
        return is_one and all(map(self.known.used_once, control.names))

    def _enter(self, var: Var, control: ControlCall) -> None:
        self.controls[var] = control
        self.owners |= dict.fromkeys(control.names, var)
        for index in range(control.count):
            for param in control.params(index):
                self.sources[param] = var, index
        for end in control.ends:
            for index, result in enumerate(end.fields if isinstance(end, Tuple) else ()):
                self.returned.setdefault(result, []).append(Field(var, index))

    def sums(self) -> Iterator[tuple[Field, Axes]]:
        """What loops carry of which a sum is read, and the axes that it is over."""
        for value in self.known.values.values():
            axes = _axes_of_sum(value)
            if axes is None or not isinstance(value, Call):
                continue
            dims = static_dims(value.args[0].ty)
            if dims is None or known_dtype(value) not in _DTYPES:
                continue
            if math.prod(dims[axis] for axis in axes) > 1:
                for field in self._added(value.args[0]):
                    yield field, axes

    def _added(self, value: Expr) -> Iterator[Field]:
        """What loops carry of a sum of several values, or as it is."""
        waiting = [value]
        while waiting:
            one = waiting.pop()
            field = self._field(one)
            if field is not None and self.controls[field.of].is_loop:
                yield field
            elif isinstance(one, Var) and self.known.used_once(one):
                call = self._addition(one)
                waiting += () if call is None else call.args

    def _field(self, var: Expr) -> Field | None:
        value = self.known.value(var)
        if not isinstance(value, TupleGetItem) or not isinstance(value.tuple_value, Var):
            return None
        return Field(value.tuple_value, value.index) if value.tuple_value in self.controls else None

    def with_field(self, field: Field, axes: Axes) -> set[Summed]:
        """All that is to be summed if one field is; nothing if it cannot be."""
        found: set[Summed] = set()
        waiting: list[Summed] = [field]
        while waiting:
            one = waiting.pop()
            if one in found:
                continue
            found.add(one)
            for more in (self._made_of(one), self._readers(one, axes)):
                if more is None:
                    return set()
                waiting += more
        return found

    def _field_made_of(self, field: Field) -> list[Summed] | None:
        control = self.controls[field.of]
        results = control.results(field.index)
        if not control.is_loop:
            return self._wanted(results)
        if field.index >= control.count:
            return None  # it is stacked
        wanted = self._wanted([*results, control.handed[field.index]])
        return [*control.params(field.index), *wanted]

    def _field_readers(self, field: Field) -> list[Summed] | None:
        fields = {user: self._field(user) for user in self.known.users_of(field.of)}
        if self.known.count(field.of) != len(fields) or None in fields.values():
            return None  # all fields are handed on together
        return [user for user, other in fields.items() if other == field]

    def _made_of(self, var: Summed) -> list[Summed] | None:
        if isinstance(var, Field):
            return self._field_made_of(var)
        if var in self.sources:
            of, index = self.sources[var]
            control = self.controls[of]
            if control.is_loop:
                return [Field(of, index)]
            return [*control.params(index), *self._wanted([control.handed[index]])]
        field = self._field(var)
        if field is not None:
            return [field]
        call = self._addition(var)
        return None if call is None else self._wanted(call.args)

    def _readers(self, var: Summed, axes: Axes) -> list[Summed] | None:
        if isinstance(var, Field):
            return self._field_readers(var)
        found: list[Summed] = [*self.returned.get(var, ())]
        count = len(found)
        for user, times in self.known.users.get(var, {}).items():
            more = self._reader(user, var, axes)
            if more is None:
                return None
            found += more
            count += times
        return found if count == self.known.count(var) else None

    def _reader(self, user: Var, var: Var, axes: Axes) -> list[Summed] | None:
        """What becomes of a value that one binding uses."""
        if self._addition(user) is not None:
            return [user]
        control = self.controls.get(user)
        if control is None:
            return [] if _axes_of_sum(self.known.value(user)) == axes else None
        if control.call.args.count(var) > control.handed.count(var):
            return None  # a constant of a loop, or what it runs over
        indices = [index for index, handed in enumerate(control.handed) if handed is var]
        if control.is_loop:
            return [Field(user, index) for index in indices]
        return [param for index in indices for param in control.params(index)]

    def _wanted(self, values: Iterable[Expr]) -> list[Summed]:
        """Those that are read here alone, and are sums if what they are made of is."""
        return [
            value
            for value in values
            if isinstance(value, Var) and self.known.used_once(value) and self._is_made(value)
        ]

    def _is_made(self, var: Var) -> bool:
        is_given = var in self.sources or self._field(var) is not None
        return is_given or self._addition(var) is not None

    def _addition(self, var: Var) -> Call | None:
        """The addition of tensors of one shape that gives a variable."""
        value = self.known.value(var)
        if not isinstance(value, Call) or operator_name(value) not in _LINEAR:
            return None
        return value if all(has_shape_of(arg, value) for arg in value.args) else None


def _axes_of_sum(value: Expr | None) -> Axes | None:
    """What a sum is over, None for what is none, or is to lie in parts on several devices."""
    if not isinstance(value, Call) or operator_name(value) != "lax.reduce_sum":
        return None
    return tuple(value.attrs["axes"]) if len(value.attrs) == 1 else None
