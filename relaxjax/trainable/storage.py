"""Where the user's arrays lie among those of a step: as rows of a stack, with their axes moved."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.dtypes import canonicalize_dtype, extended

from relaxjax.ir.expr import Var
from relaxjax.ir.layout import Order, inverse
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType, TupleType, Type

from .names import OPTIMIZER, PARAM_NUM, STORED_OPTIM_STATES, STORED_PARAMS
from .records import by_name, read, written


@dataclass(frozen=True, slots=True)
class Place:
    """Where one of the user's arrays is: in which array, in which row of that if it is a stack.

    Its axes are stored in an order, which is empty where they are as the user has them.
    """

    array: int
    row: int | None = None
    order: Order = ()

    def outside(self, stored: Any) -> Any:
        """The user's array, of the stored one; None where that has no value."""
        if isinstance(stored, tuple) and self.row is not None:  # a stack in parts
            return Place(self.array, None, self.order).outside(stored[self.row])
        if stored is None or (self.row is None and not self.order):
            return stored

        def change(array: Any) -> Any:
            own = array if self.row is None else array[self.row]
            return own.transpose(inverse(self.order)) if self.order else own

        return rearranged(change, stored)

    def inside(self, own: Any) -> Any:
        """What is stored, of the user's array."""
        if own is None or not self.order:
            return own
        return rearranged(lambda array: array.transpose(self.order), own)

    def type_of(self, stored: Var) -> Type | None:
        """The type of the user's array, of the stored one's."""
        if self.row is None and not self.order:
            return stored.ty
        ty = stored.ty
        assert isinstance(ty, TensorType)
        assert ty.dims is not None
        dims = ty.dims if self.row is None else ty.dims[1:]
        own = tuple(dims[axis] for axis in inverse(self.order)) if self.order else dims
        placement = ty.placement
        if placement is not None and self.row is not None:
            placement = placement.behind(-1)
        if placement is not None and self.order:
            placement = placement.in_order(inverse(self.order))
        return TensorType(own, ty.dtype, vdevice=ty.vdevice, placement=placement)


