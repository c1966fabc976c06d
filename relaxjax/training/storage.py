"""Arrays as a step has them: as rows of a stack or with their axes moved, for what the user has."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from relaxjax.ir.expr import Var
from relaxjax.ir.layout import inverse
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType, Type

from .door import tensor_type

# The attributes that say where each of the user's parameters is, and each of their states.
STORED_PARAMS = "stored_params"
STORED_OPTIM_STATES = "stored_optim_states"


class Place(NamedTuple):
    """Where one of the user's arrays is: in which array, in which row or -1, its axes in an order.

    The order is empty where they are as the user has them.
    """

    array: int
    row: int = -1
    order: tuple[int, ...] = ()

    def outside(self, stored: Any) -> Any:
        """The user's array, of the stored one; None where that has no value."""
        value = stored if self.row < 0 or stored is None else stored[self.row]
        if value is None or not self.order:
            return value
        return jnp.transpose(value, inverse(self.order))

    def inside(self, own: Any) -> Any:
        """What is stored, of the user's array."""
        return jnp.transpose(own, self.order) if own is not None and self.order else own

    def type_of(self, stored: Var) -> Type | None:
        """The type of the user's array, of the stored one's."""
        if self.row < 0 and not self.order:
            return stored.ty
        ty = tensor_type(stored)
        assert ty.dims is not None
        dims = ty.dims if self.row < 0 else ty.dims[1:]
        own = tuple(dims[axis] for axis in inverse(self.order)) if self.order else dims
        return TensorType(own, ty.dtype, vdevice=ty.vdevice)


@dataclass(frozen=True)
class Storage:
    """The places of the user's arrays, in their order, among those of a step."""

    places: tuple[Place, ...]

    @staticmethod
    def apart(count: int) -> "Storage":
        """Every array is its own."""
        return Storage(tuple(Place(number) for number in range(count)))

    def apart_of(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The user's arrays; of a stack without a value, whatever parts it has."""
        return tuple(place.outside(arrays[place.array]) for place in self.places)

    def together(self, own: Sequence[Any]) -> tuple[Any, ...]:
        """The arrays of a step; a stack whose parts have no values yet stays in parts."""
        moved = [place.inside(array) for place, array in zip(self.places, own, strict=True)]
        return tuple(
            moved[rows[0]] if self.places[rows[0]].row < 0 else _stacked([moved[n] for n in rows])
            for rows in self.members
        )

    @property
    def members(self) -> list[list[int]]:
        """The numbers of the user's arrays in each array, a row after the other."""
        found: dict[int, dict[int, int]] = {}
        for number, place in enumerate(self.places):
            found.setdefault(place.array, {})[place.row] = number
        return [[rows[row] for row in sorted(rows)] for _, rows in sorted(found.items())]

    @property
    def orders(self) -> list[list[int]]:
        """The order in which each of the user's arrays is stored, empty where it is its own."""
        return [list(place.order) for place in self.places]


def _stacked(parts: Sequence[Any]) -> Any:
    """A stack, or the parts themselves as long as some are missing."""
    if all(part is None for part in parts):
        return None
    return tuple(parts) if any(part is None for part in parts) else jnp.stack(parts)


Own = tuple[tuple[Var, ...], Storage]


def params_of(mod: IRModule, params: tuple[Var, ...]) -> Own:
    """The user's parameters behind those of a module's functions, and where they are."""
    stored = mod.attrs.get(STORED_PARAMS)
    if stored is None:
        return params, Storage.apart(len(params))
    places = tuple(Place(array, row, tuple(order)) for _, array, row, order in stored)
    own = (
        Var(name, place.type_of(params[place.array]))
        for (name, *_), place in zip(stored, places, strict=True)
    )
    return tuple(own), Storage(places)


def states_of(mod: IRModule, states: tuple[Var, ...]) -> Own:
    """The optimizer's states by their index, as they are without that, and where they are."""
    stored = mod.attrs.get(STORED_OPTIM_STATES)
    if stored is None:
        return states, Storage.apart(len(states))
    places = tuple(Place(array, row, tuple(order)) for array, row, order in stored)
    own = (
        Var(str(index), place.type_of(states[place.array])) for index, place in enumerate(places)
    )
    return tuple(own), Storage(places)
