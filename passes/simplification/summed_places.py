"""Where sums over some axes may be made of what loops add up.

A sum goes through what gives the sum if it is given sums: additions, loops that carry what they add
up, and choices of a branch. It goes nowhere if anything else reads what is added up.
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


Place: TypeAlias = Var | Field


class SummedPlaces:
    """What of a function may be summed, by the loops and choices whose functions are their own."""

    def __init__(self, function: Function) -> None:
        self.known = Uses.of(function)
        self.controls: dict[Var, ControlCall] = {}
        self.owners: dict[Expr, Var] = {}  # of functions
        self.given: dict[Var, Field] = {}  # to parameters: the call, and which of those handed over
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
                self.given[param] = Field(var, index)
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

    def with_field(self, field: Field, axes: Axes) -> set[Place]:
        """All that is to be summed if one field is; nothing if it cannot be."""
        found: set[Place] = set()
        waiting: list[Place] = [field]
        while waiting:
            place = waiting.pop()
            if place in found:
                continue
            found.add(place)
            beside = (
                [self._field_made_of(place), self._field_readers(place)]
                if isinstance(place, Field)
                else [self._made_of(place), self._readers(place, axes)]
            )
            for more in beside:
                if more is None:
                    return set()
                waiting += more
        return found

    def _field_made_of(self, field: Field) -> list[Place] | None:
        control = self.controls[field.of]
        results = control.results(field.index)
        if not control.is_loop:
            return self._wanted(results)
        if field.index >= control.count:
            return None  # it is stacked
        wanted = self._wanted([*results, control.handed[field.index]])
        return [*control.params(field.index), *wanted]

    def _field_readers(self, field: Field) -> list[Place] | None:
        fields = {user: self._field(user) for user in self.known.users_of(field.of)}
        if self.known.count(field.of) != len(fields) or None in fields.values():
            return None  # all fields are handed on together
        return [user for user, other in fields.items() if other == field]

    def _made_of(self, var: Var) -> list[Place] | None:
        if var in self.given:
            source = self.given[var]
            control = self.controls[source.of]
            if control.is_loop:
                return [source]
            handed = control.handed[source.index]
            return [*control.params(source.index), *self._wanted([handed])]
        field = self._field(var)
        if field is not None:
            return [field]
        call = self._addition(var)
        return None if call is None else self._wanted(call.args)

    def _readers(self, var: Var, axes: Axes) -> list[Place] | None:
        found: list[Place] = [*self.returned.get(var, ())]
        count = len(found)
        for user, times in self.known.users.get(var, {}).items():
            more = self._reader(user, var, axes)
            if more is None:
                return None
            found += more
            count += times
        return found if count == self.known.count(var) else None

    def _reader(self, user: Var, var: Var, axes: Axes) -> list[Place] | None:
        """What becomes of a value that one binding uses."""
        if self._addition(user) is not None:
            return [user]
        control = self.controls.get(user)
        if control is None:
            return [] if _axes_of_sum(self.known.value(user)) == axes else None
        if control.call.args.count(var) > control.handed.count(var):
            return None  # a constant of a loop, or what it runs over
        places = [index for index, handed in enumerate(control.handed) if handed is var]
        if control.is_loop:
            return [Field(user, index) for index in places]
        return [param for index in places for param in control.params(index)]

    def _wanted(self, values: Iterable[Expr]) -> list[Place]:
        """Those that are read here alone, and are sums if what they are made of is."""
        return [
            value
            for value in values
            if isinstance(value, Var) and self.known.used_once(value) and self._is_made(value)
        ]

    def _is_made(self, var: Var) -> bool:
        is_given = var in self.given or self._field(var) is not None
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