@dataclass(frozen=True)
class Storage:
    """The places of the user's arrays, in their order, among those of a step."""

    places: tuple[Place, ...]

    @staticmethod
    def apart(count: int) -> "Storage":
        """Every array is its own, as it is."""
        return Storage(tuple(Place(number) for number in range(count)))

    @property
    def is_apart(self) -> bool:
        return self == Storage.apart(len(self.places))

    def moved(self, orders: Mapping[int, Order]) -> "Storage":
        """The same with some of the user's arrays, by their numbers, stored in another order."""
        return Storage(
            tuple(replace(p, order=orders.get(n, p.order)) for n, p in enumerate(self.places))
        )

    def stacked(self, groups: Sequence[Sequence[int]]) -> "Storage":
        """The same with groups of arrays, by their numbers, the rows of one.

        That stands where the first of them stood.
        """
        first = {group[0]: group for group in groups}
        rows = {number for group in groups for number in group}
        alone = (n for n in range(len(self.members)) if n in first or n not in rows)
        found: dict[int, tuple[int, int | None]] = {}
        for array, number in enumerate(alone):
            group = first.get(number)
            numbers = [(number, None)] if group is None else [(n, i) for i, n in enumerate(group)]
            found |= {n: (array, row) for n, row in numbers}
        places = []
        for place in self.places:
            array, row = found[place.array]
            places.append(replace(place, array=array, row=row))
        return Storage(tuple(places))

    @property
    def members(self) -> list[tuple[int, ...]]:
        """The numbers of the user's arrays in each array, a row after the other."""
        found: dict[int, dict[int, int]] = {}
        for number, place in enumerate(self.places):
            found.setdefault(place.array, {})[place.row or 0] = number
        return [tuple(rows[row] for row in sorted(rows)) for _, rows in sorted(found.items())]

    @property
    def stacks(self) -> list[tuple[int, ...]]:
        """The members of those arrays that are stacks."""
        return [rows for rows in self.members if self.places[rows[0]].row is not None]

    def outside(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The user's arrays; of a stack without a value, whatever parts it has."""
        return tuple(place.outside(arrays[place.array]) for place in self.places)

    def inside(self, own: Sequence[Any]) -> tuple[Any, ...]:
        """The arrays of a step; a stack whose parts have no values yet stays in parts."""
        moved = [place.inside(array) for place, array in zip(self.places, own, strict=True)]
        stacks = self.stacks
        return tuple(
            _stacked([moved[n] for n in rows]) if rows in stacks else moved[rows[0]]
            for rows in self.members
        )

    def types_outside(self, arrays: Sequence[Var]) -> list[Type | None]:
        """The types of the user's arrays, of the variables for those of a step."""
        return [place.type_of(arrays[place.array]) for place in self.places]


def _stacked(parts: Sequence[Any]) -> Any:
    """A stack, or the parts themselves as long as some are missing."""
    if all(part is None for part in parts):
        return None
    if any(part is None for part in parts):
        return tuple(parts)
    return rearranged(lambda *arrays: (np if is_numpy(arrays) else jnp).stack(arrays), *parts)


Own = tuple[tuple[Var, ...], Storage]


def params_of(mod: IRModule, arrays: Sequence[Var]) -> Own:
    """The user's parameters behind those that the functions of a module take, and their storage."""
    stored = mod.attrs.get(STORED_PARAMS)
    if stored is None:
        return tuple(arrays), Storage.apart(len(arrays))
    names, places = [], []
    for entry in stored:
        fields = dict(by_name(("name", "array", "row", "order"), entry))
        names.append(fields.pop("name"))
        places.append(Place(**fields))
    return _own(Storage(tuple(places)), names, arrays)


def stored_states(mod: IRModule) -> tuple[Var, ...]:
    """The arrays in the state of the optimizer, as variables that are named by their index."""
    ty = mod[OPTIMIZER].params[2].ty
    assert isinstance(ty, TupleType)
    return tuple(Var(str(index), field) for index, field in enumerate(ty.fields))


def states_of(mod: IRModule) -> Own:
    """The optimizer's states by their index, as they are without storage, and their storage."""
    stored, arrays = mod.attrs.get(STORED_OPTIM_STATES), stored_states(mod)
    if stored is None:
        return arrays, Storage.apart(len(arrays))
    storage = Storage(read(Place, stored))
    return _own(storage, list(map(str, range(len(storage.places)))), arrays)


def _own(storage: Storage, names: Sequence[str], arrays: Sequence[Var]) -> Own:
    types = storage.types_outside(arrays)
    return tuple(Var(name, ty) for name, ty in zip(names, types, strict=True)), storage


def with_stored_params(mod: IRModule, names: Sequence[str], storage: Storage) -> IRModule:
    """The module that states where its parameters are."""
    places = zip(names, written(storage.places), strict=True)
    stored = [{"name": name, **place} for name, place in places]
    return mod.with_attrs({PARAM_NUM: len(storage.members), STORED_PARAMS: stored})


def with_stored_states(mod: IRModule, storage: Storage) -> IRModule:
    """The module that states where the optimizer's states are."""
    return mod.with_attr(STORED_OPTIM_STATES, written(storage.places))


def rearranged(change: Callable[..., Any], *arrays: Any) -> Any:
    """What a change makes of arrays, which takes numpy's or JAX's and only moves their numbers.

    Of arrays of JAX's it is one, where they are, and has memory of its own. Numpy moves those that
    lie in memory of the host: JAX would compile a program for each shape there is, which takes
    longer than to start a trainer.
    """
    if is_numpy(arrays) or not all(map(_is_on_host, arrays)):
        return change(*arrays)
    moved = np.array(change(*map(np.asarray, arrays)), order="C")
    first = next(array for array in arrays if isinstance(array, jax.Array))
    return jax.device_put(moved, first.sharding if first.committed else None)


def is_numpy(arrays: Sequence[Any]) -> bool:
    return all(isinstance(array, np.ndarray) for array in arrays)


def _is_on_host(array: Any) -> bool:
    """Whether numpy can read the memory of an array, and JAX take its numbers back as they are."""
    if isinstance(array, np.ndarray):
        return True
    if isinstance(array, Tracer) or not isinstance(array, jax.Array):
        return False
    if jnp.issubdtype(array.dtype, extended) or canonicalize_dtype(array.dtype) != array.dtype:
        return False  # random keys, and 64 bits where these are switched off
    devices: list[Any] = list(array.sharding.device_set)
    return len(devices) == 1 and devices[0].platform == "cpu"
