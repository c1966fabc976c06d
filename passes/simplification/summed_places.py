"""Where sums over some axes may be made of what loops add up.

A sum goes through what gives the sum if it is given sums: additions, loops that carry what they add
up, and choices of a branch. It goes nowhere if anything else reads what is added up.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function
from relaxjax.ir.op import operator_name
from relaxjax.ir.tensor_types import known_dtype, known_ndim, static_dims
from relaxjax.ir.types import FuncType
from relaxjax.ir.uses import Uses

from .tensors import has_shape_of

_LOOP, _CHOICE, _SUM = "lax.while_loop", "lax.switch", "lax.reduce_sum"
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


@dataclass(frozen=True)
class Calling:
    """A loop with its condition and its body, or a choice with its branches.

    Behind `first` arguments come those that a loop carries, or that a choice hands to its branches.
    Each function gets so many others before, as `skipped` tells.
    """

    call: Call
    functions: tuple[Function, ...]
    first: int
    skipped: tuple[int, ...]
    is_loop: bool

    @property
    def handed(self) -> Sequence[Expr]:
        return self.call.args[self.first :]

    @property
    def ends(self) -> list[Expr]:
        """What the body gives, or each of the branches."""
        givers = self.functions[1:] if self.is_loop else self.functions
        return [function.body.body for function in givers]

    def results(self, index: int) -> list[Expr]:
        """What these give for one field."""
        return [end.fields[index] for end in self.ends if isinstance(end, Tuple)]

    def params(self, index: int) -> list[Var]:
        """The parameters that get one of those that are handed over."""
        pairs = zip(self.functions, self.skipped, strict=True)
        return [function.params[skipped + index] for function, skipped in pairs]


class SummedPlaces:
    """What of a function may be summed, by the loops and choices whose functions are their own."""

    def __init__(self, function: Function) -> None:
        self.known = Uses.of(function)
        self.callings: dict[Var, Calling] = {}
        self.owners: dict[Expr, Var] = {}  # of functions
        self.given: dict[Var, Field] = {}  # to parameters: the call, and which of those handed over
        self.returned: dict[Expr, list[Field]] = {}
        for var, value in self.known.values.items():
            calling = self._calling(var, value) if isinstance(value, Call) else None
            if calling is not None and all(isinstance(end, Tuple) for end in calling.ends):
                self._enter(var, calling)

    def _calling(self, var: Var, call: Call) -> Calling | None:
        name = operator_name(call)
        if name not in (_LOOP, _CHOICE):
            return None
        taken = [arg for arg in call.args if isinstance(arg.ty, FuncType)]
        values = [self.known.value(arg) for arg in taken if self.known.used_once(arg)]
        functions = tuple(value for value in values if isinstance(value, Function))
        if len(functions) < len(taken):
            return None
        if name == _LOOP and known_ndim(functions[0].body.body) != 0:
            return None  # it goes on for some samples of a batch, and for others no more
        self.owners |= dict.fromkeys(taken, var)
        if name == _LOOP:
            skipped = call.attrs["cond_consts"], call.attrs["body_consts"]
            return Calling(call, functions, 2 + sum(skipped), skipped, True)
        return Calling(call, functions, 1 + len(functions), (0,) * len(functions), False)

    def _enter(self, var: Var, calling: Calling) -> None:
        self.callings[var] = calling
        for index in range(len(calling.handed)):
            for param in calling.params(index):
                self.given[param] = Field(var, index)
        for end in calling.ends:
            for index, result in enumerate(end.fields if isinstance(end, Tuple) else ()):
                self.returned.setdefault(result, []).append(Field(var, index))

    def sums(self) -> Iterator[tuple[Field, Axes]]:
        """What loops carry of which a sum is read, and the axes that it is over."""
        for value in self.known.values.values():
            if not isinstance(value, Call) or operator_name(value) != _SUM:
                continue
            field, axes = self._field(value.args[0]), tuple(value.attrs["axes"])
            if field is None or not self.callings[field.of].is_loop:
                continue
            dims = static_dims(value.args[0].ty)
            if dims is None or known_dtype(value) not in _DTYPES:
                continue
            if math.prod(dims[axis] for axis in axes) > 1:
                yield field, axes

    def _field(self, var: Expr) -> Field | None:
        value = self.known.value(var)
        if not isinstance(value, TupleGetItem) or not isinstance(value.tuple_value, Var):
            return None
        return Field(value.tuple_value, value.index) if value.tuple_value in self.callings else None

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

    def _field_made_of(self, field: Field) -> list[Place]:
        calling = self.callings[field.of]
        results = calling.results(field.index)
        if not calling.is_loop:
            return self._wanted(results)
        wanted = self._wanted([*results, calling.handed[field.index]])
        return [*calling.params(field.index), *wanted]

    def _field_readers(self, field: Field) -> list[Place] | None:
        fields = {user: self._field(user) for user in self.known.users_of(field.of)}
        if self.known.count(field.of) != len(fields) or None in fields.values():
            return None  # all fields are handed on together
        return [user for user, other in fields.items() if other == field]

    def _made_of(self, var: Var) -> list[Place] | None:
        if var in self.given:
            source = self.given[var]
            calling = self.callings[source.of]
            if calling.is_loop:
                return [source]
            handed = calling.handed[source.index]
            return [*calling.params(source.index), *self._wanted([handed])]
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
        calling = self.callings.get(user)
        if calling is None:
            call = self.known.value(user)
            if not isinstance(call, Call) or operator_name(call) != _SUM:
                return None
            return [] if tuple(call.attrs["axes"]) == axes else None
        if var in calling.call.args[: calling.first]:
            return None  # a constant of a loop
        places = [index for index, handed in enumerate(calling.handed) if handed is var]
        if calling.is_loop:
            return [Field(user, index) for index in places]
        return [param for index in places for param in calling.params(index)]

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
