"""Arrays that are rows of one stack where a step has them, and arrays of their own outside."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType

from .door import tensor_type

# The attributes that say where each of the user's parameters is, and each of their states.
ROLLED_PARAMS = "rolled_params"
ROLLED_OPTIM_STATES = "rolled_optim_states"


@dataclass(frozen=True)
class Stacks:
    """The user's arrays behind those of a step: in each, one of its own, or the rows of a stack.

    `places` says of each of the user's arrays, in order, the number of the array that has it, and
    its row there, or -1.
    """

    places: tuple[tuple[int, int], ...]

    @staticmethod
    def apart(count: int) -> "Stacks":
        """Every array is its own."""
        return Stacks(tuple((number, -1) for number in range(count)))

    def apart_of(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The user's arrays; of a stack without a value, whatever parts it has."""
        return tuple(
            arrays[array] if row < 0 else None if arrays[array] is None else arrays[array][row]
            for array, row in self.places
        )

    def together(self, own: Sequence[Any]) -> tuple[Any, ...]:
        """The arrays of a step; a stack whose parts have no values yet stays in parts."""
        return tuple(
            own[rows[0]] if self.places[rows[0]][1] < 0 else _stacked([own[n] for n in rows])
            for rows in self.members
        )

    @property
    def members(self) -> list[list[int]]:
        """The numbers of the user's arrays in each array, a row after the other."""
        found: dict[int, dict[int, int]] = {}
        for number, (array, row) in enumerate(self.places):
            found.setdefault(array, {})[row] = number
        return [[rows[row] for row in sorted(rows)] for _, rows in sorted(found.items())]


def _stacked(parts: Sequence[Any]) -> Any:
    """A stack, or the parts themselves as long as some are missing."""
    if all(part is None for part in parts):
        return None
    return tuple(parts) if any(part is None for part in parts) else jnp.stack(parts)


Own = tuple[tuple[Var, ...], Stacks]


def params_of(mod: IRModule, params: tuple[Var, ...]) -> Own:
    """The user's parameters behind those of a module's functions, and where they are."""
    rolled = mod.attrs.get(ROLLED_PARAMS)
    if rolled is None:
        return params, Stacks.apart(len(params))
    own = tuple(
        params[array] if row < 0 else Var(name, _row_type(params[array]))
        for name, array, row in rolled
    )
    return own, Stacks(tuple((array, row) for _, array, row in rolled))


def states_of(mod: IRModule, states: tuple[Var, ...]) -> Own:
    """The optimizer's states by their index, as they are without stacks, and where they are."""
    rolled = mod.attrs.get(ROLLED_OPTIM_STATES)
    if rolled is None:
        return states, Stacks.apart(len(states))
    own = tuple(
        Var(str(index), states[array].ty if row < 0 else _row_type(states[array]))
        for index, (array, row) in enumerate(rolled)
    )
    return own, Stacks(tuple((array, row) for array, row in rolled))


def _row_type(stack: Var) -> TensorType:
    ty = tensor_type(stack)
    assert ty.dims is not None
    return TensorType(ty.dims[1:], ty.dtype, vdevice=ty.vdevice)
